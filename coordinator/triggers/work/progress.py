"""The commits of an application's tasks, each task by the member that owns it: commits of other members prove nothing.

A task makes progress when the group's committed offset of one of its source partitions moves, or when there is nothing
to read. If nothing was ever committed, only records newer than the first poll count, because the application may start
at the end. Pure; times are milliseconds by a clock that is never set, offsets are arrays over the flat partitions in
the cluster view of the last plan.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.protocol.primitives import TaskId

NOTHING_COMMITTED = -1
UNREAD_MIN = 2  # one position may be a transaction marker, which is never read
RHYTHMS = 3  # how many usual intervals may pass without a commit
NEVER = -1
GONE = -2  # the row of a member that has left

OwnedTask = tuple[str, TaskId]  # member id, task


@dataclass(slots=True)
class Tasks:
    """Arrays over the tasks of one plan. `committed`: the present owner has committed since it got the task. `polled`:
    offsets were read since then; commits from before belong to the former owner. `waits`: there are records to read,
    and the last poll showed no commit. `after`: the last commit was made after this time, NEVER for none. `since`:
    since when there have been records to read without a commit. `last`: the last commit, NEVER if there has been
    nothing to read since. `interval`: between the last two commits, 0 if unknown."""

    committed: BoolArray
    polled: BoolArray
    waits: BoolArray
    after: LongArray
    since: LongArray
    last: LongArray
    interval: LongArray

    @classmethod
    def begin(cls, size: int, now_ms: int) -> "Tasks":
        return cls(
            committed=np.zeros(size, dtype=np.bool_),
            polled=np.zeros(size, dtype=np.bool_),
            waits=np.zeros(size, dtype=np.bool_),
            after=np.full(size, NEVER, dtype=np.int64),
            since=np.full(size, now_ms, dtype=np.int64),
            last=np.full(size, NEVER, dtype=np.int64),
            interval=np.zeros(size, dtype=np.int64),
        )

    def change_owner(self, changed: BoolArray, now_ms: int) -> None:
        self.committed[changed] = self.polled[changed] = self.waits[changed] = False
        self.since[changed], self.last[changed], self.after[changed] = now_ms, NEVER, NEVER

    def poll(self, moved: BoolArray, unread: BoolArray, before_ms: int, now_ms: int) -> None:
        """Takes the tasks whose offsets have moved since the poll at `before_ms`, and those with records to read."""
        counted = moved & self.polled
        self.after = np.where(counted, before_ms, self.after)
        self.waits = unread & ~moved
        self.interval = np.where(counted & (self.last != NEVER), now_ms - self.last, self.interval)
        self.last = np.where(counted, now_ms, np.where(self.waits, self.last, NEVER))
        self.since = np.where(self.waits, self.since, now_ms)
        self.committed = self.committed | counted
        self.polled[:] = True


@dataclass(slots=True)
class Progress:
    """The progress of one application. `planned` takes every delivered plan, in order."""

    decision: Decision[TaskPlan] | None = None
    _tasks: Tasks = field(default_factory=lambda: Tasks.begin(0, 0))
    _offsets: LongArray | None = None  # committed, as of the last poll
    _polled_ms: int = 0
    _first_end: LongArray | None = None

    def planned(self, decision: Decision[TaskPlan]) -> None:
        """Takes a plan that the broker has accepted. Tasks that stay with their member keep their history."""
        last, self.decision = self.decision, decision
        if last is None or not _same_partitions(last, decision):
            self._offsets = self._first_end = None
            self._tasks = Tasks.begin(decision.plan.view.tasks.size, decision.decided_at_ms)
            return
        row = {m.member_id: i for i, m in enumerate(decision.plan.joined)}
        row_now = np.array([*(row.get(m.member_id, GONE) for m in last.plan.joined), NOBODY], dtype=np.int64)
        self._tasks.change_owner(
            row_now[last.plan.out.holder] != decision.plan.out.holder,
            decision.decided_at_ms,
        )

    def forget(self) -> None:
        self.decision = self._offsets = self._first_end = None
        self._tasks = Tasks.begin(0, 0)

    def unknown(self, now_ms: int) -> None:
        """Starts anew after a broker did not answer, because members could not commit then either."""
        self._tasks.since[:] = now_ms

    def observe(self, committed: LongArray, ends: LongArray, now_ms: int) -> None:
        """Takes the offsets of the last plan's partitions: NOTHING_COMMITTED where the group has none; an end below 0
        is unknown and never counts as unread."""
        decision, before, first_end = self.decision, self._offsets, self._first_end
        if decision is None:
            return
        before_ms, self._offsets, self._polled_ms = self._polled_ms, committed, now_ms
        if before is None or first_end is None or len(before) != len(committed):
            self._first_end = ends
            self._tasks.since[:], self._tasks.polled[:] = now_ms, True
            return
        start = np.where(committed == NOTHING_COMMITTED, first_end, committed)
        moved, unread = committed != before, (ends >= 0) & (ends - start >= UNREAD_MIN)
        self._tasks.poll(_per_task(decision, moved), _per_task(decision, unread & ~moved), before_ms, now_ms)

    @property
    def usual_ms(self) -> int | None:
        """How often a task of the application commits while it has records to read; None before two commits."""
        intervals = self._tasks.interval[self._tasks.interval > 0]
        return int(np.median(intervals)) if len(intervals) else None

    @property
    def waits(self) -> BoolArray:
        """By task, whether there are records to read, and the last poll showed no commit."""
        return self._tasks.waits

    @property
    def silent(self) -> BoolArray:
        """By task, whether there are records to read, and its owner has committed nothing since it got the task."""
        return self._tasks.waits & ~self._tasks.committed

    def stalled(self, stall_ms: int, now_ms: int) -> tuple[TaskId, ...]:
        """Returns the tasks that have not progressed for so long, and for a few of the application's intervals."""
        patience_ms = max(stall_ms, RHYTHMS * (self.usual_ms or 0))
        return self.ids(self._tasks.waits & (now_ms - self._tasks.since >= patience_ms))

    def committed(self) -> dict[OwnedTask, int]:
        """Returns the tasks that their present owners have committed, each with a time that the last commit came
        after."""
        by_task = self._tasks.committed
        owned = zip(self._owners(by_task), self.ids(by_task), strict=True)
        return dict(zip(owned, self._tasks.after[by_task].tolist(), strict=True))

    def idle(self, members: frozenset[str]) -> frozenset[str]:
        """Returns those of `members` that have had nothing to read, so that it cannot be seen whether they work."""
        return members - frozenset(self._owners(self._tasks.waits | self._tasks.committed))

    def owned_by(self, members: frozenset[str], tasks: BoolArray) -> dict[str, tuple[TaskId, ...]]:
        """Returns which of these tasks each of `members` owns, without those that own none."""
        owned: dict[str, list[TaskId]] = {}
        for member, task in zip(self._owners(tasks), self.ids(tasks), strict=True):
            if member in members:
                owned.setdefault(member, []).append(task)
        return {member: tuple(ids) for member, ids in owned.items()}

    def ids(self, tasks: BoolArray) -> tuple[TaskId, ...]:
        decision = self.decision
        if decision is None:
            return ()
        return tuple(decision.plan.view.tasks.task_id(task) for task in np.flatnonzero(tasks).tolist())

    def _owners(self, tasks: BoolArray) -> list[str]:
        """Returns the member that owns each of these tasks, "" for none."""
        if self.decision is None:
            return []
        plan = self.decision.plan
        return [plan.joined[row].member_id if row != NOBODY else "" for row in plan.out.holder[tasks].tolist()]


def _same_partitions(former: Decision[TaskPlan], latter: Decision[TaskPlan]) -> bool:
    return (
        former.cluster.topics == latter.cluster.topics
        and np.array_equal(former.cluster.counts, latter.cluster.counts)
        and np.array_equal(former.plan.tasks.task_of, latter.plan.tasks.task_of)
    )


def _per_task(decision: Decision[TaskPlan], of_partition: BoolArray) -> BoolArray:
    """Returns, by task, whether the value is True for any of its partitions."""
    by_task: BoolArray = np.zeros(decision.plan.view.tasks.size + 1, dtype=np.bool_)
    by_task[decision.plan.tasks.task_of[of_partition]] = True
    return by_task[:-1]
