"""Short ids of members and processes, for people: what distinguishes one from all others of its group. Pure.

A member's id is what it calls itself (a client id, or the instance id of a static member) and a UUID of the broker's
(docs/reference/broker-behaviour.md#leader-succession).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from bellwether_kafka.coordinator.observation.observation import Observation

UUID_CHARS_MIN = 4
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
Called = Mapping[str, frozenset[str]]  # by id, what else its owner is called


def short_ids(seen: Observation) -> dict[str, str]:
    """By id of a member, or of a process of an application: a client id or an instance id that nobody else has, else as
    much of the id as no other begins with. `full_ids` turns each back."""
    called = _called(seen)
    uses = Counter(name for names in called.values() for name in names)
    return {full: _name(full, called, uses) or begins for full, begins in _beginnings(called, uses)}


def full_ids(seen: Observation, text: str) -> tuple[str, ...]:
    """The ids that this may stand for: an id as a whole, else a client id or an instance id, else how an id begins.
    Empty for what nobody is called."""
    called = _called(seen)
    if text in called:
        return (text,)
    named = tuple(full for full, names in called.items() if text in names)
    return named or tuple(full for full in called if text and full.startswith(text))


def _called(seen: Observation) -> Called:
    found = {m.member_id: frozenset(filter(None, (m.client_id, m.instance_id))) for m in seen.members}
    owners = seen.shadow.decision.plan.owners if seen.shadow is not None else ()
    return {owner.name: frozenset[str]() for owner in owners} | found


def _name(full: str, called: Called, uses: Mapping[str, int]) -> str | None:
    """The shortest of its own names, None where each of them is another one's, too."""
    own = [name for name in called[full] if uses[name] == 1 and (name == full or name not in called)]
    return min(own, key=lambda name: (len(name), name), default=None)


def _beginnings(called: Called, uses: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Every id with a beginning that tells it from the others: in their order those beside it are the most alike."""
    ordered = ["", *sorted(called), ""]
    for before, full, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
        uuid = _UUID.search(full)
        alike = max(_alike(full, before), _alike(full, after))
        length = max(alike + 1, (uuid.start() if uuid else 0) + UUID_CHARS_MIN)
        while full[:length] in uses and length < len(full):
            length += 1
        yield full, full[:length]


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
