"""Task movements: tasks stay where their state is until their intended process has caught up.

A port of TaskMovement (docs/internals/streams.md#highavailabilitytaskassignor). The placement states where everything
should end up. A movement returns an active task or a standby to a process that has its state now, and lets the intended
process warm up, as long as the budget of warm-up replicas lasts.

HighAvailabilityTaskAssignor (KIP-441), as shipped: docs/internals/streams.md#highavailabilitytaskassignor.

Stateful actives round robin and balanced, standbys, movements back to where the state is, then stateless tasks on the
least loaded processes. The racks of KIP-925 are a hook at the three places where Kafka optimises them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, IntArray, LongArray, PrioritySet, drain_order, ordinals
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing.placement import Placement, balance_actives
from bellwether_kafka.assignors.streams.placing.racks import RackOptimiser
from bellwether_kafka.assignors.streams.placing.standby import StandbyRule, missing_standbys, tag_rule
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


class HighAvailability:
    """One assignment. The parts that a policy may replace are separate methods."""

    def __init__(self, view: StreamsView, configs: AssignmentConfigs, racks: RackOptimiser | None = None) -> None:
        self.view = view
        self.configs = configs
        self.racks = racks
        self.place = Placement(view)
        self.notes: list[str] = []
        stateful = view.tasks.stateful
        self.stateful: IntArray = np.flatnonzero(stateful).astype(np.int32)
        self.stateless: IntArray = np.flatnonzero(~stateful).astype(np.int32)

    def assign(self) -> StreamsPlan:
        self.place_stateful()
        if self.racks is not None:
            self.optimize_actives(self.stateful, *self.stateful_costs)
        self.refine(self.stateful)
        if self.configs.num_standby_replicas:
            self.place_standbys()
            wanted = self.configs.num_standby_replicas
            self.notes += missing_standbys(self.view, self.place.standbys, self.to_copy.tolist(), wanted)
        moved = self.move()
        self.place_stateless()
        if self.racks is not None:
            self.optimize_actives(self.stateless, *STATELESS_COSTS)
        self.refine(self.stateless)
        return self.place.plan(probing=moved > 0, notes=tuple(self.notes))

    def refine(self, tasks: IntArray) -> None:
        """Hook for a policy to change these active tasks once they are placed. Kafka's assignor does nothing here."""

    @property
    def to_copy(self) -> IntArray:
        """The tasks that should have all their standbys now."""
        return self.stateful

    @cached_property
    def lags(self) -> TaskLags:
        return TaskLags.of(self.view, self.configs.acceptable_recovery_lag)

    def place_stateful(self) -> None:
        """Places sorted tasks round robin on sorted processes, then balances them by threads."""
        owners = np.arange(len(self.stateful), dtype=np.int32) % self.view.size
        self.place.place_actives(self.stateful, owners)
        balance_actives(self.place, self.stateful)

    def place_standbys(self) -> None:
        rule = tag_rule(self.view, self.configs)
        rule.assign(self.place, self.stateful.tolist(), self.configs.num_standby_replicas)
        rule.balance(self.place)
        self.optimize_standbys(rule)

    def optimize_standbys(self, rule: StandbyRule) -> None:
        if self.racks is not None:
            self.racks.standbys(self.place, rule, *self.stateful_costs)

    def move(self) -> int:
        """Leaves tasks where their state is for now. Returns how many are not yet where they should end up."""
        moves = Movements(self.place, self.lags, self.configs.max_warmup_replicas, hashes_of(self.view))
        return moves.actives(self.stateful) + moves.standbys()

    def place_stateless(self) -> None:
        """Places each task in order on the process with the fewest active tasks per thread."""
        if not len(self.stateless):
            return
        counts = np.bincount(self.place.owners(self.stateful), minlength=self.view.size)
        self.place.place_actives(self.stateless, deal(counts, self.view.capacity, len(self.stateless)))

    @property
    def stateful_costs(self) -> tuple[int, int]:
        return self.configs.rack_costs(*STATEFUL_COSTS)

    def optimize_actives(self, tasks: IntArray, traffic_cost: int, non_overlap_cost: int) -> None:
        if self.racks is None or not len(tasks):
            return
        active = np.array(self.place.active, dtype=np.int32)
        owners = self.racks.actives(active, tasks, traffic_cost, non_overlap_cost)[tasks]
        self.place.replace_actives(tasks, owners)


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


def assign_high_availability(
    view: StreamsView, configs: AssignmentConfigs, racks: RackOptimiser | None = None
) -> StreamsPlan:
    """Returns the plan of the shipped assignor: what a Java leader would decide with these inputs, process by
    process."""
    return HighAvailability(view, configs, racks).assign()
