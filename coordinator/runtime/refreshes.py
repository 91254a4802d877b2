"""The refreshes of groups: of those that are only observed, and of those to lead while no plan of this process is in
force, after a restart, while a member leads, or during a take-over. So what is known of a group does not depend on
whether this process has led a rebalance. The sources that observers read from are opened for the first one: a process
that only leads does not need them."""

from collections.abc import Callable, Mapping, Sequence

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator import membership, planning
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, OnObservation, Sources, notify
from bellwether_kafka.coordinator.runtime.led_groups import GroupsConfig
from bellwether_kafka.coordinator.runtime.observed_groups import Lister, ObservedGroups, lister
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.outside import Outside
from bellwether_kafka.coordinator.runtime.selection import Named, Selected, Selection
from bellwether_kafka.coordinator.web import ITEMS_MAX


class Refreshes:
    """Makes what refreshes the groups of one process."""

    def __init__(self, config: GroupsConfig, transport: wire.Transport, outside: Outside) -> None:
        self.shared = Describer(transport)
        self._config = config
        self._transport = transport
        self._outside = outside
        self._opened: tuple[client.SharedReader, client.OffsetReader] | None = None

    @property
    def reader(self) -> client.SharedReader:
        return self._open()[0]

    def close(self) -> None:
        if self._opened is not None:
            reader, offsets = self._opened
            offsets.close()
            reader.close()

    def observed(
        self,
        selection: Selection,
        observers: Observers,
        rules_of: Callable[[str], tuple[Rule, ...] | None],
    ) -> ObservedGroups:
        def make(selected: Selected) -> GroupObserver:
            return GroupObserver(
                membership.proven(selected.config, self._transport.broker_version),
                self._sources,
                selected.policy,
                selected.application,
                observers.on_observation,
                on_seen=observers.on_seen,
                on_rebalance=observers.on_rebalance,
                on_unknown=observers.on_unknown,
                weights=self._config.weights,
                rhythms=self._config.rhythms,
                racks=self._config.racks,
                rules_of=rules_of,
            )

        return ObservedGroups(selection, make, self._lister, self.shared, observers.on_gone)

    def led(
        self,
        groups: Mapping[str, Selected],
        solvers: Mapping[str, planning.Solver],
        plan_in_force: Callable[[str], bool],
        on_seen: Sequence[OnObservation],
    ) -> ObservedGroups:
        """A group is not refreshed while its members have a plan of this process (`plan_in_force`). `on_seen` also
        receives `unknown` groups. `solvers` are those of the groups' own plans, because plug-ins must run nowhere
        else."""

        def refreshed(seen: Observation) -> None:
            if not plan_in_force(seen.group_id):  # one may have come into force while brokers were read
                for observer in on_seen:
                    notify(observer, seen)

        def make(selected: Selected) -> GroupObserver:
            group_id = selected.config.group_id
            return GroupObserver(
                selected.config,
                self._sources,
                selected.policy,
                selected.application,
                [refreshed],
                on_unknown=[refreshed],
                weights=self._config.weights,
                lags=self._config.lags_of(group_id),
                lag_partitions_max=ITEMS_MAX,
                solver=solvers.get(group_id),
                racks=self._config.racks,
            )

        return ObservedGroups(
            Named(groups), make, self._lister, self.shared, due=lambda group: not plan_in_force(group)
        )

    @property
    def _lister(self) -> Lister:
        return lister(self._transport, lambda: self.reader)

    @property
    def _sources(self) -> Sources:
        reader, offsets = self._open()
        return Sources(self._transport, reader, offsets, self.shared)

    def _open(self) -> tuple[client.SharedReader, client.OffsetReader]:
        if self._opened is None:
            reader = self._outside.shared_cluster(wire.librdkafka_properties(self._config.properties))
            self._opened = reader, self._outside.offsets(reader, self._transport, self.shared)
        return self._opened
