"""HighAvailabilityTaskAssignor (KIP-441), as shipped: docs/internals/streams.md#highavailabilitytaskassignor.

Stateful actives round robin and balanced, standbys, movements back to where the state is, then stateless tasks on the
least loaded processes. The racks of KIP-925 are a hook at the three places where Kafka optimises them.
"""

from collections.abc import Callable
from functools import cache, cached_property

import numpy as np

from bellwether_kafka.assignors.shared import IntArray, LongArray, ordinals
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing.movements import Movements
from bellwether_kafka.assignors.streams.placing.placement import Placement, balance_actives
from bellwether_kafka.assignors.streams.placing.rack_aware import RackOptimiser
from bellwether_kafka.assignors.streams.placing.standby import StandbyRule, missing_standbys, tag_rule
from bellwether_kafka.protocol.primitives import uuid_hash

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
