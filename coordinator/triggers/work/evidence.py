"""Finds reports of threads that the topology cannot explain: the sign of another version of the application.

A thread that has owned a task for a while either runs or restores it, and reports which in its next JoinGroup
(docs/reference/streams.md#the-topology-is-not-on-the-wire). If the topology is right,

* only a task with a changelog has an offset sum;
* a task that has restored all of its changelogs runs, and its sum is -2: one that is at their end and does not run
  waits for a changelog that the topology lacks and that does not exist;
* a task with changelogs has an offset sum.

A contradiction to the first is certain. The others need a second, later report of the same thread, because the first
may have been sent just before the task began to run. Pure; times are milliseconds by a clock that is never set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers.work.reports import new_reports
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from bellwether_kafka.protocol.primitives import TaskId

HAD_MS = 5_000  # how long a thread must have owned a task before its report of it counts
AGAIN_MS = 3_000  # least time between two equal reports
REPORTS_SINCE = 7  # from this version on the sum -2 means "running"

OwnedTask = tuple[str, TaskId]  # member id, task
StatedTasks = Mapping[TaskId, int]  # offset sums, by task


@dataclass(frozen=True, slots=True)
class Fact:
    """A thread's report of a task that the topology cannot explain. `certain`: one report is enough."""

    member_id: str
    task: TaskId
    statement: str
    certain: bool = False

    @property
    def sentence(self) -> str:
        return f"member {self.member_id} has task {self.task} {self.statement}"


@dataclass(frozen=True, slots=True)
class _Claims:
    """The JoinGroup of one thread."""

    member_id: str
    owned: frozenset[tuple[str, int]]
    sums: StatedTasks


@dataclass(slots=True)
class Evidence:
    """The evidence of one application. `planned` takes every delivered plan, in order."""

    _since: dict[OwnedTask, int] = field(default_factory=dict)  # since when each thread has owned its tasks
    _bytes: dict[str, bytes] = field(default_factory=dict)
    _once: dict[tuple[str, TaskId, str], int] = field(default_factory=dict)  # facts that need a second report
    _runs: frozenset[OwnedTask] = frozenset()

    @property
    def asks_again(self) -> bool:
        """True if a report would become a fact by a second one."""
        return bool(self._once)

    def runs(self, member_id: str, task: TaskId) -> bool:
        """Returns whether the thread has reported that it runs this task."""
        return (member_id, task) in self._runs

    def forget(self) -> None:
        self._since, self._bytes, self._once, self._runs = {}, {}, {}, frozenset()

    def planned(self, decision: Decision[TaskPlan]) -> tuple[Fact, ...]:
        """Returns the reports in this rebalance that contradict the topology; () for none."""
        now_ms = decision.decided_at_ms
        claims = list(_claims(decision, self._bytes))
        self._bytes = {m.member_id: m.metadata for m in decision.plan.joined}
        facts = [fact for thread in claims for fact in self._of_thread(decision, thread)]
        keys = {(f.member_id, f.task, f.statement): now_ms for f in facts if not f.certain}
        certain = [f for f in facts if f.certain or self._claimed_before(f, now_ms)]
        # Threads that did not join again have reported nothing new.
        reporting = {thread.member_id for thread in claims}
        kept = {key: at for key, at in self._once.items() if key[0] not in reporting or key in keys}
        self._once = keys | kept
        self._runs = frozenset(
            (t.member_id, task) for t in claims for task, value in t.sums.items() if value == LATEST_OFFSET
        )
        self._given(decision)
        return tuple(certain)

    def _claimed_before(self, fact: Fact, now_ms: int) -> bool:
        at = self._once.get((fact.member_id, fact.task, fact.statement))
        return at is not None and now_ms - at >= AGAIN_MS

    def _of_thread(self, decision: Decision[TaskPlan], thread: _Claims) -> Iterator[Fact]:
        plan, now_ms = decision.plan, decision.decided_at_ms
        owners, table = plan.topology.subtopology_of, plan.view.tasks
        had = {TaskId(owners[topic], partition) for topic, partition in thread.owned if topic in owners}
        for task in sorted(had):
            if now_ms - self._since.get((thread.member_id, task), now_ms) < HAD_MS:
                continue
            index = int(plan.tasks.index(np.array([task.subtopology]), np.array([task.partition]))[0])
            if index < 0:
                continue
            end = int(table.end_sum[index]) if plan.lags_known else None
            odd = contradiction(stateful=bool(table.stateful[index]), end=end, value=thread.sums.get(task))
            if odd is not None:
                statement, certain = odd
                yield Fact(member_id=thread.member_id, task=task, statement=statement, certain=certain)

    def _given(self, decision: Decision[TaskPlan]) -> None:
        """Updates since when each thread has owned its tasks by this plan."""
        plan, before = decision.plan, self._since
        holder = plan.out.holder.tolist()
        assigned = [
            (plan.joined[row].member_id, plan.view.tasks.task_id(t)) for t, row in enumerate(holder) if row >= 0
        ]
        self._since = {key: before.get(key, decision.decided_at_ms) for key in assigned}


def contradiction(*, stateful: bool, end: int | None, value: int | None) -> tuple[str, bool] | None:
    """Returns how the report of a task contradicts the topology, and whether that is certain; None if it does not.
    `value` is the sum that a thread reports after owning the task for a while, None for no report. `stateful` and `end`
    are the topology's; `end` is None if it is not known."""
    if not stateful:
        return None if value is None else ("and keeps state of it, which it has not by the topology", True)
    if value is None:
        return "and keeps no state of it, which it has by the topology", False
    if value != LATEST_OFFSET and end is not None and value >= end:
        return (
            "and has restored all of its changelogs by the topology, but does not run it: there must be another one",
            False,
        )
    return None


def _claims(decision: Decision[TaskPlan], before: Mapping[str, bytes]) -> Iterator[_Claims]:
    """Yields the reports that are new in this rebalance. A thread that did not join again is listed with its former
    bytes."""
    for member_id, subscription, info in new_reports(decision, before):
        if info.future or info.version < REPORTS_SINCE:
            continue
        owned = frozenset((tp.topic, tp.partition) for tp in subscription.owned_partitions)
        sums = {TaskId(task.subtopology, task.partition): value for task, value in info.task_offset_sums}
        yield _Claims(member_id, owned, sums)
