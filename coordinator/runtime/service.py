"""Runs all groups of a process: creates, starts and stops runners and observers.

The memberships of all groups have a transport of their own, so that no answer to anything else is read on the I/O
thread that sends heartbeats. The rest of the process shares another transport and a cluster reader.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.coordinator import clocks, membership, planning
from bellwether_kafka.coordinator.control import (
    Absence,
    AbsenceWatch,
    Controller,
    ControlSettings,
    HandBackFile,
    PlacementOrder,
    ServedGroups,
    Stopped,
)
from bellwether_kafka.coordinator.ghosts import GhostOptions, GhostWatch, ghost_watches
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.observation import (
    GroupObserver,
    LagRefreshes,
    Rhythms,
    Sources,
    as_if_led,
)
from bellwether_kafka.coordinator.planning import NO_RULES, RackRules
from bellwether_kafka.coordinator.runtime.group_watch import GroupWatches
from bellwether_kafka.coordinator.runtime.lead_memory import LeadMemory
from bellwether_kafka.coordinator.runtime.led_groups import LedGroups
from bellwether_kafka.coordinator.runtime.led_refreshes import LagsOf, LedRefreshes, RefreshSources
from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch, in_background
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver
from bellwether_kafka.coordinator.runtime.observed_groups import ObservedGroups, lister
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.outside import Outside
from bellwether_kafka.coordinator.runtime.readings import Brokers, watch_rack_file
from bellwether_kafka.coordinator.runtime.role_reports import remind, warn_of_guard
from bellwether_kafka.coordinator.runtime.selection import Named, Selected, Selection
from bellwether_kafka.coordinator.runtime.until_answered import Connecting, SizeLimitWatch

SIZE_LIMIT_S = 3.0  # how long to wait for the brokers' group.max.size; the start waits for it once

log = structlog.get_logger(__name__)

NewDriver = Callable[[membership.MembershipConfig], MembershipDriver]


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """How the process ends. `messages` are sentences for the operator; empty if there was no error."""

    exit_code: int
    messages: tuple[str, ...] = ()


class Service:
    """All groups of this process. `run` returns when every group has stopped. It raises no exception that a setting, a
    broker or a member can cause. `observers` and `served` may be set until it runs."""

    def __init__(
        self,
        properties: Mapping[str, str],
        groups: Sequence[membership.MembershipConfig],
        policy: Policy,
        *,
        policies: Mapping[str, Policy] | None = None,
        applications: Mapping[str, planning.Application] | None = None,
        ghosts: Mapping[str, GhostOptions] | None = None,
        observers: Observers | None = None,
        weights: Callable[[], Weights] | None = None,
        control: ControlSettings | None = None,
        served: ServedGroups | None = None,
        selection: Selection | None = None,
        rhythms: Rhythms | None = None,
        lags_of: LagsOf = LagRefreshes,
        watch_interval_ms: int = 10_000,
        message_bytes_max: int = planning.MESSAGE_BYTES_MAX,
        racks: RackRules = NO_RULES,
        outside: Outside | None = None,
    ) -> None:
        self.connected = False
        self.connecting = Connecting()
        self.loop_watch = LoopWatch()  # of the memberships
        self._properties = dict(properties)
        self._groups = tuple(groups)
        self._policy = policy
        self._policies = dict(policies or {})  # by group; the others use `policy`
        self._applications = dict(applications or {})  # by group: those that are Streams applications
        self._selection = selection or self._as_configured()
        self._observed: ObservedGroups | None = None
        self._led_refreshes: ObservedGroups | None = None
        self._lags_of = lags_of
        self._watches: dict[str, GhostWatch] = {}
        self._led = LedGroups(
            self._applications,
            self._policy_of,
            weights=weights,
            lags_of=lags_of,
            message_bytes_max=message_bytes_max,
            racks=racks,
            relieve=self._relieve,
            rules_in_force=self._rules_in_force,
        )
        self.runners = self._led.runners
        self._group_watches = GroupWatches(self._led.watches, self.runners)
        self._ghosts = dict(ghosts or {})  # by group: which members may be removed
        self.observers = observers or Observers()
        self._weights = weights
        self._control = control
        self.served = served
        self._rhythms = rhythms
        self._controller: Controller | None = None
        self._absences: AbsenceWatch | None = None
        self._stop_task: asyncio.Task[None] | None = None
        self._leaving = False
        self._watch_interval_ms = watch_interval_ms
        self._racks = racks
        self._outside = outside or Outside()

    @property
    def observed(self) -> Mapping[str, GroupObserver]:
        """The groups that Bellwether only observes."""
        return self._observed.observers if self._observed is not None else {}

    def watched(self, group_id: str) -> GroupObserver | None:
        """Returns the observer of a group; None if the group has a plan of this process or is unknown."""
        if self.plan_in_force(group_id):
            return None
        led = self._led_refreshes.observers if self._led_refreshes is not None else {}
        return led.get(group_id) or self.observed.get(group_id)

    def plan_in_force(self, group_id: str) -> bool:
        """Returns whether the group's members have a plan of this process."""
        runner = self.runners.get(group_id)
        return runner is not None and runner.plan_in_force

    async def run(self, *, handle_signals: bool = True) -> ServiceOutcome:
        troubles = [trouble for config in self._groups if (trouble := membership.check_timing(config))]
        if troubles:
            return ServiceOutcome(membership.EXIT_CONFIG, tuple(troubles))
        try:
            transport = self._outside.transport(self._properties)
            heartbeats = self._outside.transport(self._properties) if self._leads else transport
        except wire.ClientConfigError as error:
            return ServiceOutcome(membership.EXIT_CONFIG, (str(error),))
        transports = {transport, heartbeats}
        if handle_signals:
            self._listen()
        try:
            if not await self.connecting.connect(transports):
                return ServiceOutcome(0)
            self.loop_watch.threads = tuple(each.thread for each in transports if each.thread is not None)
            async with self._outside.memberships(self.loop_watch.run()) as loop:
                drivers = partial(MembershipDriver, transport=heartbeats, loop=loop, turns=membership.SearchTurns())
                return await self._run(transport, drivers)
        finally:
            await asyncio.gather(*(started.close() for started in transports))

    def stop(self) -> None:
        """Stops as SIGTERM does: every group is handed to a standby, is left, or keeps its session, and `run` returns.
        A second call does not wait for a standby."""
        self.connecting.stopping.set()
        if self._controller is not None and self._stop_task is None:
            self._stop_task = asyncio.create_task(self._hand_over_and_stop(self._controller))
        else:
            self._stop_now()

    def leave_all(self) -> None:
        """Leaves every group and keeps out of them until the process ends, as SIGUSR1 asks for; without a broker's help
        or a control topic."""
        self._leaving = True
        log.warning("leaving_all_groups", groups=len(self.runners), remedy="start the process again to lead them again")
        if self._controller is not None:
            self._controller.leave_all()

    async def _hand_over_and_stop(self, controller: Controller) -> None:
        try:
            await controller.hand_all_over()
        finally:
            self._stop_now()

    def _stop_now(self) -> None:
        self._stop_refreshes()
        for runner in self.runners.values():
            runner.post(membership.StopRequested())

    def _stop_refreshes(self) -> None:
        for refreshes in (self._observed, self._led_refreshes):
            if refreshes is not None:
                refreshes.stop()

    async def _run(self, transport: wire.Transport, drivers: NewDriver) -> ServiceOutcome:
        properties = wire.librdkafka_properties(self._properties)
        refreshes = RefreshSources(transport, properties, self._outside)
        reader = self._outside.cluster(properties) if self._leads else refreshes.reader
        watch = client.MetadataWatch(reader, self.rebalance_wanted, interval_ms=self._watch_interval_ms)
        describer = refreshes.shared
        offsets = self._outside.offsets(reader, transport, describer)
        sources = Sources(transport, reader, offsets)
        watching: list[asyncio.Task[Any]] = [in_background(watch.run)]
        watching += [in_background(partial(run, offsets, transport, reader.admin)) for run in self.observers.beside]
        sizes = SizeLimitWatch(partial(client.read_size_limit, reader.admin, SIZE_LIMIT_S), self._size_limit_read)
        release = transport.broker_version
        if self._takes_over:
            release, _ = await asyncio.gather(client.oldest_release(transport, reader), sizes.refresh())
            watching.append(in_background(sizes.run))
        own = Observers(on_note=[self._on_note], on_role=[self._on_role])
        observers = Observers.of(self.observers, own)
        brokers = Brokers(groups=describer, commits=transport, offsets=offsets)
        for config in self._led.memberships(self._groups, release, sizes.limit):
            warn_of_guard(config)
            self._led.add(drivers(config), sources, watch, observers, brokers)
        before = {group_id: runner.before_removal for group_id, runner in self.runners.items()}
        self._watches = ghost_watches(self._ghosts, describer, self.runners, self.observers, before)
        watching += [in_background(ghost_watch.run) for ghost_watch in self._watches.values()]
        if self._control is not None and (self._control.topic or self.runners):
            kept = self._outside.state_file("handed-back", self._properties.get("bootstrap.servers", ""))
            self._controller = Controller(
                self._outside.orders(self._properties, self._control.topic),
                self._control,
                self.runners,
                on_control=self.observers.on_control,
                on_stopped=self._members_stopped,
                served=self.served,
                hand_backs=HandBackFile(kept) if kept is not None else None,
            )
            if self._leaving:
                self._controller.leave_all()
            watching.append(in_background(self._controller.run))
            self._absences = AbsenceWatch(self._controller.absences, describer, served=partial(as_if_led, describer))
            watching.append(in_background(self._absences.run))
        watching.append(in_background(partial(remind, self.roles, clocks.monotonic)))
        memory = LeadMemory(self._outside.state_file("members", self._properties.get("bootstrap.servers", "")))
        memory.remind(self.runners)
        watching.append(in_background(partial(memory.run, self.runners)))
        watching.append(in_background(self._group_watches.run))
        if self._racks.file is not None:
            watching.append(in_background(partial(watch_rack_file, self._racks.file)))
        self._observed = observed = self._observed_groups(refreshes, transport)
        if self.runners and self.observers.on_led_seen:
            self._led_refreshes = led_refreshes = self._led_groups(refreshes, transport)
            watching.append(in_background(led_refreshes.run))
        self.connected = True
        if self.connecting.stopping.is_set():  # while the memberships were made
            self._stop_now()
        try:
            running = [group.run() for group in self.runners.values()]
            if observed.observers or self._selection.patterns or not running:
                running.append(observed.run())
            else:  # a reload may add groups to observe; until then the process ends with those it leads
                watching.append(in_background(observed.run))
            codes = await asyncio.gather(*running)
        finally:
            self._stop_refreshes()
            refreshes.close()
            for task in watching:
                task.cancel()
            if self._controller is not None:
                await self._controller.close()
            await self._led.close()
            offsets.close()
            reader.close()
        messages = tuple(runner.fatal.message for runner in self.runners.values() if runner.fatal is not None)
        return ServiceOutcome(max(codes, default=0), messages)

    def _members_stopped(self, record: Stopped, done: Callable[[], None]) -> None:
        watch = self._watches.get(record.target)
        if watch is None:
            done()
        else:
            watch.stopped(record.members, record.static, record.sentence, done)

    def _as_configured(self) -> Selection:
        """Returns the default selection: the groups that are not led."""
        return Named({config.group_id: self._selected(config) for config in self._groups if config.mode != "lead"})

    def _selected(self, config: membership.MembershipConfig) -> Selected:
        group = config.group_id
        return Selected(config, self._policy_of(group), self._applications.get(group))

    def _policy_of(self, group: str) -> Policy:
        return self._policies.get(group, self._policy)

    def emptying(self, group: str) -> tuple[tuple[PlacementOrder, Absence | None], ...]:
        """Returns the group's evacuations in force, each with its progress."""
        return self._controller.absences.evacuations(group) if self._controller is not None else ()

    def applied_plan(self, group: str) -> str:
        """Returns the sentence of the plan that is applied to the group, "" for none."""
        return self._controller.applied_plan(group) if self._controller is not None else ""

    async def _rules_in_force(self, group: str) -> tuple[Rule, ...]:
        return (await self._controller.orders_of(group)).rules if self._controller is not None else ()

    def rules_of(self, group: str) -> tuple[Rule, ...] | None:
        """Returns the rules of placement in force in a group that a broker assigns, None if they are not read yet. Any
        thread may call it."""
        if self._controller is not None:
            return self._controller.rules_of(group)
        return () if self.connected else None

    def _observed_groups(self, refreshes: RefreshSources, transport: wire.Transport) -> ObservedGroups:
        def make(selected: Selected) -> GroupObserver:
            config = membership.proven(selected.config, transport.broker_version)
            observers, seen = self.observers.on_observation, self.observers.on_seen
            by = selected.policy, selected.application
            ended = self.observers.on_rebalance
            return GroupObserver(
                config,
                refreshes.sources,
                *by,
                observers,
                on_seen=seen,
                on_rebalance=ended,
                on_unknown=self.observers.on_unknown,
                weights=self._weights,
                rhythms=self._rhythms,
                racks=self._racks,
                rules_of=self.rules_of,
            )

        return ObservedGroups(
            self._selection,
            make,
            lister(transport, lambda: refreshes.reader),
            refreshes.shared,
            self.observers.on_gone,
        )

    def _led_groups(self, refreshes: RefreshSources, transport: wire.Transport) -> ObservedGroups:
        made = LedRefreshes(
            refreshes=refreshes,
            transport=transport,
            plan_in_force=self.plan_in_force,
            solvers=self._led.solvers,
            on_seen=self.observers.on_led_seen,
            weights=self._weights,
            lags_of=self._lags_of,
            racks=self._racks,
        )
        return made.of({group: self._selected(runner.config) for group, runner in self.runners.items()})

    def observe(self, selection: Selection) -> None:
        """Observes these groups from now on. Led groups stay as they are."""
        self._selection = selection
        if self._observed is not None:
            self._observed.follow(selection)

    @property
    def _leads(self) -> bool:
        return any(config.mode == "lead" for config in self._groups)

    @property
    def _takes_over(self) -> bool:
        return any(config.mode == "lead" and config.adopt == "take-over" for config in self._groups)

    def _size_limit_read(self, limit: membership.SizeLimit) -> None:
        for runner in self.runners.values():
            runner.post(membership.SizeLimitRead(limit))

    def _on_note(self, group_id: str, note: membership.Note) -> None:
        if group_id in self._watches:
            self._watches[group_id].poll_now()
        if note.kind is membership.NoteKind.REJOINING:
            self._group_watches.look(group_id)
            if self._absences is not None:
                self._absences.poll_now()
        if self._controller is not None:
            self._controller.on_note(group_id, note)

    def _on_role(self, group_id: str, role: membership.Role) -> None:
        """Keeps hand-backs across restarts."""
        if self._controller is not None:
            if role.reason is membership.NotLeading.HANDED_BACK:
                self._controller.hand_back(group_id, waits=True)
            elif role.leading:
                self._controller.hand_back(group_id, waits=False)

    async def _relieve(self, group_id: str, reason: str) -> bool:
        return self._controller is not None and await self._controller.relieve(group_id, reason)

    def roles(self) -> dict[str, membership.Role]:
        """Returns the role in every group to lead; `since` and `next_attempt` are by the monotonic clock."""
        return {group: runner.role for group, runner in self.runners.items()}

    def rebalance_wanted(self, group_id: str, reason: str, subject: str) -> None:
        """Reports a reason for a rebalance to the group's membership, which decides whether and when to begin one."""
        runner = self.runners.get(group_id)
        if runner is not None:
            runner.post(membership.RebalanceWanted(reason, subject))

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGUSR1, self.leave_all)
