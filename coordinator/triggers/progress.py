"""Detects tasks that are assigned but make no progress: a sign that Bellwether's topology is not the application's.

Pure; times are milliseconds by a clock that is never set. A task makes progress when the group's committed offset of
one of its source partitions moves, or when there is nothing to read. If nothing was ever committed, only records newer
than the first observation count, because the application may start at the end.
"""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, IntArray, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.protocol.primitives import TaskId

NOTHING_COMMITTED = -1
# One of the positions may be a transaction marker, which is never read.
UNREAD_MIN = 2


class Progress:
    """The progress of one application's tasks. Offsets are arrays over the flat partitions in the cluster of
    `decision`, which is the last plan."""

    def __init__(self, stall_ms: int) -> None:
        self._stall_ms = stall_ms
        self.decision: Decision[TaskPlan] | None = None
        self._holder: IntArray | None = None
        self._since: LongArray = np.zeros(0, dtype=np.int64)
        self._committed: LongArray | None = None
        self._first_end: LongArray | None = None

    def planned(self, decision: Decision[TaskPlan]) -> None:
        """Takes a plan that the broker has accepted. Tasks that stay with their process keep their times."""
        before, last, holder = self._holder, self.decision, decision.plan.target.active
        since = np.full(len(holder), decision.decided_at_ms, dtype=np.int64)
        same = last is not None and np.array_equal(last.plan.tasks.task_of, decision.plan.tasks.task_of)
        if before is not None and last is not None and same:
            names = [p.process_id for p in last.plan.view.processes]
            position = {name: i for i, name in enumerate(p.process_id for p in decision.plan.view.processes)}
            moved_to = np.array([*(position.get(name, NOBODY) for name in names), NOBODY], dtype=np.int32)
            since = np.where(moved_to[before] == holder, self._since, since)
        else:
            self._committed = self._first_end = None
        self.decision, self._holder, self._since = decision, holder, since

    def forget(self) -> None:
        self.decision = self._holder = self._committed = self._first_end = None

    def observe(self, committed: LongArray, ends: LongArray, now_ms: int) -> tuple[TaskId, ...]:
        """Takes the offsets of the partitions of `decision`; returns the tasks that have not progressed for too long.

        `committed` is NOTHING_COMMITTED where the group has no offset. An end below 0 is unknown and never counts as
        unread.
        """
        decision = self.decision
        if decision is None:
            return ()
        if self._committed is None or self._first_end is None or len(self._committed) != len(committed):
            # It is not known yet since when they have not progressed.
            self._committed, self._first_end = committed, ends
            self._since = np.full(len(self._since), now_ms, dtype=np.int64)
            return ()
        start = np.where(committed == NOTHING_COMMITTED, self._first_end, committed)
        moved = committed != self._committed
        waiting = (ends >= 0) & (ends - start >= UNREAD_MIN) & ~moved
        still = _per_task(decision, waiting) & ~_per_task(decision, moved)
        self._committed = committed
        self._since = np.where(still, self._since, now_ms)
        stuck = np.flatnonzero(still & (now_ms - self._since >= self._stall_ms))
        return tuple(decision.plan.view.tasks.task_id(task) for task in stuck.tolist())


def _per_task(decision: Decision[TaskPlan], of_partition: BoolArray) -> BoolArray:
    """Returns, by task, whether the value is True for any of its partitions."""
    by_task: BoolArray = np.zeros(decision.plan.view.tasks.size + 1, dtype=np.bool_)
    by_task[decision.plan.tasks.task_of[of_partition]] = True
    return by_task[:-1]
