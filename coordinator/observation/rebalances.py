"""The rebalances that refreshes of a group have shown, with what had changed and how long they lasted at least and at
most.

Brokers tell neither why nor how long a group rebalances, so both come from comparing looks. A rebalance between two
looks that changed neither members nor what they have leaves no trace. Pure.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bellwether_kafka.assignors.shared import Moves
from bellwether_kafka.coordinator.membership import AT_REST
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.planning import Cause, CauseKind, listed
from bellwether_kafka.protocol.primitives import TopicPartition

LINES_MAX = 50
UNSEEN = frozenset({"missing", "other", "unknown"})
CHANGED = {
    (True, True): CauseKind.EXCHANGED,
    (True, False): CauseKind.JOINED,
    (False, True): CauseKind.LEFT,
}  # by whether members came, and whether some went
UNKNOWN = Cause(CauseKind.AGAIN, "")
UNKNOWN_CAUSE = "unknown"  # in reports and events, for a rebalance without a cause that shows

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class SeenRebalance:
    """`seen_at_ms` is the first look that showed it or what it had changed, epoch. `cause` is "" and `kind` AGAIN where
    nothing is known. `lasted_ms_max` is None while the group rebalances, or where it did so at the first look already;
    `moves` count partitions and are None where the looks cannot be compared."""

    seen_at_ms: int
    cause: str
    lasted_ms_min: int
    lasted_ms_max: int | None
    running: bool
    moves: Moves | None
    kind: CauseKind = CauseKind.AGAIN


class Rebalances:
    """Of one group. `saw` takes its observations in their order."""

    def __init__(self) -> None:
        self._ended: deque[SeenRebalance] = deque(maxlen=LINES_MAX)
        self._rest: Observation | None = None  # the last look that showed the group at rest
        self._first: Observation | None = None  # of the looks since then, all of which showed it rebalancing
        self._last: Observation | None = None

    def lines(self) -> tuple[SeenRebalance, ...]:
        """The newest first."""
        if self._first is None or self._last is None:
            return tuple(self._ended)
        lasts_ms = self._last.seen_at_ms - self._first.seen_at_ms
        cause = cause_of(self._rest, self._last) if self._rest is not None else UNKNOWN
        running = SeenRebalance(self._first.seen_at_ms, cause.sentence, lasts_ms, None, True, None, cause.kind)
        return running, *self._ended

    def saw(self, seen: Observation) -> SeenRebalance | None:
        """The rebalance that this look shows to have ended, None for none."""
        if seen.kind in UNSEEN:
            return None
        if not at_rest(seen):
            self._first, self._last = self._first or seen, seen
            return None
        ended = None
        if self._first is not None and self._last is not None:
            ended = self._end(seen, self._first.seen_at_ms, self._last.seen_at_ms - self._first.seen_at_ms)
        elif self._rest is not None and _had(self._rest) != _had(seen):
            ended = self._end(seen, seen.seen_at_ms, 0)
        self._rest, self._first, self._last = seen, None, None
        if ended is not None:
            self._ended.appendleft(ended)
        return ended

    def _end(self, seen: Observation, began_ms: int, lasted_ms_min: int) -> SeenRebalance:
        before = self._rest
        if before is None:
            return SeenRebalance(began_ms, UNKNOWN.sentence, lasted_ms_min, None, False, None)
        lasted_ms_max, moved = seen.seen_at_ms - before.seen_at_ms, moves_between(_owners(before), _owners(seen))
        cause = cause_of(before, seen)
        return SeenRebalance(began_ms, cause.sentence, lasted_ms_min, lasted_ms_max, False, moved, cause.kind)


def at_rest(seen: Observation) -> bool:
    """Whether what members have is in force, so that it can be compared with what they have later."""
    return seen.kind not in UNSEEN and seen.state in AT_REST


def cause_of(before: Observation, after: Observation) -> Cause:
    """What has changed between two looks, UNKNOWN for nothing that they show."""
    had, has = _by_key(before.members), _by_key(after.members)
    came = [member for key, member in has.items() if key not in had]
    went = [member for key, member in had.items() if key not in has]
    message = [f"{_named(came)} joined"] * bool(came) + [f"{_named(went)} left or died"] * bool(went)
    if message:
        return Cause(CHANGED[bool(came), bool(went)], ", ".join(message))
    changed = [m for key, m in has.items() if m.topics and had[key].topics and set(m.topics) != set(had[key].topics)]
    if changed:
        return Cause(CauseKind.SUBSCRIPTIONS, f"{_named(changed)} changed the subscription")
    sizes = ((topic, len(before.lags[topic]), len(lags)) for topic, lags in after.lags.items() if topic in before.lags)
    grown = [f"topic {topic} went from {old} to {new} partitions" for topic, old, new in sizes if old != new]
    return Cause(CauseKind.METADATA, listed(grown)) if grown else UNKNOWN


def moves_between(had: Mapping[Item, str], has: Mapping[Item, str]) -> Moves:
    """From who has which item before to who has it after."""
    both = had.keys() & has.keys()
    kept = sum(had[partition] == has[partition] for partition in both)
    return Moves(kept, len(both) - kept, len(has) - len(both), len(had) - len(both))


def _by_key(members: Iterable[ObservedMember]) -> dict[str, ObservedMember]:
    """By what survives a restart."""
    return {member.instance_id or member.member_id: member for member in members}


def _had(seen: Observation) -> dict[str, tuple[TopicPartition, ...]]:
    return {key: member.owned for key, member in _by_key(seen.members).items()}


def _owners(seen: Observation) -> dict[TopicPartition, str]:
    return {partition: key for key, owned in _had(seen).items() for partition in owned}


def _named(members: Iterable[ObservedMember]) -> str:
    """By their client ids, which people have chosen."""
    counts = Counter(member.client_id or member.member_id for member in members)
    return listed([name if number == 1 else f"{name} ({number} members)" for name, number in sorted(counts.items())])
