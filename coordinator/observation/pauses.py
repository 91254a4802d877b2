"""How long partitions or tasks had no owner. Pure.

A leader knows to the moment: what an owner gives up for another one has none from the SyncGroup answer that takes it
to the one that gives it; what a member had that left or died has none from the beginning of the rebalance that finds
out. In an eager group that goes for everything, in every rebalance. How long a member had been dead before its
rebalance began (up to its session) no broker shows to anybody. Looks know how long a rebalance lasted at most.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, IntArray
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation.observation import Observation
from bellwether_kafka.coordinator.observation.rebalances import SeenRebalance
from bellwether_kafka.coordinator.planning import CauseKind, PlannedRebalance


@dataclass(frozen=True, slots=True)
class Pause:
    """`items` partitions or tasks that lost their owner at the same moment and have one again; by the cause of the
    rebalance that took it."""

    seconds: float
    items: int
    cause: CauseKind


@dataclass(frozen=True, slots=True)
class _Start:
    """When some items lost their owner, in seconds on the clock of `Timings`, and why."""

    at: float
    cause: CauseKind


class Pauses:
    """Of one group that Bellwether leads. `delivered` takes every rebalance that the broker has, in their order. What
    was before the first one is not known and no pause of Bellwether's."""

    def __init__(self) -> None:
        self._last: Decision[GroupPlan] | None = None
        self._starts: tuple[_Start, ...] = ()
        self._start_of: IntArray = np.zeros(0, dtype=np.int32)  # by item, NOBODY for what has an owner

    def delivered(self, planned: PlannedRebalance[GroupPlan]) -> tuple[Pause, ...]:
        """The pauses that end with this rebalance."""
        decision, timings = planned.chosen.decision, planned.timings
        plan, kind = decision.plan, planned.cause.kind
        began_at = timings.joined_at - timings.join_s
        ended_at = timings.joined_at + timings.metadata_s + timings.plan_s + timings.sync_s
        known = self._starts if self._is_alike(decision) else ()
        began, ended = len(known), len(known) + 1
        starts = (*known, _Start(began_at, kind), _Start(ended_at, kind))
        waiting = self._start_of if known else np.full(len(plan.owner), NOBODY, dtype=np.int32)
        since = np.where(waiting == NOBODY, began, waiting)
        given = (plan.owner != NOBODY) & ~plan.pending
        lost = (plan.before == NOBODY) | is_eager(plan.words.kind, decision.raw.protocol)
        found: tuple[Pause, ...] = ()
        if planned.previous is not None and not plan.shutdown:
            counts = np.bincount(since[given & lost], minlength=len(starts)).tolist()
            pairs = zip(starts, counts, strict=True)
            found = tuple(Pause(max(0.0, ended_at - start.at), n, start.cause) for start, n in pairs if n)
        self._wait(decision, starts, np.where(given, NOBODY, np.where(lost, since, ended)))
        return found

    def _wait(self, decision: Decision[GroupPlan], starts: tuple[_Start, ...], start_of: IntArray) -> None:
        used = np.bincount(start_of[start_of != NOBODY], minlength=len(starts)) > 0
        number = np.append(np.cumsum(used) - 1, NOBODY)  # the last one is that of NOBODY
        self._starts = tuple(start for start, is_used in zip(starts, used.tolist(), strict=True) if is_used)
        self._start_of = number[start_of].astype(np.int32)
        self._last = decision

    def _is_alike(self, decision: Decision[GroupPlan]) -> bool:
        """Whether items have the numbers that they had in the last rebalance."""
        if self._last is None:
            return False
        now, last = decision.plan, self._last.plan
        same = now.cluster.topics == last.cluster.topics and np.array_equal(now.cluster.counts, last.cluster.counts)
        return same and len(now.owner) == len(last.owner) and np.array_equal(now.item_of, last.item_of)


def seen_pause(seen: Observation, found: SeenRebalance) -> Pause | None:
    """Of a rebalance that this look at an observed group found ended: as long as it may have lasted at most. None where
    nothing lost its owner, or nobody knows how long."""
    if found.moves is None or found.lasted_ms_max is None:
        return None
    eager = seen.kind == "classic" and is_eager("consumer", seen.protocol)
    items = found.moves.moved + found.moves.new + (found.moves.kept if eager else 0)
    return Pause(found.lasted_ms_max / 1000, items, found.kind) if items else None


def is_eager(kind: str, protocol: str) -> bool:
    """Whether members of such a group give up all that they have in each rebalance."""
    return kind == "consumer" and protocol != STREAMS_PROTOCOL and not Policy().cooperative(protocol)
