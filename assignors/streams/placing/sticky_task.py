"""StickyTaskAssignor: tasks stay where they were, as long as threads are evenly used
(docs/internals/streams.md#stickytaskassignor).

LegacyStickyTaskAssignor has the same rules; its public twin differs in one test (see `StickyTask`). Java iterates hash
maps in several places; here tasks and processes are taken in order.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing.high_availability import STATELESS_COSTS
from bellwether_kafka.assignors.streams.placing.placement import Placement
from bellwether_kafka.assignors.streams.placing.racks import RackOptimiser
from bellwether_kafka.assignors.streams.placing.standby import StandbyRule, missing_standbys

STATEFUL_COSTS = (1, 10)

_Room = tuple[float, int, int]


class StickyTask:
    """One assignment. With `preserve`, active tasks stay with their owner regardless of its load. `legacy` is the
    internal class: it calls a full process overloaded also if an equally loaded process has more threads, the public
    one (KIP-924) only if some process is strictly less loaded."""

    def __init__(
        self,
        view: StreamsView,
        configs: AssignmentConfigs,
        racks: RackOptimiser | None = None,
        *,
        preserve: bool = False,
        legacy: bool = False,
    ) -> None:
        self._view = view
        self._configs = configs
        self._racks = racks
        self._preserve = preserve
        self._legacy = legacy
        self._place = Placement(view)
        self._actives = [0] * view.size
        self._tasks_of: list[set[int]] = [set() for _ in range(view.size)]
        self._previous = previous_owners(view)
        self._kept = _previous_standbys(view)
        self._heap = [self._room(process) for process in range(view.size)]
        heapify(self._heap)

    def assign(self, *, probing: bool = False) -> StreamsPlan:
        self._assign_actives()
        stateful = np.flatnonzero(self._view.tasks.stateful).astype(np.int32)
        self._optimize_actives(stateful)
        notes: tuple[str, ...] = ()
        replicas = self._configs.num_standby_replicas
        if replicas:
            self._assign_standbys(stateful.tolist(), replicas)
            if self._racks is not None:
                self._racks.standbys(self._place, StandbyRule(), *self._stateful_costs)
            notes = missing_standbys(self._view, self._place.standbys, stateful.tolist(), replicas)
        return self._place.plan(probing=probing, notes=notes)

    def _assign_actives(self) -> None:
        quota = self._view.tasks.size // int(self._view.capacity.sum())
        limit = [int(threads) * quota for threads in self._view.capacity]
        left: list[int] = []
        for task, owner in enumerate(self._previous.tolist()):
            if owner != NOBODY and (self._preserve or self._actives[owner] < limit[owner]):
                self._take_active(task, owner)
            else:
                left.append(task)
        rest: list[int] = []
        for task in left:
            keeper = next((p for p in self._kept.get(task, ()) if self._actives[p] < limit[p]), None)
            if keeper is None:
                rest.append(task)
            else:
                self._take_active(task, keeper)
        for task in rest:
            self._take_active(task, self._find(task, everybody=True))

    def _assign_standbys(self, tasks: list[int], replicas: int) -> None:
        place = self._place
        for task in tasks:
            for _ in range(min(replicas, self._view.size - 1)):
                process = self._find(task, everybody=False)
                place.add_standby(task, process)
                self._hold(task, process)

    def _take_active(self, task: int, process: int) -> None:
        self._place.active[task] = process
        self._place.load[process] += 1
        self._actives[process] += 1
        self._hold(task, process)

    def _hold(self, task: int, process: int) -> None:
        self._tasks_of[process].add(task)
        heappush(self._heap, self._room(process))

    def _room(self, process: int) -> _Room:
        """Returns a sort key of processes by room: an empty one first, then less load, then more threads, then
        order."""
        load, threads = self._place.load[process], self._place.capacity[process]
        return (-1.0, 0, process) if not load else (load / threads, -threads, process)

    def _find(self, task: int, *, everybody: bool) -> int:
        """Returns the process for a copy of the task. For a standby, only processes without a copy are candidates."""
        owner = int(self._previous[task])
        keepers = [p for p in self._kept.get(task, ()) if everybody or not self._place.holds(p, task)]
        if owner == NOBODY or not (everybody or not self._place.holds(owner, task)):
            owner = self._least_loaded_of(task, keepers)
        if owner == NOBODY:
            return self._least_loaded(task)
        if not self._overloaded(owner):
            return owner
        keeper = self._least_loaded_of(task, keepers)
        if keeper == NOBODY or self._overloaded(keeper):
            return self._least_loaded(task)
        return keeper

    def _overloaded(self, process: int) -> bool:
        """Returns whether the process has at least one task per thread while another process has more room."""
        place = self._place
        load, threads = place.load[process], place.capacity[process]
        if load < threads:
            return False
        best = self._top()
        other, others = place.load[best] / place.capacity[best], place.capacity[best]
        return other < load / threads or (self._legacy and other == load / threads and others > threads)

    def _top(self) -> int:
        """Returns the process with the most room, dropping outdated heap entries."""
        while self._heap[0] != self._room(self._heap[0][2]):
            heappop(self._heap)
        return self._heap[0][2]

    def _least_loaded(self, task: int) -> int:
        """Returns the process with the most room among those without a copy; processes where the task would meet a new
        task come first."""
        met = self._met(task)
        seen: list[_Room] = []
        first = chosen = NOBODY
        while self._heap:
            room = heappop(self._heap)
            process = room[2]
            if room != self._room(process):
                continue
            seen.append(room)
            if task in self._tasks_of[process]:
                continue
            first = process if first == NOBODY else first
            if not self._tasks_of[process] or not self._tasks_of[process] <= met:
                chosen = process
                break
        for room in seen:
            heappush(self._heap, room)
        return first if chosen == NOBODY else chosen

    def _least_loaded_of(self, task: int, processes: Iterable[int]) -> int:
        order = sorted(map(self._room, processes))
        met = self._met(task) if order else set()
        fresh = (p for _, _, p in order if not self._tasks_of[p] or not self._tasks_of[p] <= met)
        return next(fresh, order[0][2] if order else NOBODY)

    def _met(self, task: int) -> set[int]:
        """Returns the tasks that share a process with a copy of this one."""
        owner = self._place.active[task]
        holders = ([] if owner == NOBODY else [owner]) + self._place.standbys[task]
        return set().union(*(self._tasks_of[process] for process in holders))

    def _optimize_actives(self, stateful: IntArray) -> None:
        if self._racks is None:
            return
        stateless = np.flatnonzero(~self._view.tasks.stateful).astype(np.int32)
        for tasks, costs in ((stateful, self._stateful_costs), (stateless, STATELESS_COSTS)):
            active = np.array(self._place.active, dtype=np.int32)
            owners = self._racks.actives(active, tasks, *costs)[tasks]
            self._place.replace_actives(tasks, owners)
        self._tasks_of = [set() for _ in self._tasks_of]
        for task, owner in enumerate(self._place.active):
            self._tasks_of[owner].add(task)

    @property
    def _stateful_costs(self) -> tuple[int, int]:
        return self._configs.rack_costs(*STATEFUL_COSTS)


def previous_owners(view: StreamsView) -> IntArray:
    """Returns the process that ran each task, the last one if several report it; NOBODY if none does."""
    owners = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    owners[view.previous_active.values] = view.previous_active.row
    return owners


def _previous_standbys(view: StreamsView) -> dict[int, list[int]]:
    previous = view.previous_standby
    kept: dict[int, list[int]] = {}
    for task, keeper in zip(previous.values.tolist(), previous.row.tolist(), strict=True):
        kept.setdefault(task, []).append(keeper)
    return kept


def assign_sticky(view: StreamsView, configs: AssignmentConfigs, racks: RackOptimiser | None = None) -> StreamsPlan:
    """Returns the plan of KIP-924's StickyTaskAssignor. It has no warm-ups, so it never requests a probing
    rebalance."""
    return StickyTask(view, configs, racks).assign()
