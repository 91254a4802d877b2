"""Standbys exchanged in a finished plan, and what placements cost: what Java's referee is asked, too."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from bellwether_kafka.assignors.shared import IntArray
from bellwether_kafka.assignors.streams.application import NO_STRATEGY, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing import RackOptimiser
from bellwether_kafka.assignors.streams.placing.placement import Standbys
from bellwether_kafka.assignors.streams.placing.racks import StandbyExchange, columns, remote_table

Movable = Callable[[int, int, int, list[int]], bool]
"""Whether a standby may move: (source, destination, task, processes that now hold standbys of the task)."""


def optimize_active(
    view: StreamsView,
    active: IntArray,
    tasks: IntArray,
    *,
    traffic_cost: int,
    non_overlap_cost: int,
    strategy: str,
    current: IntArray | None = None,
) -> IntArray:
    """The active owners of all tasks after exchanging these between their processes."""
    return RackOptimiser(view, strategy, current).actives(active, tasks, traffic_cost, non_overlap_cost)


def optimize_standby(
    view: StreamsView,
    plan: StreamsPlan,
    *,
    traffic_cost: int,
    non_overlap_cost: int,
    strategy: str,
    movable: Movable | None = None,
) -> StreamsPlan:
    """The plan after exchanging standbys between processes, where `movable` allows (None: everywhere)."""
    if strategy == NO_STRATEGY or not len(plan.standby_task):
        return plan
    standbys: Standbys = defaultdict(list)
    for task, process in zip(plan.standby_task.tolist(), plan.standby_process.tolist(), strict=True):
        standbys[task].append(process)
    bound = None
    if movable is not None:
        test = movable

        def bound(source: int, destination: int, task: int) -> bool:
            return test(source, destination, task, standbys[task])

    cost = remote_table(view, view.tasks.changelog_remote)[view.tasks.changelog_signature] * traffic_cost
    StandbyExchange(cost, columns(view), non_overlap_cost, plan.active.tolist(), standbys, bound).run()
    process_of = [p for task in sorted(standbys) for p in sorted(standbys[task])]
    return StreamsPlan(
        plan.active,
        plan.standby_task,
        np.array(process_of, dtype=np.int32),
        np.zeros(len(process_of), dtype=np.bool_),
        plan.probing,
        plan.notes,
    )


def active_cost(
    view: StreamsView,
    active: IntArray,
    tasks: IntArray,
    *,
    traffic_cost: int,
    non_overlap_cost: int = 0,
    before: IntArray | None = None,
) -> int:
    """What these active tasks cost where they are; with `before`, also for every task that was elsewhere then."""
    remote = remote_table(view, view.tasks.source_remote)[
        view.tasks.source_signature[tasks], columns(view)[active[tasks]]
    ]
    moved = 0 if before is None else int(np.count_nonzero(active[tasks] != before[tasks]))
    return int(remote.sum()) * traffic_cost + moved * non_overlap_cost


def standby_cost(view: StreamsView, plan: StreamsPlan, *, traffic_cost: int) -> int:
    """What the standbys cost where they are."""
    signature = view.tasks.changelog_signature[plan.standby_task]
    remote = remote_table(view, view.tasks.changelog_remote)[signature, columns(view)[plan.standby_process]]
    return int(remote.sum()) * traffic_cost
