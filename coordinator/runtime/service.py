"""Runs all groups of a process: creates, starts and stops runners and observers.

The memberships of all groups have a transport of their own on their own loop, so that no answer to anything else is
read where heartbeats are sent. The rest of the process shares another transport and a cluster reader.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.control import (
    Absence,
    AbsenceWatch,
    Controller,
    HandBackFile,
    PlacementOrder,
    ServedGroups,
    Stopped,
)
from bellwether_kafka.coordinator.ghosts import GhostWatch, ghost_watches
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.observation import GroupObserver, Sources, as_if_led
from bellwether_kafka.coordinator.runtime.group_watch import GroupWatches
from bellwether_kafka.coordinator.runtime.lead_memory import LeadMemory
from bellwether_kafka.coordinator.runtime.led_groups import GroupsConfig, LedGroups
from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch, in_background
from bellwether_kafka.coordinator.runtime.membership_driver import Loop, MembershipDriver, on_loop
from bellwether_kafka.coordinator.runtime.observed_groups import ObservedGroups
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.outside import Outside
from bellwether_kafka.coordinator.runtime.readings import Brokers, watch_rack_file
from bellwether_kafka.coordinator.runtime.refreshes import Refreshes
from bellwether_kafka.coordinator.runtime.role_reports import remind, warn_of_guard
from bellwether_kafka.coordinator.runtime.selection import Selection
from bellwether_kafka.coordinator.runtime.until_answered import Connecting, SizeLimitWatch

SIZE_LIMIT_S = 3.0  # how long to wait for the brokers' group.max.size; the start waits for it once

log = structlog.get_logger(__name__)

NewDriver = Callable[[membership.MembershipConfig], MembershipDriver]
Run = Callable[[], Awaitable[Any]]  # until it is cancelled


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
        config: GroupsConfig,
        outside: Outside | None = None,
        *,
        observers: Observers | None = None,
        served: ServedGroups | None = None,
    ) -> None:
        self.connected = False
        self.connecting = Connecting()
        self.loop_watch = LoopWatch()  # of the memberships
        self.observers = observers or Observers()
        self.served = served
        self._config = config
        self._outside = outside or Outside()
        self._selection = config.observed
        self._observed: ObservedGroups | None = None
        self._led_refreshes: ObservedGroups | None = None
        self._ghosts: dict[str, GhostWatch] = {}
        self._led = LedGroups(config, self._relieve, self._rules_in_force)
        self.runners = self._led.runners
        self._group_watches = GroupWatches(self._led.watches, self.runners)
        self._controller: Controller | None = None
        self._absences: AbsenceWatch | None = None
        self._stop_task: asyncio.Task[None] | None = None
        self._leaving = False

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
        troubles = [trouble for config in self._config.groups if (trouble := membership.check_timing(config))]
        if troubles:
            return ServiceOutcome(membership.EXIT_CONFIG, tuple(troubles))
        try:
            transport = self._outside.transport(self._config.properties)
            heartbeats = self._outside.transport(self._config.properties) if self._config.led else transport
        except wire.ClientConfigError as error:
            return ServiceOutcome(membership.EXIT_CONFIG, (str(error),))
        if handle_signals:
            self._listen()
        async with self._outside.memberships(self.loop_watch.run()) as loop:
            loops = {heartbeats: loop, transport: asyncio.get_running_loop()}
            try:
                if not await self.connecting.connect(_start(each, own) for each, own in loops.items()):
                    return ServiceOutcome(0)
                drivers = partial(MembershipDriver, transport=heartbeats, loop=loop, turns=membership.SearchTurns())
                return await self._run(transport, drivers)
            finally:
                await asyncio.gather(*(on_loop(own, each.close()) for each, own in loops.items()))

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
        properties = wire.librdkafka_properties(self._config.properties)
        refreshes = Refreshes(self._config, transport, self._outside)
        reader = self._outside.cluster(properties) if self._config.led else refreshes.reader
        offsets = self._outside.offsets(reader, transport, refreshes.shared)
        watching = [in_background(partial(run, offsets, transport, reader.admin)) for run in self.observers.beside]
        background: list[Run] = [
            *await self._lead(drivers, Sources(transport, reader, offsets), refreshes.shared),
            *self._remove_ghosts(refreshes.shared),
            *self._control(refreshes.shared),
            *self._remember(),
            self._group_watches.run,
        ]
        if self._config.racks.file is not None:
            background.append(partial(watch_rack_file, self._config.racks.file))
        self._observed = observed = refreshes.observed(self._selection, self.observers, self.rules_of)
        if self.runners and self.observers.on_led_seen:
            led = {group: self._config.selected(runner.config) for group, runner in self.runners.items()}
            self._led_refreshes = refreshes.led(led, self._led.solvers, self.plan_in_force, self.observers.on_led_seen)
            background.append(self._led_refreshes.run)
        self.connected = True
        if self.connecting.stopping.is_set():  # while the memberships were made
            self._stop_now()
        running = [group.run for group in self.runners.values()]
        # A reload may add groups to observe; until then the process ends with those that it leads.
        observes = observed.observers or self._selection.patterns or not running
        (running if observes else background).append(observed.run)
        watching += [in_background(run) for run in background]
        try:
            codes = await asyncio.gather(*(run() for run in running))
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

    async def _lead(self, drivers: NewDriver, sources: Sources, describer: Describer) -> list[Run]:
        """Makes the runners of groups to lead. Returns what runs beside them, as the next ones do."""
        transport, reader = sources.transport, sources.reader
        watch = client.MetadataWatch(reader, self.rebalance_wanted, interval_ms=self._config.watch_interval_ms)
        sizes = SizeLimitWatch(partial(client.read_size_limit, reader.admin, SIZE_LIMIT_S), self._size_limit_read)
        release = transport.broker_version
        background: list[Run] = [watch.run]
        if any(config.adopt == "take-over" for config in self._config.led):
            release, _ = await asyncio.gather(client.oldest_release(transport, reader), sizes.refresh())
            background.append(sizes.run)
        observers = Observers.of(self.observers, Observers(on_note=[self._on_note], on_role=[self._on_role]))
        brokers = Brokers(groups=describer, commits=transport, offsets=sources.offsets)
        for config in self._led.memberships(release, sizes.limit):
            warn_of_guard(config)
            self._led.add(drivers(config), sources, watch, observers, brokers)
        return background

    def _remove_ghosts(self, describer: Describer) -> list[Run]:
        before = {group_id: runner.before_removal for group_id, runner in self.runners.items()}
        self._ghosts = ghost_watches(self._config.ghosts, describer, self.runners, self.observers, before)
        return [watch.run for watch in self._ghosts.values()]

    def _control(self, describer: Describer) -> list[Run]:
        settings, kept = self._config.control, self._state_file("handed-back")
        if settings is None or not (settings.topic or self.runners):
            return []
        self._controller = Controller(
            self._outside.orders(self._config.properties, settings.topic),
            settings,
            self.runners,
            on_control=self.observers.on_control,
            on_stopped=self._members_stopped,
            served=self.served,
            hand_backs=HandBackFile(kept) if kept is not None else None,
        )
        if self._leaving:
            self._controller.leave_all()
        self._absences = AbsenceWatch(self._controller.absences, describer, served=partial(as_if_led, describer))
        return [self._controller.run, self._absences.run]

    def _remember(self) -> list[Run]:
        memory = LeadMemory(self._state_file("members"))
        memory.remind(self.runners)
        return [partial(remind, self.roles, clocks.monotonic), partial(memory.run, self.runners)]

    def _state_file(self, kind: str) -> Path | None:
        return self._outside.state_file(kind, self._config.properties.get("bootstrap.servers", ""))

    def _members_stopped(self, record: Stopped, done: Callable[[], None]) -> None:
        watch = self._ghosts.get(record.target)
        if watch is None:
            done()
        else:
            watch.stopped(record.members, record.static, record.sentence, done)

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

    def observe(self, selection: Selection) -> None:
        """Observes these groups from now on. Led groups stay as they are."""
        self._selection = selection
        if self._observed is not None:
            self._observed.follow(selection)

    def _size_limit_read(self, limit: membership.SizeLimit) -> None:
        for runner in self.runners.values():
            runner.post(membership.SizeLimitRead(limit))

    def _on_note(self, group_id: str, note: membership.Note) -> None:
        if group_id in self._ghosts:
            self._ghosts[group_id].poll_now()
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


def _start(transport: wire.Transport, loop: Loop) -> Callable[[int], Awaitable[None]]:
    return lambda timeout_ms: on_loop(loop, transport.start(timeout_ms))
