"""Rack-aware optimisation of placed tasks (KIP-925, docs/internals/streams.md#rackawaretaskassignor).

An active task costs its source partitions without a replica in the process's rack, a standby its changelog partitions;
a task that leaves the placement just made adds the non-overlap cost. Actives are placed at the minimum cost
(`assignors.shared.flow`), which equals Java's. Standbys are exchanged between pairs of processes in Java's order and
with Java's choice among equal exchanges, so that their cost is equal too.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import FlowProblem, IntArray, LongArray, optimise
from bellwether_kafka.assignors.streams import application
from bellwether_kafka.assignors.streams.placing.exchange import StandbyExchange
from bellwether_kafka.assignors.streams.placing.placement import Placement
from bellwether_kafka.assignors.streams.placing.standby import LabelRule, StandbyRule


def can_use(view: application.StreamsView, with_standbys: bool) -> str | None:
    """Returns why racks cannot be taken into account, None if they can."""
    for process in view.processes:
        if not process.rack:
            return f"process {process.process_id} has no client.rack, or its threads disagree on it"
    if not view.tasks.racks_known:
        return "a source partition has no replica or one on a broker without a rack"
    if with_standbys and not view.tasks.changelog_racks_known:
        return "a changelog partition has no replica or one on a broker without a rack"
    return None


def is_pointless(view: application.StreamsView) -> bool:
    """Returns whether every task, active or standby, costs the same everywhere, so that there is nothing to
    optimise."""
    racks = np.unique(columns(view))
    tables = (remote_table(view, view.tasks.source_remote), remote_table(view, view.tasks.changelog_remote))
    return all(bool((table[:, racks] == table[:, racks[:1]]).all()) for table in tables)


def _limits(group: LongArray, holder: IntArray, groups: int, size: int) -> LongArray:
    """Returns how many tasks of a subtopology a process may get: its share, rounded up (in Java's order of
    operations)."""
    counts = np.bincount(holder, minlength=size)
    share = counts * 1.0 / len(holder) * np.bincount(group, minlength=groups)[:, None]
    return np.ceil(share).astype(np.int64)


def columns(view: application.StreamsView) -> IntArray:
    """Returns the column of each process in a table of remote partitions; racks without a broker share the last one."""
    return np.where(view.rack < 0, np.int32(len(view.tasks.racks)), view.rack).astype(np.int32)


def remote_table(view: application.StreamsView, remote: IntArray) -> LongArray:
    """Returns the remote partitions per signature and rack, with a column for racks without a broker."""
    if remote.shape[1] == len(view.tasks.racks):
        worst = remote.max(axis=1, initial=0)
        remote = np.column_stack([remote, worst])
    return remote.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RackOptimiser:
    """The rack stage of the assignors for one view. `current` are the present active owners (process per task, NOBODY:
    unknown), None if they do not matter."""

    view: application.StreamsView
    strategy: str
    current: IntArray | None = None

    @classmethod
    def of(
        cls, view: application.StreamsView, configs: application.AssignmentConfigs, current: IntArray | None = None
    ) -> "RackOptimiser | str | None":
        """Returns the stage; None if the strategy is none; a sentence part if racks cannot be used."""
        if configs.rack_aware_assignment_strategy == application.NO_STRATEGY:
            return None
        reason = can_use(view, configs.num_standby_replicas > 0)
        return reason or cls(view, configs.rack_aware_assignment_strategy, current)

    def actives(self, active: IntArray, tasks: IntArray, traffic_cost: int, non_overlap_cost: int) -> IntArray:
        """Returns the active owners of all tasks after exchanging `tasks`, which must be placed, between their
        processes. Every process keeps its number of these tasks. `current` wins among placements of equal cost."""
        view, holder = self.view, active[tasks]
        if self.strategy == application.NO_STRATEGY or not len(tasks):
            return active
        rows, group = np.unique(view.tasks.subtopology[tasks], return_inverse=True)
        limited = self.strategy == application.BALANCE_SUBTOPOLOGY
        problem = FlowProblem(
            kind=view.tasks.source_signature[tasks],
            group=group.reshape(-1).astype(np.int32),
            holder=holder,
            cost=remote_table(view, view.tasks.source_remote) * traffic_cost,
            rack=columns(view),
            leaving=non_overlap_cost,
            limit=_limits(group, holder, len(rows), view.size) if limited else None,
            owner=None if self.current is None else self.current[tasks],
        )
        owners = active.copy()
        owners[tasks] = optimise(problem)
        return owners

    def standbys(self, place: Placement, rule: StandbyRule, traffic_cost: int, non_overlap_cost: int) -> None:
        """Exchanges standbys in the placement itself, because the rule reads it. Every process keeps its number of
        standbys, and none gets a second copy of a task. Not for placements with warm-up replicas."""
        movable = None
        if isinstance(rule, LabelRule):

            def movable(source: int, destination: int, task: int) -> bool:
                return rule.may_move_task(source, destination, task, place)

        table, view = self.view.tasks, self.view
        cost = remote_table(view, table.changelog_remote)[table.changelog_signature] * traffic_cost
        StandbyExchange(cost, columns(view), non_overlap_cost, place.active, place.standbys, movable).run()
