"""The plan for when no new one is to be had: everybody keeps what it has, and what nobody has goes to the fallback.

KIP-924 promises that an assignor that raises "keeps the assignment unchanged"; shipped Java fails every thread instead.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, Ragged, distinct, task_code
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing import previous_owners
from bellwether_kafka.assignors.streams.policies.fallback import assign_fallback_prior
from bellwether_kafka.protocol.primitives import ProcessId, TaskId


def translate_plan(before: StreamsView, plan: StreamsPlan, view: StreamsView) -> StreamsPlan:
    """A plan made for one view in the coordinates of a later one. Processes and tasks that are gone are dropped; tasks
    whose process is gone, or that are new, are with NOBODY."""
    process = _positions([p.process_id for p in before.processes], [p.process_id for p in view.processes])
    task = _positions(_ids(before), _ids(view))
    active = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    there = np.flatnonzero((task != NOBODY) & (plan.active != NOBODY))
    active[task[there]] = process[plan.active[there]]
    tasks, processes = task[plan.standby_task], process[plan.standby_process]
    kept = (tasks != NOBODY) & (processes != NOBODY)
    order = np.lexsort((processes[kept], tasks[kept]))
    return StreamsPlan(active, tasks[kept][order], processes[kept][order], plan.warmup[kept][order])


def reported_plan(view: StreamsView) -> StreamsPlan:
    """The active tasks that the processes ran. Without standbys: what a process calls its standbys is all state on its
    disk, whether it was meant to keep it or not."""
    return StreamsPlan.of_active(previous_owners(view))


def keep_previous(view: StreamsView, configs: AssignmentConfigs, previous: StreamsPlan | None = None) -> StreamsPlan:
    """A valid plan that changes nothing that need not change. `previous` is in the coordinates of `view`
    (`translate_plan`); None: what the processes report. Raises ValueError for a plan of another view.

    FallbackPrior leaves active tasks with their owners and places those without one. Standbys stay where they are, but
    not beside their active task; where fewer than num.standby.replicas are left, FallbackPrior's are added.
    """
    had = reported_plan(view) if previous is None else _fitting(view, previous)
    if view.size == 0:
        return StreamsPlan.of_active(had.active)
    fallback = assign_fallback_prior(_as_reported(view, had), configs)
    active = fallback.active
    stays = view.tasks.stateful[had.standby_task] & (active[had.standby_task] != had.standby_process)
    stays &= _first_of_each(had, view.size)
    task, process = had.standby_task[stays], had.standby_process[stays]
    more = _missing(fallback, (task, process), view, configs.num_standby_replicas)
    tasks, processes = np.concatenate([task, more[0]]), np.concatenate([process, more[1]])
    warmup = np.concatenate([had.warmup[stays], np.zeros(len(more[0]), dtype=np.bool_)])
    order = np.lexsort((processes, tasks))
    return StreamsPlan(active, tasks[order], processes[order], warmup[order])


def _fitting(view: StreamsView, plan: StreamsPlan) -> StreamsPlan:
    """Raises ValueError for a plan of another view."""
    copies = (plan.standby_task, plan.standby_process)
    limits = (view.tasks.size, view.size)
    inside = all(bool(((a >= 0) & (a < limit)).all()) for a, limit in zip(copies, limits, strict=True))
    if len(plan.active) != view.tasks.size or not inside or (plan.active >= view.size).any():
        raise ValueError("the previous plan is not in the coordinates of this view")
    return plan


def _as_reported(view: StreamsView, plan: StreamsPlan) -> StreamsView:
    """The view in which the processes report exactly this plan as what they had."""
    total, size = view.tasks.size, view.size
    placed = np.flatnonzero(plan.active != NOBODY)
    active = task_code(plan.active[placed], placed, total)
    # a copy on disk helps a task that nobody runs, whether the plan knew of it or not
    standby = np.concatenate(
        [task_code(plan.standby_process, plan.standby_task, total), view.previous_standby.codes(total)]
    )
    return replace(
        view,
        previous_active=Ragged.of_codes(distinct(active), total, size),
        previous_standby=Ragged.of_codes(distinct(standby), total, size),
    )


def _missing(
    fallback: StreamsPlan, kept: tuple[IntArray, IntArray], view: StreamsView, replicas: int
) -> tuple[IntArray, IntArray]:
    """The fallback's standbys (task, process) that bring tasks with too few of them up to `replicas`."""
    offered = task_code(fallback.standby_process, fallback.standby_task, view.tasks.size)
    new = ~np.isin(offered, task_code(kept[1], kept[0], view.tasks.size))
    task, process = fallback.standby_task[new], fallback.standby_process[new]
    room = replicas - np.bincount(kept[0], minlength=view.tasks.size)
    first = np.searchsorted(task, task)
    taken = np.arange(len(task)) - first < room[task]
    return task[taken], process[taken]


def _first_of_each(plan: StreamsPlan, size: int) -> BoolArray:
    codes = plan.standby_task.astype(np.int64) * max(1, size) + plan.standby_process
    first = np.zeros(len(codes), dtype=np.bool_)
    first[np.unique(codes, return_index=True)[1]] = True
    return first


def _ids(view: StreamsView) -> list[TaskId]:
    return [view.tasks.task_id(task) for task in range(view.tasks.size)]


def _positions(old: Sequence[TaskId] | Sequence[ProcessId], new: Sequence[TaskId] | Sequence[ProcessId]) -> IntArray:
    """The new index of each old item, NOBODY where it is gone."""
    index: dict[object, int] = {item: i for i, item in enumerate(new)}
    return np.array([index.get(item, NOBODY) for item in old], dtype=np.int32)
