"""The groups that this process leads: the runner, the planner and the solver of each."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.coordinator import membership, planning
from bellwether_kafka.coordinator.kafka import client
from bellwether_kafka.coordinator.observation import Sources
from bellwether_kafka.coordinator.planning import RackRules
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner, Relieve
from bellwether_kafka.coordinator.runtime.group_watch import GroupWatch
from bellwether_kafka.coordinator.runtime.led_refreshes import LagsOf
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.readings import Brokers, GroupReader

RulesInForce = Callable[[str], Awaitable[tuple[Rule, ...]]]  # returns when a group's orders are read, or none can be


class LedGroups:
    """Makes the runners of groups to lead. `applications` are the Streams applications by group. `weights` serve all
    groups; without them each has those of its own offsets."""

    def __init__(
        self,
        applications: Mapping[str, planning.Application],
        policy_of: Callable[[str], Policy],
        *,
        weights: Callable[[], Weights] | None,
        lags_of: LagsOf,
        message_bytes_max: int,
        racks: RackRules,
        relieve: Relieve,
        rules_in_force: RulesInForce,
    ) -> None:
        self.runners: dict[str, GroupRunner[Any]] = {}
        self.watches: dict[str, GroupWatch] = {}
        self.solvers: dict[str, planning.Solver] = {}
        self._applications = applications
        self._policy_of = policy_of
        self._weights = weights
        self._lags_of = lags_of
        self._message_bytes_max = message_bytes_max
        self._racks = racks
        self._relieve = relieve
        self._rules_in_force = rules_in_force
        self._workers = planning.Solvers()
        self._turns = planning.Turns()

    def memberships(
        self,
        groups: Sequence[membership.MembershipConfig],
        broker_version: tuple[int, ...],
        size_limit: membership.SizeLimit,
    ) -> Iterator[membership.MembershipConfig]:
        """Yields the configuration of every group to lead, completed by its application and by the brokers' version and
        limit."""
        for config in groups:
            if config.mode != "lead":
                continue
            application = self._applications.get(config.group_id)
            led = application.membership(config) if application is not None else config
            yield membership.proven(led, broker_version, size_limit)

    def add(
        self,
        driver: MembershipDriver,
        sources: Sources,
        watch: client.MetadataWatch,
        observers: Observers,
        brokers: Brokers,
    ) -> None:
        """Adds a group, and what watches it between rebalances."""
        group_id = driver.config.group_id
        application = self._applications.get(group_id)
        on_decision: Sequence[Callable[[planning.Planned[Any]], None]]
        if application is None:
            planner, reader = self._consumers(group_id, sources, brokers)
            on_decision = (*observers.on_decision, *observers.on_consumer_decision)
        else:
            planner, kind = self._tasks(group_id, application, sources)
            reader = GroupReader(planner, brokers, application=kind)
            on_decision = (*observers.on_decision, *observers.on_streams_decision)
        between = self.watches[group_id] = GroupWatch(reader)
        notified = (between.on_decision, *on_decision), observers.on_note, observers.on_role
        planner.rules_in_force = partial(self._rules_in_force, group_id)
        self.runners[group_id] = GroupRunner(driver, sources.transport, planner, watch, *notified, self._relieve)

    def _consumers(
        self, group_id: str, sources: Sources, brokers: Brokers
    ) -> tuple[planning.Planner[Any], GroupReader]:
        policy = self._policy_of(group_id)
        foreign = planning.foreign_code(*policy.assignors.values(), *policy.stages)
        solver = self.solvers[group_id] = self._workers.make(policy, always=foreign)
        weights = self._weights or self._lags_of(group_id).weights
        kind = planning.ConsumerKind(sources.reader, policy, weights=weights)
        planner = planning.Planner(
            group_id,
            kind,
            message_bytes_max=self._message_bytes_max,
            solver=solver,
            racks=self._racks,
            turns=self._turns,
        )
        return planner, GroupReader(planner, brokers, policy=policy, weights=weights)

    def _tasks(
        self, group_id: str, application: planning.Application, sources: Sources
    ) -> tuple[planning.Planner[Any], Any]:
        solver = self._workers.make(application.assignors, always=application.foreign)
        self.solvers[group_id] = solver
        return application.planner(
            group_id, sources.reader, sources.offsets, self._message_bytes_max, solver, self._racks, self._turns
        )

    async def close(self) -> None:
        await self._workers.close()
