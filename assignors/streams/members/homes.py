"""The homes of tasks for host affinity: which process should get each task back, remembered between rebalances."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import StreamsView, TaskLags, TaskMap
from bellwether_kafka.assignors.streams.members.memory import Home, StreamsMemory
from bellwether_kafka.assignors.streams.members.process_map import ProcessMap
from bellwether_kafka.protocol.primitives import TaskId

Homes = Mapping[TaskId, Home]
NO_HOMES: Homes = MappingProxyType({})


def known_homes(memory: StreamsMemory, tasks: TaskMap, process_map: ProcessMap, now_ms: int, window_ms: int) -> Homes:
    """Returns the stateful tasks of processes that left after the last plan, and homes remembered for less than
    `window_ms`."""
    if window_ms <= 0:
        return NO_HOMES
    present = {process.process_id for process in process_map.processes}
    homes = {task: home for task, home in memory.homes.items() if now_ms - home.left_at_ms <= window_ms}
    keys = list(memory.threads)
    gone = [memory.threads[key].process_id not in present for key in keys]
    owner = memory.plan.owner_in(tasks.cluster, keys)
    for flat in np.flatnonzero((owner != NOBODY) & np.array([*gone, False], dtype=np.bool_)[owner]).tolist():
        task = int(tasks.task_of[flat])
        if task != NOBODY and tasks.table.stateful[task]:
            homes[tasks.table.task_id(task)] = Home(memory.threads[keys[int(owner[flat])]].process_id, now_ms)
    return homes


def home_of(view: StreamsView, homes: Homes) -> tuple[IntArray, Homes]:
    """Returns (per task the process index of its home, NOBODY if there is none or it is absent; the homes still to be
    remembered). A process that came back without a task's state is no longer its home."""
    home = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    if not homes:
        return home, NO_HOMES
    lags = TaskLags.of(view, 0)
    index = {process.process_id: p for p, process in enumerate(view.processes)}
    kept: dict[TaskId, Home] = {}
    for task in range(view.tasks.size):
        remembered = homes.get(view.tasks.task_id(task))
        if remembered is None:
            continue
        process = index.get(remembered.process_id, NOBODY)
        if process == NOBODY or task in lags.state_of(process):
            home[task] = process
            kept[view.tasks.task_id(task)] = remembered
    return home, kept
