"""What members report of their tasks, and which reports prove that the topology is not the application's.

A thread that has owned a task for a while either runs or restores it, and reports which in its next JoinGroup
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

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers.work.progress import OwnedTask
from bellwether_kafka.protocol.messages import LATEST_OFFSET, ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TaskId

HAD_MS = 5_000  # how long a thread must have owned a task before its report of it counts
AGAIN_MS = 12_000  # least time between two equal reports; a broker's quota may stop a fetch for 11 s
RETRIES_MS = 120_000  # twice Kafka's default.api.timeout.ms
REPORTS_SINCE = 7  # from this version on the sum -2 means "running"


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

    def forget(self) -> None:
        self._since, self._bytes, self._reports, self._counts_from_ms = {}, {}, {}, 0

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
