"""An instance: a process of the product, its own service over the brokers and the clock of a world.

The fuse counts steps of the process (callbacks on its loop) and kills it after one of them.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from bellwether_kafka.coordinator.control import ControlSettings
from bellwether_kafka.coordinator.membership import (
    INTERNAL_ERROR,
    Event,
    MembershipConfig,
    MembershipView,
    Note,
    NotLeading,
    Role,
    State,
)
from bellwether_kafka.coordinator.runtime import GroupsConfig, Observers, Outside, Service, ServiceOutcome
from bellwether_kafka.coordinator.triggers import Prober, ProbingFacts
from bellwether_kafka.coordinator.web import HttpServer, Web
from tests.kit.virtual_time import RUNNING, Process
from tests.simulation.checks import ViolationError
from tests.simulation.control_log import ControlTopic
from tests.simulation.kafka import Offsets, Reader, SharedReader, Transport

if TYPE_CHECKING:
    from tests.simulation.world import World

DUE_MS = 11_000  # a probe that is due begins at the next tick, which may be 10 s away
PROPERTIES = {"bootstrap.servers": "simulation:9092"}


class Server:
    """One process that is started and ended again and again, with an `Instance` for each of its groups, of which the
    first one's world is that of the process. `number` counts its lives; `exit_code` is of its last end, None after a
    crash. `run` may be replaced before it is started."""

    def __init__(self, name: str, *, computes: bool = False) -> None:
        self.name = name
        self.computes = computes
        self.number = 0
        self.of: dict[str, Instance] = {}  # by group
        self.service: Service | None = None
        self.running: Process | None = None
        self.exit_code: int | None = None
        self.slow_plan_s = 0.0
        self.run: Callable[[Server], Coroutine[Any, Any, ServiceOutcome]] = Server.serve

    @property
    def world(self) -> "World":
        return next(iter(self.of.values())).world

    @property
    def client(self) -> str:
        return f"{self.name}.{self.number}"

    def start(self) -> None:
        world = self.world
        if self.running is not None:
            return  # what restarts it has been here before
        self.number += 1
        self.exit_code = None
        self.running = process = Process(self.client, computes=self.computes)
        process.failed = self._failed
        process.burnt = lambda: self.crash("is killed")
        process.plan_s = self._plan_s
        process.skew_s = lambda: world.skew_ms / 1000
        world.log(f"{self.name} starts")
        world.processes_run.append(process)
        process.run(lambda: world.loop.create_task(self._live(process)))

    def _failed(self, text: str) -> None:
        with suppress(ViolationError):  # raised when the loop gives the control back
            self.world.violate(f"{self.name}: {text}")

    async def _live(self, process: Process) -> None:
        outcome = await self.run(self)
        if self.running is process:
            self.exit_code = outcome.exit_code
            self.world.log(f"{self.name} has ended: {outcome.exit_code} {'; '.join(outcome.messages)}")
            self._end()

    async def serve(self) -> ServiceOutcome:
        """The service alone, without metrics and page."""
        first = self.world
        config = GroupsConfig(
            properties=PROPERTIES,
            groups=tuple(instance.config for instance in self.of.values()),
            policy=first.policy,
            applications={group: i.world.application.led for group, i in self.of.items() if i.world.streams},
            ghosts={group: i.world.ghosts for group, i in self.of.items() if i.world.ghosts is not None},
            control=ControlSettings("control", self.name, standby=next(iter(self.of.values())).config.standby),
            watch_interval_ms=first.metadata_interval_ms,
        )
        self.service = Service(config, self.outside(), observers=self.observers)
        return await self.service.run(handle_signals=False)

    @property
    def observers(self) -> Observers:
        return Observers(on_decision=[self._decided], on_note=[self._noted])

    def outside(self, page: Callable[[Web], Any] = HttpServer) -> Outside:
        world, numbers = self.world, iter(range(100))
        return Outside(
            transport=lambda _: Transport(self, next(numbers)),
            cluster=lambda _: Reader(world),
            shared_cluster=lambda _: SharedReader(world),
            offsets=lambda _reader, _transport, describer: Offsets(world, describer),
            orders=lambda _, __: ControlTopic(world.control),
            memberships=_on_this_loop,
            state_file=lambda kind, _: world.folder / f"{kind}-of-{self.name}.json",
            page=page,
            started=lambda: None,
            signals=False,
        )

    def _plan_s(self) -> float:
        self.world.checks.worked("Decide")
        if self.computes:
            return 0.0
        return self.slow_plan_s or self.world.rng.uniform(0.005, 0.05)

    def _decided(self, planned: Any) -> None:
        self.of[planned.decision.raw.group_id].decided(planned.decision)

    def _noted(self, group: str, note: Note) -> None:
        self.of[group].noted(note)

    def crash(self, why: str = "dies") -> None:
        if self.running is not None:
            machines = (instance.machine for instance in self.of.values())
            states = ", ".join(machine.state.name for machine in machines if machine is not None)
            self.world.log(f"{self.name} {why} in {states or 'its start'}")
            self._end()

    def stop(self) -> None:
        if self.service is not None:
            self.call(self.service.stop)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """As soon as the process can."""
        if self.running is not None:
            self.running.run(partial(self.world.loop.call_soon, function, *arguments))

    def pause(self, seconds: float) -> None:
        if self.running is not None:
            self.running.paused_until = max(self.running.paused_until, self.world.clock.now + seconds)

    def _end(self) -> None:
        assert self.running is not None
        self.running.killed = True
        self.world.network.drop_client(self.client)
        self.world.control.forget(self.running)
        self.service = self.running = None
        self.number += 1


class Instance:
    """A process as the group of a world has it."""

    def __init__(self, world: "World", server: Server, config: MembershipConfig) -> None:
        self.world, self.server, self.config = world, server, config
        server.of[config.group_id] = self
        self.coalescing_since = 0.0
        self._state: State | None = None
        configs = world.application.config.configs
        self._prober = Prober(configs.acceptable_recovery_lag, configs.probing_rebalance_interval_ms)
        self._watched: Any = None  # the runner whose events the checks see

    # ---- the process -----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def client(self) -> str:
        return self.server.client

    @property
    def process(self) -> int:
        return self.server.number

    @property
    def up(self) -> bool:
        return self.server.running is not None

    @property
    def paused_until(self) -> float:
        return self.server.running.paused_until if self.server.running is not None else 0.0

    @property
    def fuse(self) -> int | None:
        return self.server.running.fuse if self.server.running is not None else None

    @fuse.setter
    def fuse(self, steps: int | None) -> None:
        if self.server.running is not None:
            self.server.running.fuse = steps

    @property
    def slow_plan_s(self) -> float:
        return self.server.slow_plan_s

    @slow_plan_s.setter
    def slow_plan_s(self, seconds: float) -> None:
        self.server.slow_plan_s = seconds

    def start(self) -> None:
        self.server.start()

    def crash(self) -> None:
        self.server.crash()

    def stop(self) -> None:
        self.server.stop()

    def pause(self, seconds: float) -> None:
        self.server.pause(seconds)

    # ---- the membership --------------------------------------------------------------------------------------------

    @property
    def runner(self) -> Any:
        service = self.server.service
        return service.runners.get(self.config.group_id) if service is not None else None

    @property
    def membership(self) -> MembershipView:
        view: MembershipView = self.runner.membership
        return view

    @property
    def machine(self) -> MembershipView | None:
        """The membership as the process knows it, None before it has begun."""
        runner = self.runner
        return runner.membership if runner is not None else None

    @property
    def role(self) -> Role:
        """What it says of itself."""
        role: Role = self.runner.role
        return role

    @property
    def leads(self) -> bool:
        """As far as it knows itself."""
        machine = self.machine
        return machine is not None and machine.state is State.STABLE and not machine.alone

    @property
    def unfinished(self) -> bool:
        """It leads, and is going to ask for another rebalance."""
        at_ms = self._prober.next_at_ms if self.leads else None
        return at_ms is not None and at_ms > self.world.own_wall_ms() - DUE_MS

    @property
    def obstacle(self) -> str:
        """Why it takes the group over from nobody."""
        blocked = self.runner is not None and self.role.reason is NotLeading.BLOCKED
        return self.role.detail if blocked else ""

    @property
    def holds_open(self) -> bool:
        machine = self.machine
        coalescing = machine is not None and machine.state is State.COALESCING
        return coalescing and self.world.clock.now >= self.paused_until

    def post(self, event: Event) -> None:
        if self.runner is not None:
            self.server.call(self.runner.post, event)

    # ---- what the checks see ---------------------------------------------------------------------------------------

    def step(self) -> None:
        """Before time goes on."""
        runner = self.runner
        state = runner.membership.state if runner is not None else None
        if state is not self._state:
            self._state, self.coalescing_since = state, self.world.clock.now
        if runner is not None and runner is not self._watched:
            self._watched, post = runner, runner.post
            runner._driver.machine._core.position.on_edge = self.world.moved

            def seen(event: Event) -> None:
                self.world.checks.hand_backs.handled(self, event)
                post(event)

            runner.post = seen

    def decided(self, decision: Any) -> None:
        """The broker has this plan."""
        if self.world.streams:
            self._prober.planned(ProbingFacts.of(decision, ordered=self.world.evacuation is not None))
        self.world.log(f"{self.name}: plan of generation {decision.raw.generation} is delivered")

    def noted(self, note: Note) -> None:
        self.world.log(f"{self.name}: {note.kind.name} {note.reason}")
        self.world.notes[note.kind.name] += 1
        self.world.checks.hand_backs.noted(self, note)
        if note.reason.startswith(INTERNAL_ERROR):
            self.world.violate(f"{self.name}: {note.reason}")


def silence(_logger: Any, _level: str, event: Any) -> Any:
    """A processor of structlog: no line is written, and a traceback that a process logs is a failure."""
    process = RUNNING.get()
    if process is not None and event.get("exc_info"):
        process.failed(f"{event} {traceback.format_exc()}")
    raise structlog.DropEvent


@asynccontextmanager
async def _on_this_loop(watch: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.AbstractEventLoop]:
    """In place of the thread of the memberships, which is never late here."""
    watch.close()
    yield asyncio.get_running_loop()
