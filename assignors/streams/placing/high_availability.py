"""HighAvailabilityTaskAssignor (KIP-441), as shipped: docs/internals/streams.md#highavailabilitytaskassignor.

It promises even numbers of stateful tasks for each thread, a process that has caught up for each of them, and then as
few source partitions from other racks as possible (KIP-925). Its steps are those of `assign_high_availability`:

1. stateful actives round robin, balanced, and exchanged for racks;
2. standbys by tags or on the lightest processes, and exchanged for racks;
3. movements: tasks stay where their state is until their intended process has caught up (`Movements`, a port of
   TaskMovement);
4. stateless tasks on the least loaded processes, and exchanged for racks.

Example: tasks 0_0 and 0_1 run on process 1, and process 2 joins without state. Step 1 gives 0_1 to process 2; step 3
leaves it on process 1 and makes process 2 warm up, and the plan asks for a probing rebalance.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, IntArray, LongArray, PrioritySet, drain_order, ordinals
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing.placement import Placement, balance_actives
from bellwether_kafka.assignors.streams.placing.racks import RackOptimiser
from bellwether_kafka.assignors.streams.placing.standby import missing_standbys, tag_rule
from bellwether_kafka.protocol.primitives import uuid_hash

Hashes = Callable[[], Sequence[int]]
NOWHERE: Mapping[int, int] = MappingProxyType({})


class Movements:
    """The movements of one placement. At most `warmups` warm-up replicas are made, not counting those on a process in
    `resumed` that has state of the task. `hashes` are the hash codes of the processes."""

    def __init__(
        self, place: Placement, lags: TaskLags, warmups: int, hashes: Hashes, resumed: Collection[int] = ()
    ) -> None:
        self._place = place
        self._lags = lags
        self._left = warmups
        self._hashes = hashes
        self._resumed = resumed
        self._lightest = PrioritySet(place, hashes)

    def actives(
        self,
        tasks: IntArray,
        running: Mapping[int, int] = NOWHERE,
        first: BoolArray | None = None,
        waiting: Collection[int] = (),
    ) -> int:
        """Moves each of these active tasks whose process lags behind to one that does not. Returns how many it moved.

        Pure swaps with a standby that has caught up count too. Tasks in `running` (the process where each runs now)
        stay there meanwhile; Java moves them to the lightest process that has caught up, and later once more. Tasks in
        `first` (per task) get warm-ups first, after those in `waiting`, which run and stay although their process has
        caught up.
        """
        lags = self._lags
        waits = np.isin(tasks, list(waiting)) if waiting else np.zeros(len(tasks), dtype=np.bool_)
        late = tasks[lags.behind(tasks, self._place.owners(tasks)) | waits]
        later = np.zeros(len(late), dtype=np.bool_) if first is None else ~first[late]
        if waiting:
            later = np.where(np.isin(late, list(waiting)), -1, later)
        queue = late[np.lexsort((late, lags.caught_count[late], later))]
        self._lightest = PrioritySet(self._place, self._hashes)
        for task in queue.tolist():
            home = running.get(task)
            if home is None:
                self._move_active(task)
            elif home in self._place.standbys[task]:
                self._swap(task, home, polled=False)
            else:
                self._run_meanwhile(task, home, polled=False)
        return len(queue)

    def standbys(self, *, closer: bool = False, urgent: Collection[int] = ()) -> int:
        """Does the same for standbys other than the warm-ups just made. Returns how many moved. If no other process has
        caught up, Java moves a standby to the first process by lag, even to one with the same lag and a smaller id;
        with `closer` only strictly less lag counts. Tasks in `urgent` get warm-ups before others."""
        place, lags = self._place, self._lags
        task, process = place.replicas()
        late = lags.behind(task, process)
        if place.warmups:
            made = np.array([t * place.size + p for t, p in place.warmups], dtype=np.int64)
            late &= ~np.isin(task.astype(np.int64) * place.size + process, made)
        task, process = task[late], process[late]
        by_process = np.lexsort((task, process))
        task, process = task[by_process], process[by_process]
        keys = lags.caught_count[task] * lags.tasks + task
        if urgent:
            keys[np.isin(task, list(urgent))] -= (lags.processes + 1) * lags.tasks
        self._lightest = PrioritySet(place, self._hashes)
        tasks, processes = task.tolist(), process.tolist()
        return sum(self._move_standby(tasks[at], processes[at], closer=closer) for at in drain_order(keys.tolist()))

    def _move_active(self, task: int) -> None:
        standbys, caught = self._place.standbys[task], self._lags.caught_up(task)
        source = self._lightest.poll([p for p in caught if p in standbys] if standbys else ())
        if source is not None:
            self._swap(task, source, polled=True)
            return
        source = self._lightest.poll(caught)
        polled = source is not None
        if source is None:
            source = self._lags.first_before(task, self._place.active[task], lambda _: True)
            if source is None:  # impossible: the task was queued because some process lags less
                return
            if source in standbys:
                self._swap(task, source, polled=False)
                return
        self._run_meanwhile(task, source, polled=polled)

    def _run_meanwhile(self, task: int, source: int, *, polled: bool) -> None:
        """Lets the source run the task, and the intended process warm up if the budget allows."""
        place = self._place
        destination = place.active[task]
        place.active[task] = source
        place.load[source] += 1
        if self._warms_up(task, destination, source, polled=polled):
            place.standbys[task].append(destination)
        else:
            place.load[destination] -= 1
            self._lightest.offer(source, destination, gained=1, lost=1, polled=polled)

    def _swap(self, task: int, source: int, *, polled: bool) -> None:
        """Lets the standby take over; the intended process keeps a standby instead, so no load changes."""
        destination, copies = self._place.active[task], self._place.standbys[task]
        copies[copies.index(source)] = destination
        self._place.active[task] = source
        self._lightest.offer(source, destination, polled=polled)

    def _move_standby(self, task: int, destination: int, *, closer: bool) -> bool:
        place, lags = self._place, self._lags
        active, copies = place.active[task], place.standbys[task]
        source = self._lightest.poll([p for p in lags.caught_up(task) if p != active and p not in copies])
        polled = source is not None
        if source is None:
            source = lags.first_before(task, destination, lambda p: p != active and p not in copies, closer=closer)
            if source is None:
                return False
        place.add_standby(task, source)
        if not self._warms_up(task, destination, source, polled=polled):
            place.remove_standby(task, destination)
            self._lightest.offer(source, destination, gained=1, lost=1, polled=polled)
        return True

    def _warms_up(self, task: int, destination: int, source: int, *, polled: bool) -> bool:
        """Takes a warm-up replica from the budget. Returns False if none is left."""
        if destination not in self._resumed or task not in self._lags.state_of(destination):
            self._left -= 1
            if self._left < 0:
                return False
        self._place.warmups.add((task, destination))
        self._lightest.offer(source, destination, gained=1, polled=polled)
        return True


STATEFUL_COSTS = (10, 1)  # of traffic, and of leaving the process that the placement chose
STATELESS_COSTS = (1, 0)


def assign_high_availability(
    view: StreamsView, configs: AssignmentConfigs, racks: RackOptimiser | None = None
) -> StreamsPlan:
    """Returns the plan of the shipped assignor: what a Java leader would decide with these inputs, process by
    process."""
    stateful: IntArray = np.flatnonzero(view.tasks.stateful).astype(np.int32)
    stateless: IntArray = np.flatnonzero(~view.tasks.stateful).astype(np.int32)
    costs, replicas = configs.rack_costs(*STATEFUL_COSTS), configs.num_standby_replicas
    place = Placement(view)
    # Sorted tasks round robin on sorted processes, then balanced by threads.
    place.place_actives(stateful, np.arange(len(stateful), dtype=np.int32) % view.size)
    balance_actives(place, stateful)
    _optimize(place, racks, stateful, costs)
    notes: tuple[str, ...] = ()
    if replicas:
        rule = tag_rule(view, configs)
        rule.assign(place, stateful.tolist(), replicas)
        rule.balance(place)
        if racks is not None:
            racks.standbys(place, rule, *costs)
        notes = missing_standbys(view, place.standbys, stateful.tolist(), replicas)
    lags = TaskLags.of(view, configs.acceptable_recovery_lag)
    moves = Movements(place, lags, configs.max_warmup_replicas, hashes_of(view))
    moved = moves.actives(stateful) + moves.standbys()
    if len(stateless):
        counts = np.bincount(place.owners(stateful), minlength=view.size)
        place.place_actives(stateless, deal(counts, view.capacity, len(stateless)))
        _optimize(place, racks, stateless, STATELESS_COSTS)
    return place.plan(probing=moved > 0, notes=notes)


def _optimize(place: Placement, racks: RackOptimiser | None, tasks: IntArray, costs: tuple[int, int]) -> None:
    """Exchanges these placed tasks for the sake of racks."""
    if racks is not None and len(tasks):
        place.replace_actives(tasks, racks.actives(np.array(place.active, dtype=np.int32), tasks, *costs)[tasks])


def deal(counts: LongArray, capacity: IntArray, tasks: int) -> IntArray:
    """Returns the owners of `tasks` tasks that are given one by one to the process with the least (count / capacity,
    index). Process p requests its next task at load (counts + 0) / capacity, then (counts + 1) / capacity and so on; as
    requests are served in sorted order, the smallest ones are selected at once."""
    capacity = capacity.astype(np.int64)
    low, high = 0, int(counts.max()) + tasks + 1
    while low < high:
        level = (low + high) // 2
        if int(np.maximum(level * capacity - counts, 0).sum()) >= tasks:
            high = level
        else:
            low = level + 1
    requests = np.maximum(low * capacity - counts, 0)
    process = np.repeat(np.arange(len(counts), dtype=np.int32), requests)
    load = (counts[process] + ordinals(requests)) / capacity[process]
    dealt: IntArray = process[np.lexsort((process, load))[:tasks]]
    return dealt


def hashes_of(view: StreamsView) -> Callable[[], list[int]]:
    """Returns a function that computes the hash codes of the processes on first use."""
    return cache(lambda: [uuid_hash(process.process_id) for process in view.processes])
