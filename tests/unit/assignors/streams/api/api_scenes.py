"""Applications in plain words for the tests of the task assignor API: tasks as "0_1", processes by small numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Ragged
from bellwether_kafka.assignors.streams.api import (
    ApplicationState,
    AssignedTask,
    AssignmentError,
    InvalidAssignmentError,
    KafkaStreamsAssignment,
    TaskAssignment,
    check,
    from_view,
    plan_of,
    snapshot,
)
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    AssignmentConfigs,
    EndOffsets,
    ProcessView,
    StreamsPlan,
    StreamsView,
    Subtopology,
    Topology,
    build_tasks,
)
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId

APP = "app"
END = 1000


def process_id(number: int) -> ProcessId:
    return ProcessId(0, number)


def task(text: str) -> TaskId:
    subtopology, partition = text.split("_")
    return TaskId(int(subtopology), int(partition))


def tasks(*texts: str) -> tuple[TaskId, ...]:
    return tuple(task(text) for text in texts)


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `lags` are what it reported; every task in `active` is reported as running. The tasks reported are
    spread over its threads `<number>-0`, `<number>-1`, … in turn."""

    number: int
    threads: int = 1
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    lags: Mapping[str, int] = field(default_factory=dict)
    endpoint: HostInfo | None = None

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(f"{self.number}-{thread}" for thread in range(self.threads))


@dataclass(frozen=True, slots=True)
class Application:
    """`stateful` and `stateless`: the number of tasks of each subtopology, numbered through, stateful ones first.

    `racks` are those of the replicas of a task's partitions; None means brokers without racks.
    """

    stateful: tuple[int, ...] = ()
    stateless: tuple[int, ...] = ()
    racks: Mapping[str, Sequence[str | None]] | None = None
    lags_known: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*self.stateful, *self.stateless)

    def cluster(self) -> ClusterView:
        racks = self.racks or {}
        return ClusterView.of(
            {
                topic: [tuple(racks.get(f"{s}_{p}", (None,))) for p in range(size)]
                for s, size in enumerate(self.sizes)
                for topic in (source(s), *([changelog(s)] if s < len(self.stateful) else []))
            }
        )

    def view(self, *processes: Process) -> StreamsView:
        topology = Topology(
            APP,
            tuple(
                Subtopology(s, (source(s),), changelogs=(changelog(s),) if s < len(self.stateful) else ())
                for s in range(len(self.sizes))
            ),
            "file",
        )
        ends = EndOffsets({changelog(s): np.full(n, END, dtype=np.int64) for s, n in enumerate(self.stateful)})
        cluster = self.cluster()
        mapped, _ = build_tasks(topology, cluster, ends if self.lags_known else EndOffsets.failed("timed out"))
        table = mapped.table
        number = {table.task_id(i): i for i in range(table.size)}
        reports = [_reported(p, number, table.stateful.tolist()) for p in processes]
        thread_tasks = [
            sorted(r)[i :: p.threads] for p, r in zip(processes, reports, strict=True) for i in range(p.threads)
        ]
        active = [sorted(number[task(x)] for x in p.active) for p in processes]
        standby = [sorted(number[task(x)] for x in p.standby) for p in processes]
        return StreamsView(
            group_id=APP,
            generation=1,
            tasks=table,
            processes=tuple(
                ProcessView(process_id(p.number), p.members, p.rack, tuple(sorted(p.tags.items())), p.endpoint)
                for p in processes
            ),
            capacity=np.array([p.threads for p in processes], dtype=np.int32),
            rack=np.array([cluster.rack_code(p.rack) for p in processes], dtype=np.int32),
            report=Ragged.of_rows([sorted(r) for r in reports]),
            report_lag=np.array([r[i] for r in reports for i in sorted(r)], dtype=np.int64),
            previous_active=Ragged.of_rows(active),
            previous_standby=Ragged.of_rows(standby),
            lags_known=self.lags_known,
            thread_tasks=Ragged.of_rows(thread_tasks),
        )

    def state(self, *processes: Process, configs: AssignmentConfigs | None = None, now_ms: int = 0) -> ApplicationState:
        return from_view(self.view(*processes), configs or AssignmentConfigs(), now_ms=now_ms, cluster=self.cluster())


def source(subtopology: int) -> str:
    return f"input-{subtopology}"


def changelog(subtopology: int) -> str:
    return f"{APP}-store-{subtopology}-changelog"


def assigned(number: int, active: Iterable[str] = (), standby: Iterable[str] = ()) -> KafkaStreamsAssignment:
    mine = [AssignedTask.active(task(x)) for x in active] + [AssignedTask.standby(task(x)) for x in standby]
    return KafkaStreamsAssignment.of(process_id(number), mine)


def active_of(assignment: KafkaStreamsAssignment) -> list[str]:
    return sorted(str(t.id) for t in assignment.tasks.values() if t == AssignedTask.active(t.id))


def standby_of(assignment: KafkaStreamsAssignment) -> list[str]:
    return sorted(str(t.id) for t in assignment.tasks.values() if t == AssignedTask.standby(t.id))


def _reported(process: Process, number: Mapping[TaskId, int], stateful: Sequence[bool]) -> dict[int, int]:
    running = {number[task(x)]: LATEST_OFFSET for x in process.active}
    lags = running | {number[task(x)]: lag for x, lag in process.lags.items()}
    return {i: lag for i, lag in lags.items() if stateful[i]}


def to_plan(view: StreamsView, assignment: TaskAssignment) -> StreamsPlan:
    """The plan that an assignment describes. Nothing in it is a warm-up: the API has no word for that.

    Raises InvalidAssignmentError where it breaks a rule, MalformedAssignmentError where it is no assignment at all.
    """
    state = ApplicationState(view, AssignmentConfigs())
    entries = snapshot(assignment)
    check(state, entries)
    return plan_of(state, entries)


def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
    """The first error of the assignment, NONE if it is valid. Raises MalformedAssignmentError."""
    try:
        check(application_state, snapshot(task_assignment))
    except InvalidAssignmentError as invalid:
        return invalid.error
    return AssignmentError.NONE


def from_plan(state: ApplicationState, plan: StreamsPlan) -> dict[ProcessId, KafkaStreamsAssignment]:
    """The assignment that a plan describes, by process: what an assignor starts from that refines a stock one."""
    tasks = tuple(state.all_tasks)
    by_process: list[list[AssignedTask]] = [[] for _ in state.view.processes]
    for number, row in enumerate(plan.active.tolist()):
        if row != NOBODY:
            by_process[row].append(AssignedTask.active(tasks[number]))
    for number, row in zip(plan.standby_task.tolist(), plan.standby_process.tolist(), strict=True):
        by_process[row].append(AssignedTask.standby(tasks[number]))
    ids = [process.process_id for process in state.view.processes]
    return {process: KafkaStreamsAssignment.of(process, mine) for process, mine in zip(ids, by_process, strict=True)}
