"""Short ids for display, each unique among the members and processes of its group. Pure.

A member id consists of the client id, or a static member's instance id, and a UUID that the broker appends
(docs/internals/broker-behaviour.md#leader-succession).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from bellwether_kafka.coordinator.observation.observation import Observation

UUID_CHARS_MIN = 4
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
Called = Mapping[str, frozenset[str]]  # by id, the client id and instance id of its owner


def short_ids(seen: Observation) -> dict[str, str]:
    """Maps each id of a member or process to its client id or instance id if that is unique, else to a unique prefix of
    the id. `full_ids` is the inverse."""
    called = _called(seen)
    uses = Counter(name for names in called.values() for name in names)
    return {full: _name(full, called, uses) or begins for full, begins in _beginnings(called, uses)}


def full_ids(seen: Observation, text: str) -> tuple[str, ...]:
    """Returns the ids that `text` may mean: that id itself, else those with this client id or instance id, else those
    with this prefix. Empty if none matches."""
    called = _called(seen)
    if text in called:
        return (text,)
    named = tuple(full for full, names in called.items() if text in names)
    return named or tuple(full for full in called if text and full.startswith(text))


def _called(seen: Observation) -> Called:
    by_member = {m.member_id: frozenset(filter(None, (m.client_id, m.instance_id))) for m in seen.members}
    owners = seen.shadow.decision.plan.owners if seen.shadow is not None else ()
    return {owner.name: frozenset[str]() for owner in owners} | by_member


def _name(full: str, called: Called, uses: Mapping[str, int]) -> str | None:
    """Returns the shortest unique client id or instance id of this id, None if it has none."""
    own = [name for name in called[full] if uses[name] == 1 and (name == full or name not in called)]
    return min(own, key=lambda name: (len(name), name), default=None)


def _beginnings(called: Called, uses: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yields each id with a unique prefix. Only its neighbours in sorted order need comparing."""
    ordered = ["", *sorted(called), ""]
    for before, full, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
        uuid = _UUID.search(full)
        alike = max(_alike(full, before), _alike(full, after))
        length = max(alike + 1, (uuid.start() if uuid else 0) + UUID_CHARS_MIN)
        while full[:length] in uses and length < len(full):
            length += 1
        yield full, full[:length]


def _alike(name: str, other: str) -> int:
    """Returns the length of the common prefix."""
    pairs = enumerate(zip(name, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(name), len(other)))
