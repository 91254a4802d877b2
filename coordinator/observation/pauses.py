"""How long partitions or tasks had no owner. Pure.

A leader measures this exactly. An item that moves between live members has no owner between the SyncGroup answer that
revokes it and the one that assigns it. An item whose owner left or died, and in an eager group every item, has no owner
from the beginning of the rebalance. How long a member was dead before that (up to its session timeout) is not visible.
For an observed group only an upper bound of a rebalance's duration is known.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, IntArray
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation.observation import Observation
from bellwether_kafka.coordinator.observation.rebalances import SeenRebalance
from bellwether_kafka.coordinator.planning import CauseKind, Planned


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of `items` partitions or tasks that lost their owner at the same moment and have one again. `cause` is
    that of the rebalance in which they lost it."""

    seconds: float
    items: int
    cause: CauseKind


@dataclass(frozen=True, slots=True)
class _Start:
    """When some items lost their owner, in seconds on the clock of `Timings`, and why."""

    at: float
    cause: CauseKind


class Pauses:
    """The pauses of one group that Bellwether leads. `delivered` must get all completed rebalances in order. Pauses
    before the first one are unknown and not counted."""

    def __init__(self) -> None:
        self._last: Decision[GroupPlan] | None = None
        self._starts: tuple[_Start, ...] = ()
        self._start_of: IntArray = np.zeros(0, dtype=np.int32)  # by item, NOBODY if it has an owner

    def delivered(self, planned: Planned[GroupPlan]) -> tuple[Pause, ...]:
        """Returns the pauses that end with this rebalance."""
        decision, timings = planned.decision, planned.timings
        plan, kind = decision.plan, planned.cause.kind
        began_at = timings.joined_at - timings.join_s
        ended_at = timings.joined_at + timings.metadata_s + timings.plan_s + timings.sync_s
        earlier = self._starts if self._is_alike(decision) else ()
        began, ended = len(earlier), len(earlier) + 1
        starts = (*earlier, _Start(began_at, kind), _Start(ended_at, kind))
        waiting = self._start_of if earlier else np.full(len(plan.owner), NOBODY, dtype=np.int32)
        since = np.where(waiting == NOBODY, began, waiting)
        given = (plan.owner != NOBODY) & ~plan.pending
        lost = (plan.before == NOBODY) | is_eager(plan.words.kind, decision.raw.protocol)
        pauses: tuple[Pause, ...] = ()
        if planned.previous is not None and not plan.shutdown:
            counts = np.bincount(since[given & lost], minlength=len(starts)).tolist()
            pairs = zip(starts, counts, strict=True)
            pauses = tuple(Pause(max(0.0, ended_at - start.at), n, start.cause) for start, n in pairs if n)
        self._wait(decision, starts, np.where(given, NOBODY, np.where(lost, since, ended)))
        return pauses

    def _wait(self, decision: Decision[GroupPlan], starts: tuple[_Start, ...], start_of: IntArray) -> None:
        used = np.bincount(start_of[start_of != NOBODY], minlength=len(starts)) > 0
        number = np.append(np.cumsum(used) - 1, NOBODY)  # the last entry is for NOBODY, -1
        self._starts = tuple(start for start, is_used in zip(starts, used.tolist(), strict=True) if is_used)
        self._start_of = number[start_of].astype(np.int32)
        self._last = decision

    def _is_alike(self, decision: Decision[GroupPlan]) -> bool:
        """Returns whether the items have the same indices as in the last rebalance."""
        if self._last is None:
            return False
        now, last = decision.plan, self._last.plan
        same = now.cluster.topics == last.cluster.topics and np.array_equal(now.cluster.counts, last.cluster.counts)
        return same and len(now.owner) == len(last.owner) and np.array_equal(now.item_of, last.item_of)


def seen_pause(seen: Observation, rebalance: SeenRebalance) -> Pause | None:
    """Returns the pause of a rebalance whose end a refresh showed, with the upper bound of its duration. None if no
    item lost its owner or the duration is unknown."""
    if rebalance.moves is None or rebalance.lasted_ms_max is None:
        return None
    eager = seen.kind == "classic" and is_eager("consumer", seen.protocol)
    items = rebalance.moves.moved + rebalance.moves.new + (rebalance.moves.kept if eager else 0)
    return Pause(rebalance.lasted_ms_max / 1000, items, rebalance.kind) if items else None


def is_eager(kind: str, protocol: str) -> bool:
    """Returns whether members of such a group revoke all their partitions in each rebalance."""
    return kind == "consumer" and protocol != STREAMS_PROTOCOL and not Policy().cooperative(protocol)
