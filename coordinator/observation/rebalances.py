"""Derives rebalances from refreshes of a group, with their causes and bounds for their durations. Pure.

Brokers show neither cause nor duration, so both come from comparing refreshes. A rebalance between two refreshes that
changes neither members nor their assignments is not detected.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bellwether_kafka.assignors.shared import Moves
from bellwether_kafka.coordinator.membership import AT_REST
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.planning import Cause, CauseKind
from bellwether_kafka.protocol.primitives import TopicPartition

LINES_MAX = 50
UNSEEN = frozenset({"missing", "other", "unknown"})
CHANGED = {
    (True, True): CauseKind.EXCHANGED,
    (True, False): CauseKind.JOINED,
    (False, True): CauseKind.LEFT,
}  # by (members joined, members left)
UNKNOWN = Cause(CauseKind.AGAIN, "")
UNKNOWN_CAUSE = "unknown"  # in reports and events, for a rebalance of unknown cause

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class SeenRebalance:
    """A rebalance found by refreshes. `seen_at_ms` (epoch) is the first refresh that showed it or its effects. `cause`
    is "" and `kind` AGAIN if unknown. `lasted_ms_max` is None while it runs, or if it began before the first refresh.
    `moves` counts partitions, None if there is nothing to compare with."""

    seen_at_ms: int
    cause: str
    lasted_ms_min: int
    lasted_ms_max: int | None
    running: bool
    moves: Moves | None
    kind: CauseKind = CauseKind.AGAIN


class Rebalances:
    """The rebalances of one group. `observe` must get its observations in order."""

    def __init__(self) -> None:
        self._ended: deque[SeenRebalance] = deque(maxlen=LINES_MAX)
        self._rest: Observation | None = None  # the last refresh that showed the group at rest
        self._first: Observation | None = None  # the first refresh since then; all since then showed a rebalance
        self._last: Observation | None = None

    def lines(self) -> tuple[SeenRebalance, ...]:
        """Returns the rebalances, the newest first, beginning with one that still runs."""
        if self._first is None or self._last is None:
            return tuple(self._ended)
        lasts_ms = self._last.seen_at_ms - self._first.seen_at_ms
        cause = cause_of(self._rest, self._last) if self._rest is not None else UNKNOWN
        running = SeenRebalance(self._first.seen_at_ms, cause.sentence, lasts_ms, None, True, None, cause.kind)
        return running, *self._ended

    def observe(self, seen: Observation) -> SeenRebalance | None:
        """Takes an observation. Returns the rebalance whose end it shows, or None."""
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
    """Returns whether the observed assignment is in force, so that it can be compared with a later one."""
    return seen.kind not in UNSEEN and seen.state in AT_REST


def cause_of(before: Observation, after: Observation) -> Cause:
    """Returns the cause that two observations show (members, subscriptions or partition counts), else UNKNOWN."""
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
    """Returns the moves between two assignments, each a mapping from items to owners."""
    both = had.keys() & has.keys()
    kept = sum(had[partition] == has[partition] for partition in both)
    return Moves(kept, len(both) - kept, len(has) - len(both), len(had) - len(both))


def _by_key(members: Iterable[ObservedMember]) -> dict[str, ObservedMember]:
    """Returns the members by instance id, which survives a restart, or else by member id."""
    return {member.instance_id or member.member_id: member for member in members}


def _had(seen: Observation) -> dict[str, tuple[TopicPartition, ...]]:
    return {key: member.owned for key, member in _by_key(seen.members).items()}


def _owners(seen: Observation) -> dict[TopicPartition, str]:
    return {partition: key for key, owned in _had(seen).items() for partition in owned}


def _named(members: Iterable[ObservedMember]) -> str:
    """Lists members by their client ids, which operators know."""
    counts = Counter(member.client_id or member.member_id for member in members)
    return listed([name if number == 1 else f"{name} ({number} members)" for name, number in sorted(counts.items())])
