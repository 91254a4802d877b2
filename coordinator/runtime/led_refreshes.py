"""Observes groups that are configured to be led while no plan of this process is in force: after a restart, while a
member leads, or during a take-over. So what is known of a group does not depend on whether this process has led a
rebalance. And the sources that observers read from, which are opened for the first one: a process that only leads does
not need them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator import planning
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.observation import (
    GroupObserver,
    LagRefreshes,
    Observation,
    OnObservation,
    Sources,
    notify,
)
from bellwether_kafka.coordinator.planning import NO_RULES, RackRules
from bellwether_kafka.coordinator.runtime.observed_groups import ObservedGroups, lister
from bellwether_kafka.coordinator.runtime.outside import Outside
from bellwether_kafka.coordinator.runtime.selection import Named, Selected
from bellwether_kafka.coordinator.web import ITEMS_MAX

LagsOf = Callable[[str], LagRefreshes]  # the remembered offsets of a group to lead


class RefreshSources:
    """The sources of one process. `properties` are librdkafka's."""

    def __init__(self, transport: wire.Transport, properties: Mapping[str, str], outside: Outside) -> None:
        self.shared = Describer(transport)
        self._transport = transport
        self._properties = properties
        self._outside = outside
        self._opened: tuple[client.SharedReader, client.OffsetReader] | None = None

    @property
    def reader(self) -> client.SharedReader:
        return self._open()[0]

    @property
    def sources(self) -> Sources:
        reader, offsets = self._open()
        return Sources(self._transport, reader, offsets, self.shared)

    def close(self) -> None:
        if self._opened is not None:
            reader, offsets = self._opened
            offsets.close()
            reader.close()

    def _open(self) -> tuple[client.SharedReader, client.OffsetReader]:
        if self._opened is None:
            reader = self._outside.shared_cluster(self._properties)
            self._opened = reader, self._outside.offsets(reader, self._transport, self.shared)
        return self._opened


@dataclass(frozen=True, slots=True, kw_only=True)
class LedRefreshes:
    """Creates the observers of groups to lead. `plan_in_force` returns whether members have a plan of this process;
    such a group is not refreshed. `on_seen` also receives `unknown` groups. `solvers` are those of the groups' own
    plans, because plug-ins must run nowhere else."""

    refreshes: RefreshSources
    transport: wire.Transport
    plan_in_force: Callable[[str], bool]
    solvers: Mapping[str, planning.Solver]
    on_seen: Sequence[OnObservation]
    weights: Callable[[], Weights] | None = None
    lags_of: LagsOf = LagRefreshes
    racks: RackRules = NO_RULES

    def of(self, groups: Mapping[str, Selected]) -> ObservedGroups:
        """Returns the observed groups, to be run beside the memberships."""
        listed = lister(self.transport, lambda: self.refreshes.reader)
        return ObservedGroups(Named(groups), self._observer, listed, self.refreshes.shared, due=self._due)

    def _due(self, group_id: str) -> bool:
        return not self.plan_in_force(group_id)

    def _observer(self, selected: Selected) -> GroupObserver:
        group_id = selected.config.group_id
        return GroupObserver(
            selected.config,
            self.refreshes.sources,
            selected.policy,
            selected.application,
            [self._on_refresh],
            on_unknown=[self._on_refresh],
            weights=self.weights,
            lags=self.lags_of(group_id),
            lag_partitions_max=ITEMS_MAX,
            solver=self.solvers.get(group_id),
            racks=self.racks,
        )

    def _on_refresh(self, seen: Observation) -> None:
        if self.plan_in_force(seen.group_id):
            return  # a plan came into force while brokers were read
        for observer in self.on_seen:
            notify(observer, seen)
