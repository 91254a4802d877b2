"""Why a round happened, told from two decisions: the leader is called back without a reason, but it can compare.

Pure. The kind is one of few words, for metric labels; the sentence names members and topics, for people.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from bellwether_kafka.assignors.consumer import Decision

NAMES_SHOWN = 4


class Kind(StrEnum):
    """What changed, the first that applies."""

    FIRST = "first plan"
    JOINED = "members joined"
    LEFT = "members left"
    EXCHANGED = "members joined and left"
    SUBSCRIPTIONS = "subscriptions changed"
    METADATA = "metadata changed"
    WITHHELD = "withheld partitions"
    PROBE = "probe"
    AGAIN = "nothing changed"


@dataclass(frozen=True, slots=True)
class Cause:
    """`members` are the ids of those that came or went: whom to look at when rounds do not end."""

    kind: Kind
    sentence: str
    members: tuple[str, ...] = ()


def cause(previous: Decision | None, decision: Decision, name: Callable[[str], str] = str) -> Cause:
    """Compares with the previous decision of the same group. `name` turns a member id into what people call it."""
    if previous is None:
        return Cause(Kind.FIRST, f"first plan, for {_counted(decision.group.size, 'member')}")
    came, went = _members(previous, decision)
    if came or went:
        kind = Kind.EXCHANGED if came and went else Kind.JOINED if came else Kind.LEFT
        said = [f"{_listed(sorted(map(name, came)))} joined"] * bool(came)
        said += [f"{_listed(sorted(map(name, went)))} left or died"] * bool(went)
        return Cause(kind, ", ".join(said), (*came, *went))
    topics = _topics(previous, decision)
    resubscribed = _resubscribed(previous, decision)
    if resubscribed:
        said = [f"{_listed(sorted(map(name, resubscribed)))} changed the subscription", *topics[:NAMES_SHOWN]]
        return Cause(Kind.SUBSCRIPTIONS, "; ".join(said))
    if topics:
        return Cause(Kind.METADATA, "; ".join(topics[:NAMES_SHOWN]))
    if previous.followup:
        waiting = int(previous.plan.withheld.sum())
        return Cause(Kind.WITHHELD, f"{_counted(waiting, 'partition')} given up by the former owner can be handed out")
    return Cause(Kind.AGAIN, "a member asked again, nothing changed")


def _members(previous: Decision, decision: Decision) -> tuple[list[str], list[str]]:
    before = {member.key: member.member_id for member in previous.group.members}
    after = {member.key: member.member_id for member in decision.group.members}
    came = [after[key] for key in after if key not in before]
    went = [before[key] for key in before if key not in after]
    return came, went


def _resubscribed(previous: Decision, decision: Decision) -> list[str]:
    before = {member.key: frozenset(member.topics) for member in previous.group.members}
    members = decision.group.members
    return [m.member_id for m in members if m.key in before and before[m.key] != frozenset(m.topics)]


def _topics(previous: Decision, decision: Decision) -> list[str]:
    old, new = previous.cluster, decision.cluster
    found: list[str] = []
    for topic in sorted(set(old.topics) | set(new.topics)):
        before = int(old.counts[old.index[topic]]) if topic in old.index else 0
        after = int(new.counts[new.index[topic]]) if topic in new.index else 0
        if before == 0 < after:
            found.append(f"topic {topic} appeared with {_counted(after, 'partition')}")
        elif after == 0 < before:
            found.append(f"topic {topic} is gone")
        elif before != after:
            found.append(f"topic {topic} went from {before} to {after} partitions")
    return found


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
