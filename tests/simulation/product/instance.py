"""An instance: the product's own service over the brokers and the clock of a world.

The fuse counts steps of the process (callbacks on its loop) and kills it after one of them.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from bellwether_kafka.assignors.consumer import Policy
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
from bellwether_kafka.coordinator.runtime import Observers, Outside, Service
from bellwether_kafka.coordinator.triggers import ProbingFacts
from bellwether_kafka.coordinator.triggers.probing import Prober
from tests.simulation.product.control_log import ControlTopic
from tests.simulation.product.kafka import Offsets, Reader, SharedReader, Transport
from tests.simulation.product.loop import Process

if TYPE_CHECKING:
    from tests.simulation.product.world import ServedWorld

GROUP = "g"
DUE_MS = 5_000  # until the process has noticed that a probe is due
PROPERTIES = {"bootstrap.servers": "simulation:9092"}


class ServedInstance:
    """`service` is None while the process is down. `exit_code` is of its last end, None after a crash."""

    def __init__(self, world: "ServedWorld", name: str, config: MembershipConfig) -> None:
        self.world, self.name, self.config = world, name, config
        self.service: Service | None = None
        self.process = 0
        self.running: Process | None = None
        self.exit_code: int | None = None
        self.slow_plan_s = 0.0
        self.coalescing_since = 0.0
        self._state: State | None = None
        configs = world.application.config.configs
        self._prober = Prober(configs.acceptable_recovery_lag, configs.probing_rebalance_interval_ms)
        self._watched: Any = None  # the runner whose events the checks see

    @property
    def client(self) -> str:
        return f"{self.name}.{self.process}"

    @property
    def up(self) -> bool:
        return self.running is not None

    @property
    def paused_until(self) -> float:
        return self.running.paused_until if self.running is not None else 0.0

    @property
    def fuse(self) -> int | None:
        return self.running.fuse if self.running is not None else None

    @fuse.setter
    def fuse(self, steps: int | None) -> None:
        if self.running is not None:
            self.running.fuse = steps

    @property
    def runner(self) -> Any:
        return self.service.runners.get(GROUP) if self.service is not None else None

    @property
    def membership(self) -> MembershipView:
        view: MembershipView = self.runner.membership
        return view

    @property
    def machine(self) -> MembershipView | None:
        """The membership as the process knows it, None before it has begun."""
        return self.runner.membership if self.runner is not None else None

    @property
    def role(self) -> Role:
        """What it says of itself."""
        role: Role = self.runner.role
        return role

    @property
    def leads(self) -> bool:
        """As far as it knows itself."""
        return self.machine is not None and self.machine.state is State.STABLE and not self.machine.alone

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
        awake = self.world.clock.now >= self.paused_until
        return self.machine is not None and self.machine.state is State.COALESCING and awake

    def now(self) -> float:
        return self.world.clock.now

    def step(self) -> None:
        """After each turn of the loop."""
        state = self.machine.state if self.machine is not None else None
        if state is not self._state:
            self._state, self.coalescing_since = state, self.now()
        if self.runner is not None and self.runner is not self._watched:
            self._watched, post = self.runner, self.runner.post

            def seen(event: Event) -> None:
                self.world.checks.hand_backs.handled(self, event)  # type: ignore[arg-type]  # it has the same name
                post(event)

            self.runner.post = seen

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up:
            return  # what restarts it has been here before
        self.process += 1
        self.exit_code = None
        self.running = process = Process(self.client)
        process.failed = lambda text: self.world.violate(f"{self.name}: {text}")
        process.burnt = lambda: self.crash("is killed")
        process.plan_s = self._plan_s
        process.skew_s = lambda: self.world.skew_ms / 1000
        self.world.log(f"{self.name} starts")
        self.world.processes_run.append(process)
        process.run(lambda: self.world.loop.create_task(self._run(process)))

    async def _run(self, process: Process) -> None:
        self.service = service = self._service()
        outcome = await service.run(handle_signals=False)
        if self.running is process:
            self.exit_code = outcome.exit_code
            self.world.log(f"{self.name} has ended: {outcome.exit_code} {'; '.join(outcome.messages)}")
            self._end()

    def _service(self) -> Service:
        world, numbers = self.world, iter(range(100))
        streams = world.streams
        outside = Outside(
            transport=lambda _: Transport(self, next(numbers)),
            cluster=lambda _: Reader(world),
            shared_cluster=lambda _: SharedReader(world),
            offsets=lambda _, transport: Offsets(world, transport),
            orders=lambda _, __: ControlTopic(world.log_of_orders),
            memberships=_on_this_loop,
            state_file=lambda kind, _: world.folder / f"{kind}-of-{self.name}.json",
        )
        observers = Observers(on_decision=[self._decided], on_note=[self._noted])
        return Service(
            PROPERTIES,
            (self.config,),
            Policy(),
            applications={GROUP: world.application.led} if streams else None,
            observers=observers,
            control=ControlSettings("control", self.name, standby=self.config.standby),
            outside=outside,
        )

    def _plan_s(self) -> float:
        self.world.checks.worked("Decide")
        return self.slow_plan_s or self.world.rng.uniform(0.005, 0.05)

    def _decided(self, planned: Any) -> None:
        if self.world.streams:
            ordered = self.world.evacuation is not None
            self._prober.planned(ProbingFacts.of(planned.chosen.decision, ordered=ordered))
        self.world.log(f"{self.name}: plan of generation {planned.chosen.decision.raw.generation} is delivered")

    def _noted(self, group: str, note: Note) -> None:
        del group
        self.world.log(f"{self.name}: {note.kind.name} {note.reason}")
        self.world.notes[note.kind.name] += 1
        self.world.checks.hand_backs.noted(self, note)  # type: ignore[arg-type]  # it has the same name
        if note.reason.startswith(INTERNAL_ERROR):
            self.world.violate(f"{self.name}: {note.reason}")

    def crash(self, why: str = "dies") -> None:
        if self.up:
            state = self.machine.state.name if self.machine is not None else "its start"
            self.world.log(f"{self.name} {why} in {state}")
            self._end()

    def stop(self) -> None:
        if self.running is not None and self.service is not None:
            self.running.run(partial(self.world.loop.call_soon, self.service.stop))

    def pause(self, seconds: float) -> None:
        if self.running is not None:
            self.running.paused_until = max(self.running.paused_until, self.world.clock.now + seconds)

    def _end(self) -> None:
        assert self.running is not None
        self.running.killed = True
        self.world.network.drop_client(self.client)
        self.world.log_of_orders.forget(self.running)
        self.service = self.running = None
        self.process += 1

    def post(self, event: Event) -> None:
        if self.running is not None and self.runner is not None:
            self.running.run(partial(self.world.loop.call_soon, self.runner.post, event))


@asynccontextmanager
async def _on_this_loop(watch: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.AbstractEventLoop]:
    """In place of the thread of the memberships."""
    watching = asyncio.create_task(watch)
    try:
        yield asyncio.get_running_loop()
    finally:
        watching.cancel()
