"""TaskAssignmentUtils of KIP-924: the parts of the stock assignors that a plug-in can use.

As the KIP promises, these functions use the code of the stock assignors. Shipped Java has a copy with differences; each
function here names the differences that it does not have.
"""

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams import placing
from bellwether_kafka.assignors.streams.api.application_state import ApplicationState, UnknownTaskError
from bellwether_kafka.assignors.streams.api.assignor import AssignedTask, KafkaStreamsAssignment, TaskType
from bellwether_kafka.assignors.streams.api.checked import copies_of
from bellwether_kafka.assignors.streams.application import NO_STRATEGY, StreamsPlan
from bellwether_kafka.protocol.primitives import ProcessId, TaskId

Assignments = MutableMapping[ProcessId, KafkaStreamsAssignment]
_Copy = tuple[int, int, TaskType]


@dataclass(frozen=True, slots=True)
class RackAwareOptimizationParams:
    """Which tasks to optimise, and at which costs. `of` creates a value, and the other methods return narrowed copies.
    Without an override the configured cost applies, else the stock one: 10 and 1, or 1 and 0 if all tasks to optimise
    are stateless."""

    application_state: ApplicationState
    tasks_to_optimize: tuple[TaskId, ...]
    traffic_cost_override: int | None = None
    non_overlap_cost_override: int | None = None

    @classmethod
    def of(cls, application_state: ApplicationState) -> "RackAwareOptimizationParams":
        """Returns parameters with all tasks and no overrides."""
        return cls(application_state, tuple(application_state.all_tasks))

    def for_stateful_tasks(self) -> "RackAwareOptimizationParams":
        infos = self.application_state.all_tasks
        return self.for_tasks(task for task in infos if infos[task].is_stateful)

    def for_stateless_tasks(self) -> "RackAwareOptimizationParams":
        infos = self.application_state.all_tasks
        return self.for_tasks(task for task in infos if not infos[task].is_stateful)

    def for_tasks(self, tasks: Iterable[TaskId]) -> "RackAwareOptimizationParams":
        """Returns parameters for these tasks only. Raises UnknownTaskError for a task that the application does not
        have."""
        wanted, of_application = set(tasks), self.application_state.all_tasks
        for task in wanted:
            if task not in of_application:
                raise UnknownTaskError(f"task {task} is not a task of {self.application_state.view.group_id}")
        return replace(self, tasks_to_optimize=tuple(task for task in of_application if task in wanted))

    def with_traffic_cost_override(self, traffic_cost: int) -> "RackAwareOptimizationParams":
        """Raises ValueError for a negative cost."""
        return replace(self, traffic_cost_override=_cost("traffic cost", traffic_cost))

    def with_non_overlap_cost_override(self, non_overlap_cost: int) -> "RackAwareOptimizationParams":
        """Raises ValueError for a negative cost."""
        return replace(self, non_overlap_cost_override=_cost("non-overlap cost", non_overlap_cost))

    @property
    def costs(self) -> tuple[int, int]:
        """The (traffic cost, non-overlap cost) in force."""
        infos, configs = self.application_state.all_tasks, self.application_state.assignment_configs
        stateful = any(infos[task].is_stateful for task in self.tasks_to_optimize)
        # The settings apply to stateful tasks only.
        traffic, non_overlap = configs.rack_costs(*placing.STATEFUL_COSTS) if stateful else placing.STATELESS_COSTS
        overrides = self.traffic_cost_override, self.non_overlap_cost_override
        return (
            traffic if overrides[0] is None else overrides[0],
            non_overlap if overrides[1] is None else overrides[1],
        )


def identity_assignment(application_state: ApplicationState) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Returns the assignment in which every process keeps what it had. Tasks that no longer exist are left out
    (shipped Java keeps them, and then refuses the assignment for an unknown task); tasks of processes that left are
    unassigned."""
    assignments: dict[ProcessId, KafkaStreamsAssignment] = {}
    for process, state in application_state.kafka_streams_states(compute_task_lags=False).items():
        mine = {task: AssignedTask.standby(task) for task in state.previous_standby_tasks}
        mine |= {task: AssignedTask.active(task) for task in state.previous_active_tasks}
        assignments[process] = KafkaStreamsAssignment.of(process, mine.values())
    return assignments


def default_standby_task_assignment(application_state: ApplicationState, assignments: Assignments) -> None:
    """Adds num.standby.replicas copies of every stateful task: spread over the configured client tags if there are any,
    else on the least loaded processes. Adds missing processes and changes nothing else.

    Tasks are served in order, not in hash order as in shipped Java. If there are too few processes, a task gets fewer
    copies. A task without an active process has no tags to differ from, so its copies are placed by load.
    """
    view, configs = application_state.view, application_state.assignment_configs
    before = _begin(application_state, assignments)
    place = _placement(application_state, before)
    stateful = [int(t) for t in np.flatnonzero(view.tasks.stateful)]
    replicas = configs.num_standby_replicas
    placing.tag_rule(view, configs).assign(place, [t for t in stateful if place.active[t] != NOBODY], replicas)
    placing.fill_lightest(place, {t: replicas for t in stateful if place.active[t] == NOBODY})
    _apply(application_state, assignments, before, StreamsPlan.of(before.active, *place.replicas()))


def optimize_rack_aware_active_tasks(params: RackAwareOptimizationParams, assignments: Assignments) -> None:
    """Exchanges active tasks between processes so that as few source partitions as possible are read across racks; each
    process keeps its number of these tasks. Does nothing if rack.aware.assignment.strategy is none or a rack is
    unknown.

    If a process takes over a task of which it has a standby, the former owner gets that standby. Call this before
    standbys are placed, because it ignores tags. Shipped Java counts changelog partitions too, although active tasks
    read none, and does nothing unless both costs are configured or overridden.
    """
    state = params.application_state
    racks = _racks(state, with_standbys=False)
    before = _begin(state, assignments)
    tasks = _placed(params, before.active)
    if racks is None or not len(tasks):
        return
    owners = racks.actives(before.active, tasks, *params.costs)
    role_change = (before.standby_process == owners[before.standby_task]) & (owners != before.active)[
        before.standby_task
    ]
    process = np.where(role_change, before.active[before.standby_task], before.standby_process)
    _apply(state, assignments, before, StreamsPlan.of(owners, before.standby_task, process.astype(np.int32)))


def optimize_rack_aware_standby_tasks(params: RackAwareOptimizationParams, assignments: Assignments) -> None:
    """Exchanges standbys between processes so that as few changelog partitions as possible are read across racks. Does
    nothing if rack.aware.assignment.strategy is none or a rack is unknown.

    It makes no move that would put a task's copies on fewer different client tags; shipped Java compares the source
    with itself there, so that tags never prevent a move. Shipped Java also follows the strategy, although the stock
    assignor minimises traffic under both strategies, and does nothing unless both costs are configured or overridden.
    """
    state = params.application_state
    racks = _racks(state, with_standbys=True)
    before = _begin(state, assignments)
    chosen = np.zeros(state.view.tasks.size, dtype=np.bool_)
    chosen[_numbers(params)] = True
    inside = chosen[before.standby_task]
    if racks is None or not inside.any():
        return
    within = StreamsPlan.of(before.active, before.standby_task[inside], before.standby_process[inside])
    place = _placement(state, within)
    racks.standbys(place, placing.tag_rule(state.view, state.assignment_configs), *params.costs)
    _apply(state, assignments, within, StreamsPlan.of(before.active, *place.replicas()))


def _racks(state: ApplicationState, *, with_standbys: bool) -> placing.RackOptimiser | None:
    strategy = state.assignment_configs.rack_aware_assignment_strategy
    if strategy == NO_STRATEGY or placing.can_use(state.view, with_standbys) is not None:
        return None
    return placing.RackOptimiser(state.view, strategy)


def _cost(name: str, value: int) -> int:
    if value < 0:
        raise ValueError(f"a {name} must not be negative, but it is {value}")
    return value


def _numbers(params: RackAwareOptimizationParams) -> IntArray:
    numbers = params.application_state.numbers
    return np.array([numbers[task] for task in params.tasks_to_optimize], dtype=np.int32)


def _placed(params: RackAwareOptimizationParams, active: IntArray) -> IntArray:
    tasks = _numbers(params)
    placed: IntArray = tasks[active[tasks] != NOBODY]
    return placed


def _begin(state: ApplicationState, assignments: Assignments) -> StreamsPlan:
    """Adds processes that are missing in the assignments, and returns the assignments as arrays. Raises
    InvalidAssignmentError."""
    for process in state.view.processes:
        if process.process_id not in assignments:
            assignments[process.process_id] = KafkaStreamsAssignment.of(process.process_id)
    return copies_of(state, assignments.values())


def _placement(state: ApplicationState, copies: StreamsPlan) -> placing.Placement:
    place = placing.Placement(state.view)
    placed = np.flatnonzero(copies.active != NOBODY).astype(np.int32)
    place.place_actives(placed, copies.active[placed])
    for task, process in zip(copies.standby_task.tolist(), copies.standby_process.tolist(), strict=True):
        place.add_standby(task, process)
    return place


def _apply(state: ApplicationState, assignments: Assignments, before: StreamsPlan, after: StreamsPlan) -> None:
    """Writes only the differences between `before` and `after` to the assignments."""
    old, new = _listed(before), _listed(after)
    ids = tuple(state.all_tasks)
    for task, process, role in old - new:
        assignments[state.view.processes[process].process_id].remove_task(AssignedTask(ids[task], role))
    for task, process, role in new - old:
        assignments[state.view.processes[process].process_id].assign_task(AssignedTask(ids[task], role))


def _listed(copies: StreamsPlan) -> set[_Copy]:
    placed = np.flatnonzero(copies.active != NOBODY)
    actives = zip(placed.tolist(), copies.active[placed].tolist(), strict=True)
    standbys = zip(copies.standby_task.tolist(), copies.standby_process.tolist(), strict=True)
    return {(t, p, TaskType.ACTIVE) for t, p in actives} | {(t, p, TaskType.STANDBY) for t, p in standbys}
