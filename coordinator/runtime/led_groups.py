"""The groups of a process as they are configured, and those that it leads: the runner, the planner and the solver of
each."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.coordinator import membership, planning
from bellwether_kafka.coordinator.control import ControlSettings
from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.kafka import client
from bellwether_kafka.coordinator.observation import LagRefreshes, Rhythms, Sources
from bellwether_kafka.coordinator.planning import NO_RULES, RackRules
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner, Relieve
from bellwether_kafka.coordinator.runtime.group_watch import GroupWatch
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.readings import Brokers, GroupReader
from bellwether_kafka.coordinator.runtime.selection import Named, Selected, Selection

RulesInForce = Callable[[str], Awaitable[tuple[Rule, ...]]]  # returns when a group's orders are read, or none can be


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """The groups of a process, and how each is run. `properties` are those of the settings. `policies` are by group,
    the others have `policy`; `applications` are the Streams applications by group, `ghosts` which members may be
    removed. `weights` serve all groups; without them each has those of its own offsets, which `lags_of` remembers.
    Without a `selection` the groups that are not led are observed."""

    properties: Mapping[str, str]
    groups: Sequence[membership.MembershipConfig] = ()
    policy: Policy = field(default_factory=Policy)
    policies: Mapping[str, Policy] = field(default_factory=dict)
    applications: Mapping[str, planning.Application] = field(default_factory=dict)
    ghosts: Mapping[str, GhostOptions] = field(default_factory=dict)
    weights: Callable[[], Weights] | None = None
    control: ControlSettings | None = None
    selection: Selection | None = None
    rhythms: Rhythms | None = None
    lags_of: Callable[[str], LagRefreshes] = LagRefreshes
    watch_interval_ms: int = 10_000
    message_bytes_max: int = planning.MESSAGE_BYTES_MAX
    racks: RackRules = NO_RULES

    @property
    def led(self) -> tuple[membership.MembershipConfig, ...]:
        return tuple(config for config in self.groups if config.mode == "lead")

    @property
    def observed(self) -> Selection:
        others = (config for config in self.groups if config.mode != "lead")
        return self.selection or Named({config.group_id: self.selected(config) for config in others})

    def policy_of(self, group: str) -> Policy:
        return self.policies.get(group, self.policy)

    def selected(self, config: membership.MembershipConfig) -> Selected:
        group = config.group_id
        return Selected(config, self.policy_of(group), self.applications.get(group))


class LedGroups:
    """Makes the runners of groups to lead."""

    def __init__(self, config: GroupsConfig, relieve: Relieve, rules_in_force: RulesInForce) -> None:
        self.runners: dict[str, GroupRunner[Any]] = {}
        self.watches: dict[str, GroupWatch] = {}
        self.solvers: dict[str, planning.Solver] = {}
        self._config = config
        self._relieve = relieve
        self._rules_in_force = rules_in_force
        self._workers = planning.Solvers()
        self._turns = planning.Turns()

    def memberships(
        self, broker_version: tuple[int, ...], size_limit: membership.SizeLimit
    ) -> Iterator[membership.MembershipConfig]:
        """Yields the configuration of every group to lead, completed by its application and by the brokers' version and
        limit."""
        for config in self._config.led:
            application = self._config.applications.get(config.group_id)
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
        application = self._config.applications.get(group_id)
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
        policy = self._config.policy_of(group_id)
        foreign = planning.foreign_code(*policy.assignors.values(), *policy.stages)
        solver = self.solvers[group_id] = self._workers.make(policy, always=foreign)
        weights = self._config.weights or self._config.lags_of(group_id).weights
        kind = planning.ConsumerKind(sources.reader, policy, weights=weights)
        planner = planning.Planner(
            group_id,
            kind,
            message_bytes_max=self._config.message_bytes_max,
            solver=solver,
            racks=self._config.racks,
            turns=self._turns,
        )
        return planner, GroupReader(planner, brokers, policy=policy, weights=weights)

    def _tasks(
        self, group_id: str, application: planning.Application, sources: Sources
    ) -> tuple[planning.Planner[Any], Any]:
        solver = self._workers.make(application.assignors, always=application.foreign)
        self.solvers[group_id] = solver
        reads, config = (sources.reader, sources.offsets), self._config
        return application.planner(group_id, *reads, config.message_bytes_max, solver, config.racks, self._turns)

    async def close(self) -> None:
        await self._workers.close()
