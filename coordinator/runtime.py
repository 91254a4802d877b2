"""The only owner of asyncio: executes the commands of each group's membership and turns results into events.

`GroupRunner` is one group, `Service` is the process: many groups over one transport and one cluster reader.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import structlog
from confluent_kafka.admin import AdminClient

from assignors.decide import Decision
from assignors.registry import Policy
from assignors.rules import Rule
from assignors.streams.result import StreamsDecision
from assignors.weights import Weights
from coordinator.applications import Application
from coordinator.assist import GhostWatch, RemovalObserver, ghost_watches
from coordinator.client_config import ClientConfigError, librdkafka_properties
from coordinator.cluster import ClusterReader, ClusterUnreachableError, MetadataWatch
from coordinator.commands import (
    Abandon,
    Command,
    Decide,
    Delivered,
    Fatal,
    Join,
    Note,
    NoteKind,
    RebuildMemory,
    Request,
    Stopped,
    Sync,
)
from coordinator.events import (
    ComparisonFailed,
    ComparisonReady,
    DecisionFailed,
    DecisionReady,
    DescribeAnswer,
    Event,
    RebalanceWanted,
    StopRequested,
    Wake,
)
from coordinator.ghosts import GhostOptions
from coordinator.group import GroupMembership, MembershipConfig, State, check_timing
from coordinator.group_errors import EXIT_CONFIG
from coordinator.guard import MESSAGE_BYTES_MAX
from coordinator.leadership import proven
from coordinator.observe_runner import GroupObserver, OnObservation, Sources
from coordinator.offset_reader import OffsetReader
from coordinator.orders import ControlSettings
from coordinator.orders_desk import ControlDesk, OnControl
from coordinator.planner import Planned, Planner
from coordinator.planner_streams import PlannedTasks
from coordinator.planning import D, GroupPlanner, PlanError, PlannedRound
from coordinator.solver import Solvers, foreign_code
from coordinator.streams_watch import StreamsWatch
from coordinator.transport import Transport, TransportError, UnreachableError

EXIT_BUG = 1

DecisionObserver = Callable[[Planned], None]
StreamsObserver = Callable[[PlannedTasks], None]
NoteObserver = Callable[[str, Note], None]
Beside = Callable[[OffsetReader, Transport, AdminClient], Coroutine[Any, Any, None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Observers:
    """Who hears about decisions (after the broker has them) and notes. What they raise is logged and forgotten.

    `beside` are run until the service ends; they read and decide nothing.
    """

    on_decision: Sequence[DecisionObserver] = ()
    on_note: Sequence[NoteObserver] = ()
    on_streams_decision: Sequence[StreamsObserver] = ()
    on_ghost: Sequence[RemovalObserver] = ()
    beside: Sequence[Beside] = ()
    on_seen: Sequence[Callable[[str, DescribeAnswer], None]] = ()
    on_observation: Sequence[OnObservation] = ()
    on_control: Sequence[OnControl] = ()


def _told(observer: Callable[..., None], *values: object) -> None:
    try:
        observer(*values)
    except Exception:
        log.exception("observer_failed", observer=repr(observer))


class GroupRunner(Generic[D]):
    """Runs one group until it has stopped. All methods belong to the event loop.

    `on_decision` hear about decisions that the broker has; what they raise is logged and forgotten.
    """

    def __init__(
        self,
        config: MembershipConfig,
        transport: Transport,
        planner: GroupPlanner[D],
        watch: MetadataWatch | None = None,
        *,
        on_decision: Sequence[Callable[[PlannedRound[D]], None]] = (),
        on_note: Sequence[NoteObserver] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group_id = config.group_id
        self.membership = GroupMembership(config)
        self.fatal: Fatal | None = None
        self.last: PlannedRound[D] | None = None
        self._transport = transport
        self._planner = planner
        self._watch = watch
        self._on_decision = on_decision
        self._on_note = on_note
        self._clock = clock
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._parked: dict[int, asyncio.Task[None]] = {}
        self._rebuilding: asyncio.Task[None] | None = None
        self._observing: asyncio.Task[None] | None = None
        self._stopped = False
        self._synced_from = 0.0
        self._wake_next = False
        self._takes_part = False

    def post(self, event: Event) -> None:
        self._events.put_nowait(event)

    def rule(self, rules: tuple[Rule, ...]) -> None:
        """The operator's word on placement, for every plan from now on."""
        self._planner.rule(rules)

    async def run(self) -> int:
        """Returns the exit code: 0, or the one of the fatal command."""
        try:
            self._execute(self.membership.start(self._clock()))
            while not self._stopped:
                event = await self._next_event()
                if isinstance(event, DescribeAnswer) and self.membership.state is State.WATCHING:
                    self._observing = self._start(self._observe(event))
                self._execute(self.membership.handle(event, self._clock()))
                self._unfollow_unless_leading()
        except Exception:
            log.exception("group_crashed", group=self.group_id)
            self.fatal = Fatal(f"Group '{self.group_id}': an error of ours ended it; see the log.", EXIT_BUG)
            await self._hand_over()
        finally:
            self._cleanup()
        return self.fatal.exit_code if self.fatal is not None else 0

    async def _next_event(self) -> Event:
        deadline = self.membership.deadline()
        if deadline is None:
            return await self._events.get()
        left = deadline - self._clock()
        # What has happened comes before what is due, but a flood of events must not starve the timers.
        if not self._events.empty() and not self._wake_next:
            self._wake_next = left <= 0
            return self._events.get_nowait()
        self._wake_next = False
        try:
            async with asyncio.timeout(max(0.0, left)):
                return await self._events.get()
        except TimeoutError:
            return Wake()

    def _execute(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._do(command)

    def _do(self, command: Command) -> None:
        match command:
            case Abandon():
                self._abandon(command)
            case Decide():
                self._start(self._compare(command) if command.dry else self._plan(command))
            case RebuildMemory():
                self._rebuilding = self._start(self._rebuild(command))
            case Delivered():
                self._delivered(command)
            case Note():
                self._noted(command)
            case Fatal():
                self.fatal = command
                log.error("group_given_up", group=self.group_id, reason=command.message, exit_code=command.exit_code)
            case Stopped():
                self._stopped = True
            case _:
                self._send(command)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- requests ----------------------------------------------------------------------------------------------

    def _send(self, command: Request) -> None:
        task = self._start(self._request(command))
        if isinstance(command, Sync):
            self._synced_from = self._clock()
        if isinstance(command, (Join, Sync)):
            self._parked[command.request_id] = task
            task.add_done_callback(lambda _: self._parked.pop(command.request_id, None))

    async def _request(self, command: Request) -> None:
        self.post(await self._transport.request(command))

    def _abandon(self, command: Abandon) -> None:
        task = self._parked.pop(command.request_id, None)
        if task is not None:
            task.cancel()
        self._transport.abandon(self.group_id)

    # ---- decisions ---------------------------------------------------------------------------------------------

    async def _plan(self, command: Decide) -> None:
        try:
            planned = await self._planner.plan(command)
        except PlanError as error:
            self.post(DecisionFailed(command.generation, str(error)))
            return
        decision = planned.chosen.decision
        self.post(DecisionReady(command.generation, decision.assignments, decision.followup, planned.topics))

    async def _compare(self, command: Decide) -> None:
        before = [task for task in (self._rebuilding, self._observing) if task is not None]
        if before:
            await asyncio.wait(before)
        deadline = max(command.deadline, self._clock() + self.membership.config.decision_deadline_ms / 1000)
        try:
            comparison = await self._planner.compare(replace(command, deadline=deadline))
        except PlanError as error:
            log.warning("comparison_failed", group=self.group_id, generation=command.generation, reason=str(error))
            self.post(ComparisonFailed(command.generation, str(error)))
            return
        self.post(ComparisonReady(command.generation, bool(comparison.reason), comparison.reason, comparison.topics))

    async def _rebuild(self, command: RebuildMemory) -> None:
        try:
            described = await self._transport.describe_group(self.group_id)
            await self._planner.rebuild(command, described, self.membership.member_id)
        except Exception as error:
            # Without memory the next plan is only less sticky.
            log.warning("memory_not_rebuilt", group=self.group_id, reason=str(error), exc_info=not _known(error))

    async def _observe(self, described: DescribeAnswer) -> None:
        try:
            await self._planner.observed(described, self.membership.config.instance_id)
        except Exception as error:
            log.warning("group_not_observed", group=self.group_id, reason=str(error), exc_info=not _known(error))

    def _delivered(self, command: Delivered) -> None:
        planned = self._planner.delivered(command.generation)
        if planned is None:
            return
        planned = replace(planned, timings=replace(planned.timings, sync_s=self._clock() - self._synced_from))
        self.last = planned
        if self._watch is not None:
            self._watch.follow(
                self.group_id,
                planned.topics,
                planned.chosen.decision.cluster,
                rack_aware=planned.rack_aware,
                kept=planned.watched,
                objection=planned.objection,
            )
        for observer in self._on_decision:
            _told(observer, planned)

    def _unfollow_unless_leading(self) -> None:
        state = self.membership.state
        if self._watch is not None and (state in (State.WATCHING, State.STOPPED) or self.membership.alone):
            self._watch.forget(self.group_id)
        if state is State.WATCHING and self._takes_part:
            self._planner.forget()
        self._takes_part = state is not State.WATCHING

    def _noted(self, note: Note) -> None:
        level = log.warning if note.kind in (NoteKind.ALERT, NoteKind.REFUSED) else log.info
        level("membership", group=self.group_id, what=note.kind.name, reason=note.reason, generation=note.generation)
        for observer in self._on_note:
            _told(observer, self.group_id, note)

    async def _hand_over(self) -> None:
        """After a bug: members must not wait for our session to expire."""
        command = self.membership.farewell("an error of ours")
        if command is not None:
            await self._transport.request(command)

    def _cleanup(self) -> None:
        if self._watch is not None:
            self._watch.forget(self.group_id)
        for task in self._tasks:
            task.cancel()
        self._transport.abandon(self.group_id)


def _known(error: Exception) -> bool:
    return isinstance(error, (TransportError, TimeoutError, ClusterUnreachableError))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the process ends: `messages` are sentences for people, empty when all is well."""

    exit_code: int
    messages: tuple[str, ...] = ()


class Service:
    """All groups of this process. `run` returns when every group has stopped; it raises nothing that a setting, a
    broker or a member can cause."""

    def __init__(
        self,
        properties: Mapping[str, str],
        groups: Sequence[MembershipConfig],
        policy: Policy,
        *,
        policies: Mapping[str, Policy] | None = None,
        applications: Mapping[str, Application] | None = None,
        ghosts: Mapping[str, GhostOptions] | None = None,
        observers: Observers = Observers(),
        weights: Callable[[], Weights] | None = None,
        control: ControlSettings | None = None,
        watch_interval_ms: int = 10_000,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        connect_timeout_ms: int = 10_000,
    ) -> None:
        self.runners: dict[str, GroupRunner[Any]] = {}
        self.observed: dict[str, GroupObserver] = {}  # groups that we only look at
        self._properties = dict(properties)
        self._groups = tuple(groups)
        self._policy = policy
        self._policies = dict(policies or {})  # by group; the others use `policy`
        self._applications = dict(applications or {})  # by group: those that are Streams applications
        self._watches: dict[str, GhostWatch] = {}
        self._ghosts = dict(ghosts or {})  # by group: what may be removed from it
        self._observers = observers
        self._weights = weights
        self._control = control
        self._desk: ControlDesk | None = None
        self._solvers = Solvers()
        self._stop_task: asyncio.Task[None] | None = None
        self._watch_interval_ms = watch_interval_ms
        self._message_bytes_max = message_bytes_max
        self._connect_timeout_ms = connect_timeout_ms

    async def run(self, *, handle_signals: bool = True) -> Outcome:
        troubles = [trouble for config in self._groups if (trouble := check_timing(config))]
        if troubles:
            return Outcome(EXIT_CONFIG, tuple(troubles))
        try:
            transport = Transport(self._properties)
        except ClientConfigError as error:
            return Outcome(EXIT_CONFIG, (str(error),))
        try:
            await transport.start(self._connect_timeout_ms)
            return await self._run(transport, handle_signals=handle_signals)
        except UnreachableError as error:
            return Outcome(EXIT_CONFIG, (str(error),))
        finally:
            await transport.close()

    def stop(self) -> None:
        """What SIGTERM does: every group goes to a standby, leaves, or falls silent, and `run` returns. The second time
        without waiting for a standby."""
        if self._desk is not None and self._stop_task is None:
            self._stop_task = asyncio.create_task(self._hand_over_and_stop(self._desk))
        else:
            self._stop_now()

    async def _hand_over_and_stop(self, desk: ControlDesk) -> None:
        try:
            await desk.hand_all_over()
        finally:
            self._stop_now()

    def _stop_now(self) -> None:
        for observer in self.observed.values():
            observer.stop()
        for runner in self.runners.values():
            runner.post(StopRequested())

    async def _run(self, transport: Transport, *, handle_signals: bool) -> Outcome:
        reader = ClusterReader(librdkafka_properties(self._properties))
        watch = MetadataWatch(reader, self.rebalance_wanted, interval_ms=self._watch_interval_ms)
        offsets = OffsetReader(reader.admin, transport)
        watching = [asyncio.create_task(watch.run())]
        watching += [asyncio.create_task(run(offsets, transport, reader.admin)) for run in self._observers.beside]
        for config in (proven(config, transport.broker_version) for config in self._groups):
            application = self._applications.get(config.group_id)
            if config.mode != "lead":
                sources, policy = Sources(transport, reader, offsets), self._policies.get(config.group_id, self._policy)
                told, seen = self._observers.on_observation, self._observers.on_seen
                self.observed[config.group_id] = GroupObserver(config, sources, policy, application, told, on_seen=seen)
            elif application is None:
                self._add_group(config, transport, reader, watch)
            else:
                watching.append(self._add_application(application, config, transport, reader, watch, offsets))
        led = {group_id: runner.membership for group_id, runner in self.runners.items()}
        self._watches = ghost_watches(self._ghosts, transport, led, self._observers)
        watching += [asyncio.create_task(ghost_watch.run()) for ghost_watch in self._watches.values()]
        if self._control is not None:
            self._desk = ControlDesk.open(self._properties, self._control, self.runners, self._observers.on_control)
            watching.append(asyncio.create_task(self._desk.run()))
        if handle_signals:
            self._listen()
        try:
            running = [group.run() for group in self.runners.values()]
            running += [group.run() for group in self.observed.values()]
            codes = await asyncio.gather(*running)
        finally:
            for task in watching:
                task.cancel()
            if self._desk is not None:
                await self._desk.close()
            await self._solvers.close()
            offsets.close()
            reader.close()
        messages = tuple(runner.fatal.message for runner in self.runners.values() if runner.fatal is not None)
        return Outcome(max(codes, default=0), messages)

    def _add_group(
        self, config: MembershipConfig, transport: Transport, reader: ClusterReader, watch: MetadataWatch
    ) -> None:
        policy = self._policies.get(config.group_id, self._policy)
        foreign = foreign_code(*policy.assignors.values(), *policy.stages)
        solver = self._solvers.make(policy, always=foreign)
        planner = Planner(
            config.group_id,
            reader,
            policy,
            weights=self._weights,
            message_bytes_max=self._message_bytes_max,
            solver=solver,
        )
        self.runners[config.group_id] = GroupRunner[Decision](
            config,
            transport,
            planner,
            watch,
            on_decision=self._observers.on_decision,
            on_note=(*self._observers.on_note, self._on_note),
        )

    def _add_application(
        self,
        application: Application,
        config: MembershipConfig,
        transport: Transport,
        reader: ClusterReader,
        watch: MetadataWatch,
        offsets: OffsetReader,
    ) -> "asyncio.Task[None]":
        """Adds its runner; returns the task that looks after it between rounds."""
        assignors = application.assignors
        solver = self._solvers.make(assignors, always=application.foreign)
        planner = application.planner(config.group_id, reader, offsets, self._message_bytes_max, solver)
        between = StreamsWatch(planner, offsets)
        runner = GroupRunner[StreamsDecision](
            application.membership(config),
            transport,
            planner,
            watch,
            on_decision=(between.on_decision, *self._observers.on_streams_decision),
            on_note=(*self._observers.on_note, self._on_note),
        )
        self.runners[config.group_id] = runner
        return asyncio.create_task(between.run(runner.membership, runner.post))

    def _on_note(self, group_id: str, note: Note) -> None:
        if group_id in self._watches:
            self._watches[group_id].stir()
        if self._desk is not None:
            self._desk.on_note(group_id, note)

    def rebalance_wanted(self, group_id: str, reason: str) -> None:
        """A group has reason to plan anew; whether it does is its membership's decision."""
        runner = self.runners.get(group_id)
        if runner is not None:
            runner.post(RebalanceWanted(reason))

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
