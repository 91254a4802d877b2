"""Where tasks are on their way to: what the last plan decided and could not do at once.

A plan moves a task in several rounds: its new process warms up, its owner gives it up, then the new process gets it.
Lags change in between, and a plan made anew from lags alone would choose other tasks for other processes, of which some
have been given up already. So the destinations of a plan stand as long as the group is the one that it was made for.

Tasks leave processes that run them at most once in `memory.HAND_OVER_MS`: what has caught up meanwhile goes together with what
catches up until then, because each hand-over costs two rebalances. No task waits for this that runs nowhere.
"""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, StreamsPlan, StreamsView, TaskMap
from bellwether_kafka.assignors.streams.members.memory import Destinations, StreamsMemory


def use_destinations(view: StreamsView, memory: StreamsMemory, tasks: TaskMap) -> StreamsView:
    """The view with the destinations that stand: of all tasks where the group is the same, else of those that the last
    plan withheld for a process that is the same."""
    last = memory.destinations
    if last is None:
        return view
    same = last.processes == view.processes and len(last.process) == view.tasks.size
    index = {process: p for p, process in enumerate(view.processes)}
    process = np.array([*(index.get(process, NOBODY) for process in last.processes), NOBODY], dtype=np.int32)
    task = tasks.index(last.subtopology, last.partition)
    known = (task != NOBODY) & (last.process != NOBODY)
    found: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    found[task[known]] = process[last.process[known]]
    if not same:
        found[(view.running_on != NOBODY) | ~_withheld(memory, tasks)] = NOBODY
    just_now = last.next_hand_over_ms(view.now_ms) > view.now_ms
    return replace(view, destination=found, hands_over=not (same and just_now))


def destinations_after(view: StreamsView, plan: StreamsPlan, memory: StreamsMemory) -> Destinations:
    """What to remember once this plan has been sent."""
    last = memory.destinations
    runs = view.report_lag == LATEST_OFFSET
    leaves = bool((plan.active[view.report.values[runs]] != view.report.row[runs]).any())
    return Destinations(
        processes=view.processes,
        subtopology=view.tasks.subtopology,
        partition=view.tasks.partition,
        process=plan.destination if len(plan.destination) else plan.active,
        handed_over_ms=view.now_ms if leaves else last.handed_over_ms if last is not None else None,
    )


def _withheld(memory: StreamsMemory, tasks: TaskMap) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Tasks of which the last plan sent nobody the partitions."""
    nobody = memory.plan.owner_in(tasks.cluster, memory.plan.members.keys) == NOBODY
    withheld = np.zeros(tasks.table.size + 1, dtype=np.bool_)
    withheld[tasks.task_of[nobody]] = True
    return withheld[:-1]
