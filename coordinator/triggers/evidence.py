"""What shows whether members work on their tasks: the commits of each task by its owner, and what members report.

Commits. A task makes progress when the group's committed offset of one of its source partitions moves, or when there is
nothing to read. Commits of other members prove nothing. If nothing was ever committed, only records newer than the
first poll count, because the application may start at the end. Offsets are arrays over the flat partitions in the
cluster view of the last plan.

Reports. A thread that has owned a task for a while either runs or restores it, and reports which in its next JoinGroup
(docs/internals/streams.md#the-topology-is-not-on-the-wire). If the topology is right,

* only a task with a changelog has an offset sum;
* a task that runs has the sum -2, and the sum of one that is restored grows;
* a task with changelogs has an offset sum.

A contradiction to the first is certain. A sum that stays may also be that of a paused application (KIP-834), which runs
and restores nothing. So it counts only if the same member has committed for another of its tasks between the reports,
and only of a member that has not been seen to work on all of them since it joined: it waits for a changelog that the
topology lacks and that nobody makes. A task without a sum may wait for the lock on its directory, so it counts only
once the member has committed for it. Both need a second, later report. After a broker did not answer, reports do not
count for a while: what members ask it may wait (docs/internals/client-quirks.md#java-streams-threads). Pure; times are
milliseconds by a clock that is never set.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.protocol.messages import LATEST_OFFSET, ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TaskId

NOTHING_COMMITTED = -1
UNREAD_MIN = 2  # one position may be a transaction marker, which is never read
RHYTHMS = 3  # how many usual intervals may pass without a commit
NEVER = -1
GONE = -2  # the row of a member that has left
HAD_MS = 5_000  # how long a thread must have owned a task before its report of it counts
AGAIN_MS = 12_000  # least time between two equal reports; a broker's quota may stop a fetch for 11 s
RETRIES_MS = 120_000  # twice Kafka's default.api.timeout.ms
REPORTS_SINCE = 7  # from this version on the sum -2 means "running"

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


class Doing(Enum):
    """What a thread does with a task, by its reports."""

    RUNS = "runs"  # a task without state runs as soon as it is assigned
    RESTORES = "restores"
    WAITS = "waits"  # neither: its sum stays
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """A thread's report of a task that the topology cannot explain."""

    member_id: str
    task: TaskId
    statement: str

    @property
    def sentence(self) -> str:
        return f"member {self.member_id} has task {self.task} {self.statement}"


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The last report of a task. `value` is the offset sum, None for none; `first_ms` and `last_ms` are the times of
    the first and the last report with this value, `moved` is True if another one came before."""

    stateful: bool
    value: int | None
    first_ms: int
    last_ms: int
    moved: bool = False

    @property
    def repeated(self) -> bool:
        return self.last_ms - self.first_ms >= AGAIN_MS

    @property
    def doing(self) -> Doing:
        if self.value == LATEST_OFFSET or not self.stateful:
            return Doing.RUNS
        if self.repeated:
            return Doing.WAITS
        return Doing.RESTORES if self.moved else Doing.UNKNOWN


@dataclass(slots=True)
class Evidence:
    """The reports of one application. `planned` takes every delivered plan, in order."""

    _since: dict[OwnedTask, int] = field(default_factory=dict)  # since when each thread has owned its tasks
    _bytes: dict[str, bytes] = field(default_factory=dict)
    _reports: dict[OwnedTask, TaskReport] = field(default_factory=dict)
    _counts_from_ms: int = 0  # no report counts before

    def asks_again(self, member_id: str) -> bool:
        """Returns whether a second report of the member would show more."""
        return any(m == member_id and report.doing is not Doing.RUNS for (m, _), report in self._reports.items())

    def doing(self, member_id: str, task: TaskId) -> Doing:
        """Returns what a thread does with a task, as far as its reports show."""
        report = self._reports.get((member_id, task))
        return report.doing if report is not None else Doing.UNKNOWN

    def unknown(self, now_ms: int) -> None:
        """Records that a broker did not answer."""
        self._reports, self._counts_from_ms = {}, now_ms + RETRIES_MS

    def planned(
        self, decision: Decision[TaskPlan], unproven: Collection[str], committed: Mapping[OwnedTask, int]
    ) -> tuple[Fact, ...]:
        """Returns the reports in this rebalance that prove another topology; () for none. `unproven`: the members that
        have not been seen to work on all of their tasks since they joined. `committed`: the tasks that their owners by
        the plan before have committed, each with a time that the last commit came after."""
        reported, worked_ms = list(self._owned_sums(decision)), dict[str, int]()
        for (member_id, _), after_ms in committed.items():
            if member_id in unproven:
                worked_ms[member_id] = max(after_ms, worked_ms.get(member_id, after_ms))
        self._bytes = {m.member_id: m.metadata for m in decision.plan.joined}
        facts = [
            Fact(member_id, task, "and keeps state of it, which it has not by the topology")
            for member_id, task, stateful, value in reported
            if not stateful and value is not None
        ]
        for member_id, task, stateful, value in reported:
            self._reported(decision, (member_id, task), value, stateful=stateful)
            proof = self._proof((member_id, task), worked_ms, committed)
            facts += [Fact(member_id, task, proof)] if proof else []
        self._given(decision)
        return tuple(facts)

    def _reported(self, decision: Decision[TaskPlan], owned: OwnedTask, value: int | None, *, stateful: bool) -> None:
        """Takes a report. Without lags its time is that of the first one, because what keeps Bellwether from reading a
        changelog's end keeps members from restoring it."""
        now_ms, before = decision.decided_at_ms, self._reports.get(owned)
        same = before is not None and before.value == value
        first_ms = before.first_ms if before is not None and same and decision.plan.lags_known else now_ms
        moved = before is not None and (before.moved or not same)
        self._reports[owned] = TaskReport(stateful, value, first_ms, now_ms, moved)

    def _proof(self, owned: OwnedTask, worked_ms: Mapping[str, int], committed: Collection[OwnedTask]) -> str:
        """Returns what the reports of a task prove, "" for nothing. `worked_ms`: of members that have not been seen to
        work on all of their tasks, a time after which they have committed for some of them."""
        report = self._reports[owned]
        if report.doing is not Doing.WAITS:
            return ""
        if report.value is None:
            return "and keeps no state of it, which it has by the topology" if owned in committed else ""
        if owned in committed or worked_ms.get(owned[0], -1) < report.first_ms:
            return ""
        return "and neither runs nor restores it, while it works on others: it must have a changelog that is not there"

    def _owned_sums(self, decision: Decision[TaskPlan]) -> Iterator[tuple[str, TaskId, bool, int | None]]:
        """Yields each task that a thread has owned for a while and reports on now: member id, task, whether it is
        stateful, and its sum, None for none."""
        plan, now_ms = decision.plan, decision.decided_at_ms
        owners = plan.topology.subtopology_of
        for member_id, subscription, info in new_reports(decision, self._bytes):
            if info.future or info.version < REPORTS_SINCE:
                continue
            sums = {TaskId(task.subtopology, task.partition): value for task, value in info.task_offset_sums}
            owned = {TaskId(owners[p.topic], p.partition) for p in subscription.owned_partitions if p.topic in owners}
            for task in sorted(owned):
                index = int(plan.tasks.index(np.array([task.subtopology]), np.array([task.partition]))[0])
                since_ms = max(self._since.get((member_id, task), now_ms), self._counts_from_ms)
                if index >= 0 and now_ms - since_ms >= HAD_MS:
                    yield member_id, task, bool(plan.view.tasks.stateful[index]), sums.get(task)

    def _given(self, decision: Decision[TaskPlan]) -> None:
        """Updates since when each thread has owned its tasks by this plan."""
        plan, before = decision.plan, self._since
        holder = plan.out.holder.tolist()
        assigned = [
            (plan.joined[row].member_id, plan.view.tasks.task_id(t)) for t, row in enumerate(holder) if row >= 0
        ]
        self._since = {key: before.get(key, decision.decided_at_ms) for key in assigned}
        self._reports = {key: report for key, report in self._reports.items() if key in self._since}


def new_reports(
    decision: Decision[TaskPlan], before: Mapping[str, bytes]
) -> Iterator[tuple[str, ConsumerProtocolSubscription, SubscriptionInfo]]:
    """Yields the reports that can be decoded. A member that did not join again is listed with its former metadata,
    which `before` has by member id."""
    for member in decision.plan.joined:
        if before.get(member.member_id) == member.metadata:
            continue
        try:
            subscription = ConsumerProtocolSubscription.decode(member.metadata)
            info = SubscriptionInfo.decode(subscription.user_data or b"")
        except RemoteProtocolError:
            continue
        yield member.member_id, subscription, info
