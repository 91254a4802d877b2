"""The task assignor API of KIP-924: its utilities, its checks and the assignor that comes with it."""

from typing import Any

from bellwether_kafka.assignors.streams import api
from bellwether_kafka.assignors.streams.api import snapshot, utils
from bellwether_kafka.assignors.streams.policies import assign_streams
from bellwether_kafka.protocol.primitives import ProcessId, TaskId
from tests.kit.streams_views import actives, standbys
from tests.lab.kafka.views import Question, configs_of, process_id, streams_view

Answer = dict[str, Any]
Assignments = dict[ProcessId, api.KafkaStreamsAssignment]


def sticky(question: Question) -> Answer:
    """The policy `sticky`, which is KIP-924's StickyTaskAssignor."""
    view = streams_view(question)
    plan = assign_streams(view, configs_of(question), "sticky")
    ids = [view.tasks.task_id(task) for task in range(view.tasks.size)]
    roles = ((actives(plan, view.size), api.TaskType.ACTIVE), (standbys(plan, view.size), api.TaskType.STANDBY))
    return _written(
        api.KafkaStreamsAssignment.of(
            process.process_id, [api.AssignedTask(ids[task], role) for rows, role in roles for task in rows[row]]
        )
        for row, process in enumerate(view.processes)
    )


def identity(question: Question) -> Answer:
    return _written(utils.identity_assignment(_state(question)).values())


def default_standbys(question: Question) -> Answer:
    assignments = _by_process(question)
    utils.default_standby_task_assignment(_state(question), assignments)
    return _written(assignments.values())


def rack_actives(question: Question) -> Answer:
    assignments = _by_process(question)
    utils.optimize_rack_aware_active_tasks(_params(question), assignments)
    return _written(assignments.values())


def rack_standbys(question: Question) -> Answer:
    assignments = _by_process(question)
    utils.optimize_rack_aware_standby_tasks(_params(question), assignments)
    return _written(assignments.values())


def validate(question: Question) -> Answer:
    """The name of the first error, NONE without one."""
    try:
        api.check(_state(question), snapshot(api.TaskAssignment(_assignments(question))))
    except api.InvalidAssignmentError as invalid:
        return {"found": invalid.error.name}
    return {"found": api.AssignmentError.NONE.name}


def _state(question: Question) -> api.ApplicationState:
    return api.from_view(streams_view(question), configs_of(question))


def _params(question: Question) -> utils.RackAwareOptimizationParams:
    params = utils.RackAwareOptimizationParams.of(_state(question))
    if "chosen" in question:
        params = params.for_tasks(TaskId(*task) for task in question["chosen"])
    if "traffic_override" in question:
        params = params.with_traffic_cost_override(question["traffic_override"])
    if "stay_override" in question:
        params = params.with_non_overlap_cost_override(question["stay_override"])
    return params


def _assignments(question: Question) -> list[api.KafkaStreamsAssignment]:
    return [
        api.KafkaStreamsAssignment.of(
            process_id(entry), [api.AssignedTask(TaskId(s, p), api.TaskType[role]) for s, p, role in entry["tasks"]]
        )
        for entry in question["plan"]
    ]


def _by_process(question: Question) -> Assignments:
    return {assignment.process_id: assignment for assignment in _assignments(question)}


def _written(assignments: Any) -> Answer:
    return {
        "plan": [
            {
                "high": assignment.process_id.most_significant,
                "low": assignment.process_id.least_significant,
                "tasks": [[t.id.subtopology, t.id.partition, t.type.name] for t in assignment.tasks.values()],
            }
            for assignment in assignments
        ]
    }
