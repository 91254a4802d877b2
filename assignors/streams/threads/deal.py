"""Assigns the tasks of a process to its threads as Kafka does (docs/internals/streams.md#tasks-to-threads).

It gives the same result as StreamsPartitionAssignor.assignTasksToThreads: three calls per process that share the loads,
for stateful actives, standbys and stateless actives. The order of the leftovers is that of the array inside a Java
priority queue, which is rebuilt only if it matters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from bellwether_kafka.assignors.shared import NOBODY, IntArray, JavaHeap, LongArray, Ragged, offsets, task_code
from bellwether_kafka.assignors.streams.application import UNKNOWN_OFFSET_SUM, StreamsPlan, StreamsView
from bellwether_kafka.protocol.primitives import task_set_order

Tasks = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class ThreadTasks:
    """What each thread gets. Threads are numbered as in StreamsView; tasks ascend."""

    active: Ragged
    standby: Ragged


def assign_threads(view: StreamsView, plan: StreamsPlan) -> ThreadTasks:
    """Assigns every process's tasks to its threads. Unplaced tasks are left out."""
    if (view.capacity == 1).all():
        return _alone(view, plan)
    kinds = _by_process(view, plan)
    previous = _previous(view)
    first = offsets(view.capacity).tolist()
    subtopology, partition = view.tasks.subtopology.tolist(), view.tasks.partition.tolist()

    def hashed(tasks: Tasks) -> list[int]:
        order = task_set_order([subtopology[t] for t in tasks], [partition[t] for t in tasks])
        return [tasks[position] for position in order]

    active: list[list[int]] = []
    standby: list[list[int]] = []
    for process in range(view.size):
        stateful, standbys, stateless = (rows[process] for rows in kinds)
        mine = previous[first[process] : first[process + 1]]
        actives, copies = deal_process(stateful, standbys, stateless, mine, hashed)
        active += actives
        standby += copies
    return ThreadTasks(_ascending(active), _ascending(standby))


def _alone(view: StreamsView, plan: StreamsPlan) -> ThreadTasks:
    """Assigns tasks if every process has only one thread."""
    placed = np.flatnonzero(plan.active != NOBODY).astype(np.int32)
    actives, standbys = plan.active[placed], plan.standby_process
    return ThreadTasks(
        Ragged.of(actives, placed[_by_row(actives, view.size)], view.size),
        Ragged.of(standbys, plan.standby_task[_by_row(standbys, view.size)], view.size),
    )


def deal_process(
    stateful: Tasks, standbys: Tasks, stateless: Tasks, previous: Sequence[Tasks], hashed: Callable[[Tasks], list[int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the active and the standby tasks of each thread of one process. Tasks ascend. `previous` has one row per
    thread, in the order of the member ids: the stateful tasks that it reported itself, least lag first. `hashed` puts
    tasks in the iteration order of a Java HashSet."""
    load = [0] * len(previous)
    actives = _deal(stateful, previous, load, hashed)
    copies = _deal(standbys, previous, load, list)
    others = _deal(stateless, (), load, hashed)
    return [row + more for row, more in zip(actives, others, strict=True)], copies


def _deal(
    tasks: Tasks, previous: Sequence[Tasks], load: list[int], order: Callable[[Tasks], list[int]]
) -> list[list[int]]:
    """Makes one call: all threads up to the common minimum, former tasks first, then the leftovers. Adds to the
    loads."""
    taken: list[list[int]] = [[] for _ in load]
    if not tasks:
        return taken
    least = (len(tasks) + sum(load)) // len(load)
    room = [least - already for already in load]
    free = set(tasks)
    kept, remembered = _keep(free, taken, previous, room)
    left, polled = _fill(sorted(free), taken, room)
    if left:
        waiting = [member for member, mine in enumerate(taken) if len(mine) == room[member]]
        back = [(t, m) for t, m in sorted(remembered.items()) if t in free and t >= left[0]]
        returned = _return(back, taken, waiting)
        if returned:
            left = [task for task in left if task not in returned]
        if len(left) > 2:
            left = _heap_order(order(tasks), kept, polled, returned)
        for task, member in zip(left, waiting, strict=False):
            taken[member].append(task)
    for member, mine in enumerate(taken):
        load[member] += len(mine)
    return taken


def _keep(
    free: set[int], taken: list[list[int]], previous: Sequence[Tasks], room: list[int]
) -> tuple[list[int], dict[int, int]]:
    """Lets threads take former tasks while they have room. Returns (these in order, the other former tasks with the
    last thread that had them)."""
    kept: list[int] = []
    remembered: dict[int, int] = {}
    for member, former in enumerate(previous):
        mine = [task for task in former if task in free]
        able = max(0, room[member])
        taken[member] += mine[:able]
        kept += taken[member]
        free.difference_update(taken[member])
        remembered.update(dict.fromkeys(mine[able:], member))
    return kept, remembered


def _fill(rest: list[int], taken: list[list[int]], room: list[int]) -> tuple[list[int], int]:
    """Gives tasks to threads in turn while they have room, the smallest task first. Returns what is left and how many
    were given."""
    polled = 0
    while filling := [member for member, mine in enumerate(taken) if len(mine) < room[member]]:
        turns = min(room[member] - len(taken[member]) for member in filling)
        dealt = rest[polled : polled + turns * len(filling)]
        for n, member in enumerate(filling):
            taken[member] += dealt[n :: len(filling)]
        polled += len(dealt)
    return rest[polled:], polled


def _return(back: list[tuple[int, int]], taken: list[list[int]], waiting: list[int]) -> list[int]:
    """Gives every waiting thread that remembers one of these tasks one more. Returns these tasks."""
    returned: list[int] = []
    for task, member in back:
        if member in waiting:
            waiting.remove(member)
            taken[member].append(task)
            returned.append(task)
    return returned


def _heap_order(tasks: list[int], kept: list[int], polled: int, returned: list[int]) -> list[int]:
    """Returns the array of a java.util.PriorityQueue of these tasks after removals, polls and removals."""
    heap = JavaHeap.of(tasks)
    for task in kept:
        heap.remove(task)
    for _ in range(polled):
        heap.poll()
    for task in returned:
        heap.remove(task)
    return heap.items


def _by_process(view: StreamsView, plan: StreamsPlan) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Returns the stateful actives, standbys and stateless actives of each process, ascending."""
    placed = plan.active != NOBODY
    stateful = np.flatnonzero(placed & view.tasks.stateful)
    stateless = np.flatnonzero(placed & ~view.tasks.stateful)
    return (
        _split(stateful, plan.active[stateful], view.size),
        _split(plan.standby_task, plan.standby_process, view.size),
        _split(stateless, plan.active[stateless], view.size),
    )


def _split(task: npt.NDArray[np.integer], row: IntArray, rows: int) -> list[list[int]]:
    """Returns the tasks of each row, in the given order."""
    ordered = task[_by_row(row, rows)].tolist()
    ends = np.cumsum(np.bincount(row, minlength=rows)).tolist()
    return [ordered[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _by_row(row: IntArray, rows: int) -> LongArray:
    """Returns the positions of entries ordered by row, in their order within a row. numpy sorts sixteen bits in linear
    time."""
    return np.argsort(row.astype(np.uint16 if rows <= 1 << 16 else np.int32), kind="stable")


def _previous(view: StreamsView) -> list[list[int]]:
    """Returns what each thread reported itself, ordered by the process's lag, then task."""
    threads = int(view.capacity.sum())
    task, thread = view.thread_tasks.values, view.thread_tasks.row
    if not len(task):
        return [[] for _ in range(threads)]
    process = np.repeat(np.arange(view.size), view.capacity)[thread]
    reported = view.report.codes(view.tasks.size)
    lag = view.tasks.end_sum[task] if view.lags_known else np.full(len(task), UNKNOWN_OFFSET_SUM, dtype=np.int64)
    if len(reported):
        wanted = task_code(process, task, view.tasks.size)
        at = np.minimum(np.searchsorted(reported, wanted), len(reported) - 1)
        lag = np.where(reported[at] == wanted, view.report_lag[at], lag)
    order = np.lexsort((task, lag, thread))
    return _split(task[order], thread[order], threads)


def _ascending(rows: list[list[int]]) -> Ragged:
    row = np.repeat(np.arange(len(rows)), [len(tasks) for tasks in rows])
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=len(row))
    return Ragged.of(row, flat[np.lexsort((flat, row))], len(rows))
