"""The plan for a broker's request for an application: policy `streams-ha`, from the same views as for a classic group.

Where tasks should end up is what the broker is sent, without warm-ups, because these are the broker's. So every copy
counts as caught up, and the plan of the moment is that of the end.
"""

import zlib
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, Decision, IntArray, Refusal, Rule
from bellwether_kafka.assignors.streams import TaskPlan, decide_streams
from bellwether_kafka.assignors.streams.application import PINNED, AssignmentConfigs
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator.planning import StreamsConfig, WatchedTopics
from bellwether_kafka.coordinator.serving.known import RefusedError
from bellwether_kafka.coordinator.serving.task_request_views import TaskViews, as_asked
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup


def decide_tasks(
    group: TaskGroup, views: TaskViews, config: StreamsConfig, rules: tuple[Rule, ...], now_ms: int
) -> Decision[TaskPlan]:
    """Returns the decision, with nothing pending: the broker itself waits for former owners. `config` has stages and
    the rack strategy; standbys and tags are the broker's. Raises RefusedError."""
    raw = views.raw
    decided = decide_streams(
        raw,
        views.cluster,
        views.ends,
        views.topology,
        StreamsMemory.empty(),
        _configs(group, config.configs),
        STREAMS_HA,
        now_ms,
        zlib.crc32(raw.group_id.encode()),
        assignors=config.with_rules(rules).stock_assignors,
    )
    if isinstance(decided, Refusal):
        raise RefusedError(decided.reason)
    plan = decided.plan
    if (plan.owner == NOBODY).any():
        unowned = plan.name(int((plan.owner == NOBODY).argmax()))
        raise RefusedError(f"the plan of policy {STREAMS_HA} leaves task {unowned} without an owner")
    nothing = np.zeros((0, 2), dtype=np.int32)
    final = replace(plan, pending=np.zeros_like(plan.pending), temporary=nothing)
    return replace(decided, plan=final, assignments=(), probing_at_ms=None, called_at_ms=None)


def numbers_of(group: TaskGroup, decision: Decision[TaskPlan]) -> IntArray:
    """Returns the plan as the broker reads it."""
    return as_asked(group, decision.plan)


def watched(decision: Decision[TaskPlan]) -> WatchedTopics:
    topology, rack = decision.plan.topology, decision.plan.view.rack
    return WatchedTopics(topology.source_topics, topology.changelogs, rack_aware=bool((rack != NO_RACK).any()))


def tasks_by_process(plan: TaskPlan, owner: IntArray) -> dict[str, frozenset[tuple[str, int]]]:
    """Returns the tasks of each process by its id, as (subtopology, partition), if `owner` is the process of each."""
    table = plan.view.tasks
    owned: dict[int, set[tuple[str, int]]] = {p: set() for p in range(plan.view.size)}
    for task in np.flatnonzero(owner != NOBODY).tolist():
        owned[int(owner[task])].add((str(table.subtopology[task]), int(table.partition[task])))
    return {str(process.process_id): frozenset(owned[p]) for p, process in enumerate(plan.view.processes)}


def _configs(group: TaskGroup, configured: AssignmentConfigs) -> AssignmentConfigs:
    return replace(
        configured,
        acceptable_recovery_lag=PINNED,
        num_standby_replicas=group.standbys,
        rack_aware_assignment_tags=group.spread_by,
    )
