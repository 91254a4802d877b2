"""An instance process: the real membership machine, the real decide and guard, and what the runtime does around them.

The fuse counts steps (an event handled, a command executed) and ends the process before or after one of them.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bellwether_kafka.assignors.shared import RawGroup, RefusalError
from bellwether_kafka.coordinator.control import NO_ORDERS, GroupOrders
from bellwether_kafka.coordinator.membership import (
    INTERNAL_ERROR,
    Abandon,
    Command,
    Decide,
    DecisionFailed,
    DecisionReady,
    DescribeAnswer,
    Edge,
    Event,
    Evict,
    Fatal,
    FindCoordinator,
    GroupMembership,
    Join,
    MembershipConfig,
    MembershipStopped,
    MembershipView,
    Note,
    NotLeading,
    OffsetsFound,
    PlanDelivered,
    RebalanceWanted,
    RebuildMemory,
    Request,
    RequestFailed,
    Role,
    State,
    StopRequested,
    Sync,
    Wake,
)
from bellwether_kafka.coordinator.observation import MemberlessCommits
from bellwether_kafka.coordinator.planning.planner import RESERVE_S, raw_group
from bellwether_kafka.coordinator.planning.racks import MemberRacks
from bellwether_kafka.coordinator.runtime.commit_watch import INTERVAL_S, TICK_S, read_of
from tests.simulation.at_rest import CONTROL_LANE, compare_rebuilt, rebuild, watch_rest
from tests.simulation.brokers.broker import addressed
from tests.simulation.brokers.network import Call
from tests.simulation.channels import Channel
from tests.simulation.planners import Made, PlainPlanner, Planner, TaskPlanner

if TYPE_CHECKING:
    from tests.simulation.world import World

BUSY = 1_000  # steps without time passing
REFRESH_S = 0.5
METADATA_S = 5.0
OFFSETS_S = 0.05


class DiedError(Exception):
    """The fuse has burnt down."""


class Instance:
    """`machine` is None while the process is down. `exit_code` is of its last end, None after a crash."""

    def __init__(self, world: "World", name: str, config: MembershipConfig) -> None:
        self.world, self.name, self.config = world, name, config
        self.machine: GroupMembership | None = None
        self.process = 0
        self.exit_code: int | None = None
        self.fuse: int | None = None
        self.slow_plan_s = 0.0
        self.paused_until = 0.0
        self.offset_s = 0.0  # of its monotonic clock
        self.coalescing_since = 0.0
        self.channel: Channel | None = None  # where instances stand by for each other
        self.fatal: Fatal | None = None
        self._wipe()

    def _wipe(self) -> None:
        self._events: deque[Event] = deque()
        self._calls: dict[int, Call] = {}
        self.planner: Planner = TaskPlanner(self.world) if self.config.streams else PlainPlanner(self.world)
        self._planned: tuple[int, Any] | None = None
        self._seen: list[tuple[str, bytes, bytes]] = []  # of a group that others lead
        self._takes_part = False
        self.rebuilding = False
        self._asked_for_offsets = False
        self._commits: MemberlessCommits | None = None  # of a group that it watches without members
        self._wakes_at: Any = None
        self._busy = (0.0, 0)

    @property
    def client(self) -> str:
        return f"{self.name}.{self.process}"

    @property
    def membership(self) -> MembershipView:
        """What a controller reads."""
        assert self.machine is not None
        return self.machine.view

    policy = "kafka"
    rules_refused = ""
    digest = ""

    orders = NO_ORDERS

    def follow(self, orders: GroupOrders, news: str) -> None:
        """Operators order nothing here."""

    def begin_rebalance(self, order: str) -> None:
        """Nor a rebalance."""

    @property
    def up(self) -> bool:
        return self.machine is not None

    @property
    def role(self) -> Role:
        """What it says of itself."""
        return self.membership.role

    @property
    def leads(self) -> bool:
        """As far as it knows itself."""
        machine = self.machine
        return machine is not None and machine.state is State.STABLE and not machine.alone

    @property
    def unfinished(self) -> bool:
        """It leads, and is going to ask for another rebalance."""
        return self.leads and self.planner.unfinished

    @property
    def obstacle(self) -> str:
        """Why it takes the group over from nobody."""
        obstacle = self.machine._core.takeovers.obstacle if self.machine is not None else None
        return obstacle.sentence if obstacle is not None else ""

    @property
    def holds_open(self) -> bool:
        awake = self.world.clock.now >= self.paused_until
        return self.machine is not None and self.machine.state is State.COALESCING and awake

    def now(self) -> float:
        return self.world.clock.now + self.offset_s

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.machine is not None:
            return  # what restarts it has been here before
        self._wipe()
        self.process += 1
        self.exit_code, self.fatal = None, None
        self.fuse = None
        self.paused_until = 0.0
        self.offset_s = self.world.rng.uniform(1.0, 1e6)
        self.world.log(f"{self.name} starts")
        self.machine = GroupMembership(self.config, self._moved)
        machine = self.machine
        self._guarded(lambda: self._execute(machine.start(self.now())))
        if self.config.standby:
            self.channel = Channel(self, self.world.control)
        self.world.checks.hand_backs.started(self)
        self._refresh()
        self._read_offsets()

    def _moved(self, edge: Edge[Any]) -> None:
        self.world.edges[edge] += 1

    def crash(self, why: str = "dies") -> None:
        if self.machine is not None:
            self.world.log(f"{self.name} {why} in {self.machine.state.name}")
            self._end()

    def stop(self) -> None:
        if self.channel is None:
            self.post(StopRequested())
        else:
            self.channel.hand_over(lambda: self.post(StopRequested()))

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.clock.now + seconds)

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        """Done by this life of the process, and not while it is paused."""

        def do() -> None:
            if self.world.clock.now < self.paused_until:
                self.world.clock.at(self.paused_until, self.alive(do))
            else:
                work()

        self.world.clock.after(delay_s, self.alive(do))

    def _end(self, *, in_order: bool = False) -> None:
        if self.channel is not None:
            self.channel.close(in_order=in_order)
            self.channel = None
        self.world.network.drop_client(self.client)
        self.machine = None
        self.process += 1
        if self._wakes_at is not None:
            self._wakes_at.cancel()

    def alive(self, work: Callable[..., None]) -> Callable[..., None]:
        process = self.process
        return lambda *values: work(*values) if self.process == process else None

    # ---- the loop of the runtime -----------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        self._events.append(event)
        self._pump_at(self.world.clock.now)

    def _pump_at(self, when: float) -> None:
        if self._wakes_at is not None:
            self._wakes_at.cancel()
        self._wakes_at = self.world.clock.at(max(when, self.paused_until), self.alive(self._pump))

    def _pump(self) -> None:
        if self.world.clock.now < self.paused_until:
            self._pump_at(self.paused_until)
            return
        machine = self.machine
        assert machine is not None
        self._check_busy()
        event: Event | None = None
        if self._events:
            event = self._events.popleft()
        elif (deadline := machine.deadline()) is not None and deadline <= self.now() + 1e-9:
            event = Wake()
        if event is not None:
            handled = event
            self._guarded(lambda: self._handle(handled))
        if self.machine is not machine:
            return
        if self._events:
            self._pump_at(self.world.clock.now)
        elif (deadline := machine.deadline()) is not None:
            self._pump_at(deadline - self.offset_s)

    def _check_busy(self) -> None:
        at, steps = self._busy
        self._busy = (at, steps + 1) if at == self.world.clock.now else (self.world.clock.now, 1)
        if steps > BUSY:
            self.world.violate(f"{self.name} runs in circles: {BUSY} steps in no time")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DiedError:
            self.crash("is killed")

    def _handle(self, event: Event) -> None:
        machine = self.machine
        assert machine is not None
        self._burn()
        if isinstance(event, DescribeAnswer) and machine.state is State.WATCHING:
            self._observed(event)
        before = machine.state
        self.world.checks.hand_backs.handled(self, event)
        self._execute(machine.handle(event, self.now() + 1e-9))
        if machine.state is State.STABLE and before is not State.STABLE:
            watch_rest(self, machine.generation)
        if before is not machine.state:
            self.coalescing_since = self.now()
        if machine.state is State.WATCHING and self._takes_part:
            self.planner.forget()
            self._planned = None
            self._seen = []
        self._takes_part = machine.state is not State.WATCHING
        self._ask_for_offsets(machine)

    def _read_offsets(self) -> None:
        """What `runtime.commit_watch` does."""
        self.world.clock.after(TICK_S, self.alive(self._read_offsets))
        if self.machine is None or not self.machine.watches_memberless:
            self._commits = None
            return
        at_ms = int(self.now() * 1000)
        if self.world.clock.now < self.paused_until or (
            self._commits is not None and at_ms - self._commits.at_ms < INTERVAL_S * 1000
        ):
            return
        before = self._commits or MemberlessCommits(at_ms)
        self._commits = before.after({"t": [self.world.commits]} if self.world.commits else {}, at_ms)
        self.post(read_of(self._commits, committed=self.world.committed))

    def _ask_for_offsets(self, machine: GroupMembership) -> None:
        if machine.role.reason is NotLeading.UNKNOWN_GROUP and not self._asked_for_offsets:
            self._asked_for_offsets = True
            if self.world.committed:
                self.world.clock.after(OFFSETS_S, self.alive(lambda: self.post(OffsetsFound())))

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.fuse = None
                raise DiedError

    def _execute(self, commands: tuple[Command, ...]) -> None:
        for command in commands:
            self._burn()
            self._do(command)

    def _do(self, command: Command) -> None:
        self.world.checks.worked(type(command).__name__)
        match command:
            case Abandon():
                call = self._calls.pop(command.request_id, None)
                if call is not None:
                    call.drop()
            case Decide():
                self._decide(command)
            case RebuildMemory():
                rebuild(self, command)
            case PlanDelivered():
                self._delivered(command.generation)
            case Note():
                self.world.log(f"{self.name}: {command.kind.name} {command.reason}")
                self.world.notes[command.kind.name] += 1
                self.world.checks.hand_backs.noted(self, command)
                if command.reason.startswith(INTERNAL_ERROR):
                    self.world.violate(f"{self.name}: {command.reason}")
                if self.channel is not None:
                    self.channel.real.on_note("g", command)
            case Fatal():
                self.world.log(f"{self.name}: FATAL {command.message}")
                self.exit_code, self.fatal = command.exit_code, command
            case MembershipStopped():
                self.world.log(f"{self.name} has stopped")
                self.exit_code = self.exit_code or 0
                self._end(in_order=True)
            case _:
                self._send(command)

    def _send(self, command: Request) -> None:
        at = self.world.rng.choice((1, 2, 3)) if isinstance(command, FindCoordinator) else command.node.node_id
        lane = 0 if isinstance(command, Sync) else CONTROL_LANE
        if isinstance(command, (Join, Evict)) and command.lane is not None:
            lane = command.lane
        number = command.request_id
        self._calls[number] = self.world.send(
            self.client,
            lane,
            at,
            command,
            command.timeout_ms / 1000,
            self.alive(lambda answer: self._answered(answer, number)),
            self.alive(lambda failure: self.post(RequestFailed(number, failure, failure.name))),
        )

    def _answered(self, answer: Any, number: int) -> None:
        self.world.checks.roles.received(self, answer)
        self.post(addressed(answer, number))

    # ---- decisions -------------------------------------------------------------------------------------------------

    def _decide(self, command: Decide) -> None:
        plan_s = self.slow_plan_s or self.world.rng.uniform(0.005, 0.05)
        if command.dry:
            self.world.clock.after(plan_s, self.alive(lambda: compare_rebuilt(self, command)))
            return
        limit_s = command.deadline - RESERVE_S - self.now()
        if plan_s > limit_s:
            late = DecisionFailed(command.generation, "not ready in time")
            self.world.clock.after(max(0.0, limit_s), self.alive(lambda: self.post(late)))
        else:
            self.world.clock.after(plan_s, self.alive(lambda: self._plan(command)))

    def _plan(self, command: Decide) -> None:
        raw = raw_group("g", command, MemberRacks())
        decision, findings = self._attempt(raw)
        if decision is None or findings:
            self.world.log(f"{self.name}: no plan: {'; '.join(findings)}")
            self.post(DecisionFailed(command.generation, "; ".join(findings)))
            return
        self._planned = command.generation, decision
        topics, called_in_ms = self.planner.topics(raw), decision.called_in_ms(self.world.own_wall_ms())
        self.post(DecisionReady(command.generation, decision.assignments, decision.followup, topics, called_in_ms))

    def _attempt(self, raw: RawGroup) -> Made:
        if self.world.metadata:
            try:
                return self.planner.made(raw)
            except RefusalError as error:
                if error.refusal.final:
                    self.world.notes["STANDS ASIDE"] += 1
                else:
                    self.world.violate(f"decide gives no plan: {error}")
                return None, (str(error),)
        return self.planner.again(raw) or (None, ("no metadata",))

    def _delivered(self, generation: int) -> None:
        planned, self._planned = self._planned, None
        if planned is not None and planned[0] == generation:
            self.planner.delivered(planned[1])

    def _refresh(self) -> None:
        """What the watch over an application does twice a second, and that over metadata every few seconds."""
        self.world.clock.after(REFRESH_S if self.config.streams else METADATA_S, self.alive(self._refresh))
        machine = self.machine
        if machine is None or self.world.clock.now < self.paused_until:
            return
        if machine.state is State.STABLE and not machine.alone and (wanted := self.planner.wanted()):
            self.post(RebalanceWanted(wanted.reason, wanted.subject))

    def _observed(self, answer: DescribeAnswer) -> None:
        if answer.state == "Stable" and self.world.metadata:
            others = [m for m in answer.members if not m.instance_id or m.instance_id != self.config.instance_id]
            seen = [(m.member_id, m.metadata, m.assignment) for m in others]
            if seen != self._seen:
                self.planner.recall(-1, answer.protocol, others)
                self._seen = seen
