"""What threads say of their tasks that the topology cannot explain: the sign of another version of the application.

A thread that has had a task for a while either runs it or restores it, and says which in its next JoinGroup
(docs/reference/streams.md#the-topology-is-not-on-the-wire). By a topology that is right

* only a task with a changelog has an offset sum;
* a task that has restored all of its changelogs runs, and so has the sum -2: one that is at their end and does not run
  waits for a changelog that the topology lacks, and that nobody makes;
* a task with changelogs has an offset sum.

The first is certain. The others need a second report of the same thread, a while later: the first may have come in the
moment before a task runs. Pure; times are epoch milliseconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers.work.reports import new_reports
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from bellwether_kafka.protocol.primitives import TaskId

HAD_MS = 5_000  # for so long a thread must have had a task before what it says of it counts
AGAIN_MS = 3_000  # between two reports that say the same
REPORTS_SINCE = 7  # the version from which "running" is said by the sum -2

Held = tuple[str, TaskId]  # member id, task
StatedTasks = Mapping[TaskId, int]  # offset sums, by task


@dataclass(frozen=True, slots=True)
class Fact:
    """What a thread said of a task that the topology cannot explain. `certain`: once is enough."""

    member_id: str
    task: TaskId
    statement: str
    certain: bool = False

    @property
    def sentence(self) -> str:
        return f"member {self.member_id} has task {self.task} {self.statement}"


@dataclass(frozen=True, slots=True)
class _Claims:
    """One thread's JoinGroup."""

    member_id: str
    owned: frozenset[tuple[str, int]]
    sums: StatedTasks


@dataclass(slots=True)
class Evidence:
    """One application's. `planned` takes every delivered plan, in order."""

    _since: dict[Held, int] = field(default_factory=dict)  # since when each thread has had its tasks
    _bytes: dict[str, bytes] = field(default_factory=dict)
    _once: dict[tuple[str, TaskId, str], int] = field(default_factory=dict)  # facts that need a second report
    _runs: frozenset[Held] = frozenset()

    @property
    def asks_again(self) -> bool:
        """Something has been said once that would be a fact if it was said again."""
        return bool(self._once)

    def runs(self, member_id: str, task: TaskId) -> bool:
        """The thread has said that it runs this task."""
        return (member_id, task) in self._runs

    def forget(self) -> None:
        self._since, self._bytes, self._once, self._runs = {}, {}, {}, frozenset()

    def planned(self, decision: Decision[TaskPlan]) -> tuple[Fact, ...]:
        """What the threads of this rebalance have said against the topology; () for nothing."""
        now_ms = decision.decided_at_ms
        claims = list(_claims(decision, self._bytes))
        self._bytes = {m.member_id: m.metadata for m in decision.plan.joined}
        found = [fact for thread in claims for fact in self._of_thread(decision, thread)]
        keys = {(f.member_id, f.task, f.statement): now_ms for f in found if not f.certain}
        certain = [f for f in found if f.certain or self._claimed_before(f, now_ms)]
        # Threads that did not come again have said nothing new.
        heard = {thread.member_id for thread in claims}
        kept = {key: at for key, at in self._once.items() if key[0] not in heard or key in keys}
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
        """Since when each thread has had its tasks, by this plan."""
        plan, before = decision.plan, self._since
        holder = plan.out.holder.tolist()
        held = [(plan.joined[row].member_id, plan.view.tasks.task_id(t)) for t, row in enumerate(holder) if row >= 0]
        self._since = {key: before.get(key, decision.decided_at_ms) for key in held}


def contradiction(*, stateful: bool, end: int | None, value: int | None) -> tuple[str, bool] | None:
    """What is odd about a task that a thread has had for a while and of which it reports `value` (None: nothing), and
    whether that is certain. `stateful` and `end` are the topology's, `end` None where it is not known."""
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
    """What each thread said in this rebalance. One that did not come again is listed with its former bytes."""
    for member_id, subscription, info in new_reports(decision, before):
        if info.future or info.version < REPORTS_SINCE:
            continue
        owned = frozenset((tp.topic, tp.partition) for tp in subscription.owned_partitions)
        sums = {TaskId(task.subtopology, task.partition): value for task, value in info.task_offset_sums}
        yield _Claims(member_id, owned, sums)
