"""Where tasks are on their way to: what the last plan decided and could not do at once.

A plan moves a task in several rebalances: its new process warms up, its owner gives it up, then the new process gets
it. Lags change in between, and a plan made anew from lags alone would choose other tasks for other processes, of which
some have been given up already. So the destinations of a plan stand as long as the group is the one that it was made
for.

Tasks leave processes that run them once in HAND_OVER_MS at most (see `memory`): what has caught up meanwhile goes
together with what catches up until then, because each hand-over costs two rebalances. No task waits for this that runs
nowhere.
"""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskMap
from bellwether_kafka.assignors.streams.members.memory import Destinations, StreamsMemory


def use_destinations(view: StreamsView, memory: StreamsMemory, tasks: TaskMap, *, asks: bool) -> StreamsView:
    """The view with the destinations that stand: of all tasks where the group is the same, else of those that the last
    plan withheld for a process that is the same. `asks`: a process has come back that will soon say what it has; then
    all that shall go there goes at once."""
    last = memory.destinations
    if last is None:
        return replace(view, hands_over=not asks)
    table = view.tasks
    same = last.processes == view.processes and np.array_equal(last.subtopology, table.subtopology)
    if not same or not np.array_equal(last.partition, table.partition):
        return replace(view, destination=_pending_for(last, view, memory, tasks), hands_over=not asks)
    just_now = last.next_hand_over_ms(view.now_ms) > view.now_ms
    return replace(view, destination=last.process, hands_over=not (asks or just_now))


def destinations_after(view: StreamsView, plan: StreamsPlan, memory: StreamsMemory) -> Destinations:
    """What to remember once this plan has been sent."""
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
    """Per task that was sent to nobody and runs nowhere, the process that it was meant for, if that is the same."""
    index = {process: p for p, process in enumerate(view.processes)}
    process = np.array([*(index.get(process, NOBODY) for process in last.processes), NOBODY], dtype=np.int32)
    task = tasks.index(last.subtopology, last.partition)
    meant: IntArray = np.full(view.tasks.size + 1, NOBODY, dtype=np.int32)
    meant[task] = process[last.process]
    sent = memory.plan.owner_in(tasks.cluster, memory.plan.members.keys) != NOBODY
    meant[tasks.task_of[sent]] = NOBODY
    return np.where(view.running_on == NOBODY, meant[:-1], NOBODY)
