"""The destinations of tasks: what the last plan decided but could not do at once.

A plan moves a task over several rebalances: the new process warms up, the owner gives the task up, then the new process
gets it. Lags change in the meantime, and a new plan from lags alone would choose other tasks for other processes,
although some tasks have already been given up. So a plan's destinations apply as long as the group is unchanged.

Running tasks leave their processes at most once per HAND_OVER_MS (see `memory`): tasks that have caught up move
together with those that catch up until then, because each hand-over costs two rebalances. A task that runs nowhere
never waits for this.
"""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskMap
from bellwether_kafka.assignors.streams.members.memory import Destinations, StreamsMemory


def use_destinations(view: StreamsView, memory: StreamsMemory, tasks: TaskMap, *, expects_reports: bool) -> StreamsView:
    """Returns the view with the destinations that still apply: those of all tasks if the group is unchanged, else those
    of tasks that the last plan left pending for a process that is unchanged. `expects_reports`: a process has come back
    and will soon report its state; then everything destined for it moves together."""
    last = memory.destinations
    if last is None:
        return replace(view, hands_over=not expects_reports)
    table = view.tasks
    same = last.processes == view.processes and np.array_equal(last.subtopology, table.subtopology)
    if not same or not np.array_equal(last.partition, table.partition):
        return replace(view, destination=_pending_for(last, view, memory, tasks), hands_over=not expects_reports)
    just_now = last.next_hand_over_ms(view.now_ms) > view.now_ms
    return replace(view, destination=last.process, hands_over=not (expects_reports or just_now))


def destinations_after(view: StreamsView, plan: StreamsPlan, memory: StreamsMemory) -> Destinations:
    """Returns what to remember once this plan has been sent."""
    last = memory.destinations
    owned = view.previous_active
    leaves = bool((plan.active[owned.values] != owned.row).any())
    return Destinations(
        processes=view.processes,
        subtopology=view.tasks.subtopology,
        partition=view.tasks.partition,
        process=plan.destination if len(plan.destination) else plan.active,
        handed_over_ms=view.now_ms if leaves else last.handed_over_ms if last is not None else None,
    )


def _pending_for(last: Destinations, view: StreamsView, memory: StreamsMemory, tasks: TaskMap) -> IntArray:
    """Returns, for each task that was sent to no process and runs nowhere, the process that it was meant for, if that
    is unchanged."""
    index = {process: p for p, process in enumerate(view.processes)}
    process = np.array([*(index.get(process, NOBODY) for process in last.processes), NOBODY], dtype=np.int32)
    task = tasks.index(last.subtopology, last.partition)
    meant: IntArray = np.full(view.tasks.size + 1, NOBODY, dtype=np.int32)
    meant[task] = process[last.process]
    sent = memory.plan.owner_in(tasks.cluster, memory.plan.members.keys) != NOBODY
    meant[tasks.task_of[sent]] = NOBODY
    return np.where(view.running_on == NOBODY, meant[:-1], NOBODY)
