"""Everything together: one seed makes the loop, the wires, the broker, the members and the instances."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import structlog

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    STOCK_PROTOCOLS,
    Edge,
    Failure,
    MembershipConfig,
    SizeLimit,
    check_timing,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.virtual_time import Process as Running
from tests.kit.virtual_time import VirtualLoop
from tests.simulation.applications import Application
from tests.simulation.brokers.broker import Broker
from tests.simulation.brokers.network import Call, Network
from tests.simulation.brokers.topics import Sizes, Topics, partitions_of
from tests.simulation.checks import Checks, ViolationError
from tests.simulation.clock import Clock
from tests.simulation.control_log import ControlLog
from tests.simulation.hostile import Hostile
from tests.simulation.instance import Instance, Server, silence
from tests.simulation.members import COOPERATIVE, EAGER, RDKAFKA, RDKAFKA_COOPERATIVE, STICKY, Kind, Member
from tests.simulation.streams import EPOCH_MS, STREAMS, Process

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.ghosts import GhostOptions
    from tests.simulation.scenes.absences import Evacuation, Guards
    from tests.simulation.working import Work

TOPIC = "t"
INSTANCE = "bw"
SIZE_MAX = 2**31 - 1  # the brokers' group.max.size, where it is not set
READS_KEPT = 10  # of metadata, from which a plan may have been made
STEPS_MAX = 300_000  # for each group: an ordinary life takes ten thousand
# Members of one world; the kinds of a list have a protocol in common.
FLOCKS: dict[str, tuple[Kind, ...]] = {
    "eager": (EAGER,),
    "sticky": (STICKY,),
    "cooperative": (COOPERATIVE,),
    "eager and librdkafka": (EAGER, RDKAFKA),
    "cooperative and librdkafka": (COOPERATIVE, RDKAFKA_COOPERATIVE),
    "streams": (STREAMS,),
}
CROWDS = ("eager", "sticky", "cooperative")


class World:
    """One group with its brokers and members, and the processes that lead it. To be entered: its processes are ended
    when it is left. `reported` is the trace. `notes` counts what the machines have noted, `injected` the faults.
    `violation` is the first one, raised when the loop gives the control back."""

    def __init__(
        self, seed: int, crowd: int = 0, *, lasting_hostile: bool = False, beside: "World | None" = None
    ) -> None:
        """`crowd`: so many consumers of one topic. `lasting_hostile`: consumers, and a hostile member that stays to the
        end. `beside`: consumers of that world's topics, in a group of their own, led by the same processes."""
        self.seed = seed
        self.rng = random.Random(seed)
        self.worlds: list[World] = beside.worlds if beside is not None else []
        self.group = f"g{len(self.worlds)}" if beside is not None else "g"
        self.worlds.append(self)
        self.loop: VirtualLoop = beside.loop if beside is not None else VirtualLoop(self._turned)
        self.clock: Clock = beside.clock if beside is not None else Clock(self.loop)
        self.violation: ViolationError | None = None
        self.processes_run: list[Running] = []
        self.reported: list[str] = []
        self.notes = Counter[str]()
        self.edges = Counter[Edge[Any]]()  # that the machines have taken
        self.injected = Counter[str]()
        self.policy = Policy()  # of Bellwether
        self.metadata = True
        self.metadata_interval_ms = 10_000
        self.offsets_are_told = True  # those that are committed
        self.refuses_with = 0  # Kafka's error, to Bellwether's requests about the group; 0 for none
        self.ghosts: GhostOptions | None = None  # which members Bellwether removes
        self.commits = 0  # of offsets of the group, by whomever
        self.skew_ms = 0  # of Bellwether's machines' time of day
        self.removed = 0  # members, by Bellwether
        self.rested: dict[str, tuple[float, int]] = {}  # seconds and rebalances until it was at rest again
        self.checks = Checks(self)
        self.guards: Guards | None = None  # beside every process, in worlds that are about that
        self.evacuation: Evacuation | None = None
        self.work: Work | None = None
        self.network: Network = beside.network if beside is not None else Network(self.clock, self.rng, self.injected)
        self.broker = Broker(self.clock, self.rng.getrandbits, self.log, self._changed, self.checks.planned)
        self.crowd = crowd
        self.lasting_hostile: bool = lasting_hostile
        consumers = [flock for flock in FLOCKS if flock != "streams"]
        plain = lasting_hostile or beside is not None
        self.flock = self.rng.choice(CROWDS if crowd else consumers if plain else [*FLOCKS, "streams"])
        self.more: random.Random = random.Random(f"more of {seed}")
        self.application: Application = Application.drawn(self.more)
        self.topics = Topics(self.clock, self.rng, self.application.racks if self.streams else {})
        self.subscribed: tuple[str, ...] = (TOPIC,)
        if beside is not None:
            self.topics = beside.topics
        else:
            self._make_topics(self.rng.randint(3, 24))
        self._read: deque[Sizes] = beside._read if beside is not None else deque(maxlen=READS_KEPT)
        self.config = self._config()
        if beside is not None:
            standby, instance_id = beside.config.standby, beside.config.instance_id
            self.config = replace(self.config, standby=standby, instance_id=instance_id)
        self.control: ControlLog = beside.control if beside is not None else ControlLog(self)
        assert check_timing(self.config) is None
        static = not crowd and self.rng.random() < 0.4
        self.processes: list[Process] = []
        self.members: list[Member] = []
        prefix = "m" if beside is None else f"{self.group}m"
        for i in range(crowd or self.rng.randint(2, 7)):
            kind = self.rng.choice(FLOCKS[self.flock])
            if self.streams:
                threads = self.more.randint(1, self.application.threads_max)
                self.processes.append(Process(self, f"{prefix}{i}", static, threads))
                self.members += self.processes[-1].threads
            else:
                self.members.append(Member(self, f"{prefix}{i}", kind, f"i{i}" if static else None))
        hostile = not plain and not self.streams and not crowd and self.rng.random() < 0.25
        hostile = hostile or lasting_hostile
        self.hostile = [Hostile(self, "evil", FLOCKS[self.flock][0], None)] if hostile else []
        self.servers: list[Server] = (
            beside.servers if beside is not None else [Server(f"{INSTANCE}-{name}") for name in "ab"]
        )
        self.instances = [Instance(self, server, self.config) for server in self.servers]

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="bellwether-simulation-")
        self.folder = Path(self._folder.name)  # of the machines that processes run on
        self._random, self._logs = random.getstate(), structlog.get_config()
        random.seed(self.seed)  # for the product, which spreads what it asks for
        self.loop.set_exception_handler(self.loop.failed)
        structlog.configure(processors=[silence], cache_logger_on_first_use=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.end(self.processes_run)
        self._folder.cleanup()
        random.setstate(self._random)
        structlog.configure(**self._logs)

    @property
    def committed(self) -> bool:
        """The group has offsets. Each time that this is set, others are committed."""
        return self.commits > 0

    @committed.setter
    def committed(self, is_committed: bool) -> None:
        self.commits += is_committed

    @property
    def streams(self) -> bool:
        return self.flock == "streams"

    def wall_ms(self) -> int:
        """The true time of day, which members know."""
        return EPOCH_MS + int(self.clock.now * 1000)

    @property
    def rebalances_max(self) -> int:
        return self.application.rebalances_max(self.topics.sizes[TOPIC]) if self.streams else 0

    def own_wall_ms(self) -> int:
        """What Bellwether's machines take for it."""
        return self.wall_ms() + self.skew_ms

    def _config(self) -> MembershipConfig:
        made = MembershipConfig(
            subscribes=True,
            group_id=self.group,
            protocols=STREAMS.protocols if self.streams else STOCK_PROTOCOLS,
            adopt=self.rng.choice(("when-empty", "succeed", "take-over", "take-over")),
            instance_id=INSTANCE if self.rng.random() < 0.8 else None,
            leave_on_stop=self.rng.random() < 0.5,
            linger_ms=None,
            takeover_attempts_max=1_000,
            takeovers_in_vain_max=1_000,
        )
        self.size_max = random.Random(f"size of {self.seed}").choice((None, SIZE_MAX, SIZE_MAX))
        made = replace(made, size_limit=SizeLimit(self.size_max))
        standby = not self.crowd and made.instance_id is not None and self.more.random() < 0.3
        return replace(made, standby=True) if standby else made

    def _make_topics(self, partitions: int) -> None:
        """Consumers read up to three topics."""
        if self.streams:
            self.topics.change(self.application.sizes(partitions, self.more.randint(1, 8)))
            self.subscribed = self.application.topology.source_topics
            return
        if self.crowd:
            self.topics.change({TOPIC: self.crowd + partitions})
            return
        more = {topic: self.more.randint(1, 8) for topic in ("u", "v")[: self.more.choice((0, 1, 1, 2))]}
        self.subscribed = (TOPIC, *more)
        self.topics.change({TOPIC: partitions, **more})

    @property
    def guests(self) -> list[Hostile]:
        """Hostile members that are there to the end."""
        return [hostile for hostile in self.hostile if hostile.lasting and hostile.running]

    @property
    def partitions(self) -> int:
        """That members are to consume."""
        return sum(self.topics.sizes.get(topic, 0) for topic in self.subscribed)

    # ---- for everybody ---------------------------------------------------------------------------------------------

    def log(self, text: str) -> None:
        self.reported.append(f"{self.clock.now:10.3f}  {text}")

    def violate(self, text: str) -> None:
        self.log(f"VIOLATION {text}")
        self.violation = self.violation or ViolationError(f"seed {self.seed}, {self.clock.now:.3f} s: {text}")
        raise self.violation

    def moved(self, edge: Edge[Any]) -> None:
        self.edges[edge] += 1

    def is_own(self, member_id: str) -> bool:
        return member_id.startswith(INSTANCE)

    def send(
        self,
        client: str,
        lane: int,
        at: int,
        request: membership.Request,
        timeout_s: float,
        answered: Callable[[Any], None],
        failed: Callable[[Failure], None],
    ) -> Call:
        name = client.rsplit(".", 1)[0]

        def serve(reply: Callable[[Any], None]) -> None:
            self.broker.serve(at, name, request, reply)

        return self.network.call(client, lane, at, serve, timeout_s, answered, failed)

    def _changed(self) -> None:
        self.checks.dirty = True

    # ---- what brokers answer ---------------------------------------------------------------------------------------

    def has_read(self, reported: Sizes) -> None:
        """A process has got this metadata."""
        self._read.append(reported)

    @property
    def partitions_read(self) -> frozenset[TopicPartition]:
        """Lately: a plan may give these."""
        return frozenset().union(*map(partitions_of, self._read))

    def answered(self, answer: Any) -> None:
        """This arrives at a process, which may be busy."""

    def sent(self, plan: tuple[tuple[str, bytes], ...]) -> None:
        """A process sends this plan of its own."""
        if self.streams and len(plan) > 1 and not any(map(self.application.fits, self._read)):
            self.violate(f"a plan for topics that would end the application: {self.topics.sizes}")
        self.checks.made(plan, self.partitions_read)

    def committed_of(self, topics: Mapping[str, int]) -> dict[str, list[int]]:
        """What the group has committed, for partitions 0..n-1 of each topic, -1 for nothing."""
        if self.work is not None:
            return self.work.committed_of(topics)
        return {topic: [self.commits - 1] * n for topic, n in topics.items()}

    def end_of(self, topic: str, partition: int) -> int:
        """The log end of a partition, -1 if there is none."""
        if partition >= self.topics.sizes.get(topic, 0):
            return -1
        if self.work is not None and topic in self.subscribed:
            return self.work.end_of(topic, partition)
        return self.application.end_of(topic) if self.streams else 0

    # ---- time ------------------------------------------------------------------------------------------------------

    def run_until(self, when: float, enough: Callable[[], bool] | None = None) -> bool:
        """Lives on; True when `enough` came true, which is asked once a second."""
        return self.loop.run_until_complete(self._until(when, enough))

    async def _until(self, when: float, enough: Callable[[], bool] | None) -> bool:
        while self.clock.now < when:
            if enough is not None and enough():
                return True
            await asyncio.sleep(min(1.0, when - self.clock.now))
            if self.loop.unowned:
                self.violate(f"the world itself has failed: {self.loop.unowned[0]}")
            if self.clock.steps > STEPS_MAX * len(self.worlds) * max(1, self.crowd // 10):
                self.violate(f"{self.clock.steps} steps and no end")
            for world in self.worlds:
                if world.violation is not None:
                    raise world.violation
        return False

    def _turned(self) -> None:
        """All is done that can be done now."""
        for world in self.worlds:
            if world.violation is None:
                try:
                    for instance in world.instances:
                        instance.step()
                    world.checks.step()
                except ViolationError as violation:
                    world.violation = violation
