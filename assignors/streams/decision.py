"""What a decision on a Streams group is: a frozen value, of which logs, metrics, events and pages are projections."""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import (
    BoolArray,
    ClusterView,
    IntArray,
    LongArray,
    Moves,
    RawGroup,
    StageReport,
)
from bellwether_kafka.assignors.streams.application import (
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
    TaskMap,
    ThreadPlan,
    Topology,
)
from bellwether_kafka.assignors.streams.members import ProcessMap, StreamsMemory
from bellwether_kafka.assignors.streams.sending import Outgoing
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """One instance after this round, in numbers of tasks. `withheld` of its active tasks are not sent yet."""

    process_id: ProcessId
    members: tuple[str, ...]
    rack: str | None
    endpoint: HostInfo | None
    active_stateful: int
    active_stateless: int
    standby: int
    warmup: int
    withheld: int


@dataclass(frozen=True, slots=True)
class CopyLag:
    """A standby copy and how far it is behind. `lag` is in records, UNKNOWN_OFFSET_SUM where nothing is known;
    `age_ms` is the age of the report, None where the process reported nothing (then it restores everything)."""

    task: TaskId
    process_id: ProcessId
    warmup: bool
    lag: int
    age_ms: int | None


@dataclass(frozen=True, slots=True, eq=False)
class StreamsDecision:
    """Everything about one round of a Streams group.

    `tasks` and `view` give the coordinates; `plan` and `threads` are the target. `withheld[task]` is not sent yet;
    `temporary` are (row of `out`, task) standbys that only keep a store open meanwhile. `before[task]` is the process
    that runs it now. `report_at_ms` is parallel to `view.report_task`. `assignments` has (member id, bytes) for every
    member id of `raw`, our own included. `probing_at_ms` is when we should rejoin to promote warm-ups, None: no need.
    `memory` is to be remembered once SyncGroup has succeeded, not before. `shutdown`: the application asked to stop and
    is told so; `plan` is empty then.
    """

    raw: RawGroup
    cluster: ClusterView
    topology: Topology
    configs: AssignmentConfigs
    policy: str
    decided_at_ms: int
    seed: int
    tasks: TaskMap
    view: StreamsView
    process_map: ProcessMap
    plan: StreamsPlan
    threads: ThreadPlan
    withheld: BoolArray
    temporary: IntArray
    out: Outgoing
    before: IntArray
    report_at_ms: LongArray
    assignments: tuple[tuple[str, bytes], ...]
    moves: Moves
    probing_at_ms: int | None
    warnings: tuple[str, ...]
    memory: StreamsMemory
    shutdown: bool = False

    @property
    def followup(self) -> bool:
        """Something is withheld, so another round must follow; the members that wait for it rejoin by themselves."""
        return bool(self.withheld.any())

    @property
    def stages(self) -> tuple[StageReport, ...]:
        """What each configured stage did, with its score before and after."""
        return self.plan.stages

    @property
    def lags_known(self) -> bool:
        return self.view.lags_known

    def processes(self) -> tuple[ProcessSummary, ...]:
        view, plan = self.view, self.plan
        size = view.size
        placed = plan.active >= 0
        stateful = view.tasks.stateful

        def count(process: IntArray) -> list[int]:
            return [int(n) for n in np.bincount(process, minlength=size)]

        numbers = zip(
            view.processes,
            count(plan.active[placed & stateful]),
            count(plan.active[placed & ~stateful]),
            count(plan.standby_process[~plan.warmup]),
            count(plan.standby_process[plan.warmup]),
            count(plan.active[placed & self.withheld]),
            strict=True,
        )
        return tuple(ProcessSummary(p.process_id, p.members, p.rack, p.endpoint, *counts) for p, *counts in numbers)

    def copy_lags(self) -> tuple[CopyLag, ...]:
        """Every standby and warm-up of the target, with its lag and the age of that number."""
        view = self.view
        rows = np.repeat(np.arange(view.size), np.diff(view.report_first))
        total = max(1, view.tasks.size)
        known = rows * total + view.report_task
        wanted = self.plan.standby_process.astype(np.int64) * total + self.plan.standby_task
        at = np.minimum(np.searchsorted(known, wanted), max(0, len(known) - 1))
        found = known[at] == wanted if len(known) else np.zeros(len(wanted), dtype=np.bool_)
        if len(view.recalled):
            found &= ~view.recalled[at]
        result: list[CopyLag] = []
        pairs = zip(self.plan.standby_task.tolist(), self.plan.standby_process.tolist(), strict=True)
        for (task, process), warmup, k, hit in zip(pairs, self.plan.warmup.tolist(), at, found, strict=True):
            lag = int(view.report_lag[k]) if hit else int(view.tasks.end_sum[task])
            age = self.decided_at_ms - int(self.report_at_ms[k]) if hit else None
            result.append(CopyLag(view.tasks.task_id(task), view.processes[process].process_id, warmup, lag, age))
        return tuple(result)

    def tasks_of(self, member_id: str) -> tuple[tuple[TaskId, ...], tuple[TaskId, ...]]:
        """(active, standby) tasks that this member is sent now."""
        foreign = [m.member_id for m in self.raw.others]
        if member_id not in foreign:
            return (), ()
        row = foreign.index(member_id)
        table = self.view.tasks
        active = np.flatnonzero(self.out.holder == row).tolist()
        standby = self.out.standby_task[self.out.standby_row == row].tolist()
        return tuple(map(table.task_id, active)), tuple(map(table.task_id, standby))
