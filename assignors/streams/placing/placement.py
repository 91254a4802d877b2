"""The placement under construction: which process runs each task, which ones keep copies of it, and the load of each.

Also the balancing sweep of HighAvailabilityTaskAssignor (docs/internals/streams.md#highavailabilitytaskassignor, step
2), which works on either kind of copy.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import chain

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView

# Only tasks that were accessed have an entry; a million empty lists would cost more than all of the placing.
Standbys = defaultdict[int, list[int]]
MayMove = Callable[[int, int], bool]


def anywhere(source: int, destination: int) -> bool:
    """Returns True: the default standby assignor lets every standby move (as active tasks always may)."""
    del source, destination
    return True


class Placement:
    """A placement as plain lists, because movements change single tasks. `load[p]` counts active tasks and standbys of
    process p."""

    __slots__ = ("active", "capacity", "load", "size", "standbys", "warmups")

    def __init__(self, view: StreamsView) -> None:
        self.size = view.size
        self.capacity: list[int] = view.capacity.tolist()
        self.load = [0] * view.size
        self.active: list[int] = [NOBODY] * view.tasks.size
        self.standbys: Standbys = defaultdict(list)
        self.warmups: set[tuple[int, int]] = set()

    def place_actives(self, tasks: IntArray, owners: IntArray) -> None:
        """Places tasks that have no owner yet on these owners."""
        active = np.array(self.active, dtype=np.int32)
        active[tasks] = owners
        self.active[:] = active.tolist()
        self.load = (np.array(self.load) + np.bincount(owners, minlength=self.size)).tolist()

    def replace_actives(self, tasks: IntArray, owners: IntArray) -> None:
        """Moves placed tasks to these owners."""
        before = np.bincount(self.owners(tasks), minlength=self.size)
        self.load = (np.array(self.load) - before).tolist()
        self.place_actives(tasks, owners)

    def owners(self, tasks: IntArray) -> IntArray:
        return np.array(self.active, dtype=np.int32)[tasks]

    def holds(self, process: int, task: int) -> bool:
        return self.active[task] == process or process in self.standbys.get(task, ())

    def add_standby(self, task: int, process: int) -> None:
        self.standbys[task].append(process)
        self.load[process] += 1

    def remove_standby(self, task: int, process: int) -> None:
        self.standbys[task].remove(process)
        self.load[process] -= 1

    def replicas(self) -> tuple[IntArray, IntArray]:
        """Returns all standbys as parallel arrays, ordered by task, then process."""
        counts = np.fromiter(map(len, self.standbys.values()), dtype=np.int64, count=len(self.standbys))
        task = np.repeat(np.fromiter(self.standbys, dtype=np.int32, count=len(counts)), counts)
        process = np.fromiter(chain.from_iterable(self.standbys.values()), dtype=np.int32, count=len(task))
        order = np.argsort(task.astype(np.int64) * self.size + process)
        return task[order], process[order]

    def plan(self, *, probing: bool, notes: tuple[str, ...] = ()) -> StreamsPlan:
        task, process = self.replicas()
        warmup = np.zeros(len(task), dtype=np.bool_)
        if self.warmups:
            keys = task.astype(np.int64) * self.size + process
            warm = np.array([t * self.size + p for t, p in self.warmups], dtype=np.int64)
            warmup = np.isin(keys, warm)
        return StreamsPlan(np.array(self.active, dtype=np.int32), task, process, warmup, probing, notes)


def balance_actives(place: Placement, tasks: IntArray) -> None:
    """Balances the tasks just placed, before there are standbys."""
    if not uneven(place):
        return
    owned = _by_process(place.size, tasks.tolist(), [place.active[t] for t in tasks.tolist()])

    def move(task: int, _source: int, destination: int) -> bool:
        place.active[task] = destination
        return True

    _sweep(place, owned, move, anywhere)


def balance_standbys(place: Placement, may_move: MayMove) -> None:
    """Balances standbys over processes without a copy of the task, where `may_move` allows it."""
    if not uneven(place):
        return
    task, process = place.replicas()
    owned = _by_process(place.size, task.tolist(), process.tolist())

    def move(task: int, source: int, destination: int) -> bool:
        if place.holds(destination, task):
            return False
        holders = place.standbys[task]
        holders[holders.index(source)] = destination
        return True

    _sweep(place, owned, move, may_move)


def uneven(place: Placement) -> bool:
    """Returns whether a task could move between two processes for balance."""
    loads = list(zip(place.load, place.capacity, strict=True))
    return max((load - 1) / room for load, room in loads) >= min((load + 1) / room for load, room in loads)


def is_wanted(place: Placement, source: int, destination: int) -> bool:
    """Returns whether moving a task between these improves the balance."""
    load, capacity = place.load, place.capacity
    return (load[source] - 1) / capacity[source] >= (load[destination] + 1) / capacity[destination]


def _by_process(size: int, tasks: list[int], processes: list[int]) -> list[list[int]]:
    owned: list[list[int]] = [[] for _ in range(size)]
    for task, process in zip(tasks, processes, strict=True):
        owned[process].append(task)
    return owned


def _sweep(place: Placement, owned: list[list[int]], move: Callable[[int, int, int], bool], may_move: MayMove) -> None:
    """Sweeps over all ordered pairs until a whole sweep moves nothing.

    A task should move from s to d if s still has at least d's load afterwards: (s - 1) / capacity >= (d + 1) /
    capacity. That is Java's shouldMoveATask, whose third test (less skew than before) then always holds. While s gives,
    fewer and fewer processes want anything from it.
    """
    load, capacity = place.load, place.capacity
    taking = (np.array(load) + 1) / np.array(capacity)
    moved = True
    while moved:
        moved = False
        for source in range(place.size):
            wanting = np.flatnonzero(taking <= (load[source] - 1) / capacity[source])
            while len(wanting):
                destination = int(wanting[0])
                wanting = wanting[1:]
                if not may_move(source, destination) or not _give(place, owned, move, source, destination):
                    continue
                moved = True
                for process in (source, destination):
                    taking[process] = (load[process] + 1) / capacity[process]
                wanting = wanting[taking[wanting] <= (load[source] - 1) / capacity[source]]


def _give(
    place: Placement, owned: list[list[int]], move: Callable[[int, int, int], bool], source: int, destination: int
) -> bool:
    """Moves tasks in order as long as that improves the balance. Returns False if none moved. A process's tasks are
    sorted when it gives, not each time it takes, because taking only appends."""
    load, capacity = place.load, place.capacity
    mine = owned[source]
    mine.sort()
    gone: list[int] = []
    left, theirs = load[source], load[destination]
    room, their_room = capacity[source], capacity[destination]
    for task in mine:
        if (left - 1) / room < (theirs + 1) / their_room:
            break
        if move(task, source, destination):
            gone.append(task)
            left -= 1
            theirs += 1
    if not gone:
        return False
    load[source], load[destination] = left, theirs
    owned[destination] += gone
    if mine[len(gone) - 1] == gone[-1]:
        del mine[: len(gone)]
    else:
        taken = set(gone)
        owned[source] = [task for task in mine if task not in taken]
    return True
