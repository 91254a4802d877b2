"""Everything together: one seed makes the clock, the wires, the broker, the members and the instances."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    STOCK_PROTOCOLS,
    Edge,
    Failure,
    MembershipConfig,
    SizeLimit,
    check_timing,
)
from tests.simulation.applications import Application
from tests.simulation.brokers.broker import Broker
from tests.simulation.brokers.network import Call, Network
from tests.simulation.brokers.topics import Topics
from tests.simulation.channels import ControlLog
from tests.simulation.checks import Checks, ViolationError
from tests.simulation.clock import Clock
from tests.simulation.hostile import Hostile
from tests.simulation.instance import Instance
from tests.simulation.members import COOPERATIVE, EAGER, RDKAFKA, RDKAFKA_COOPERATIVE, STICKY, Kind, Member
from tests.simulation.streams import EPOCH_MS, STREAMS, Process

if TYPE_CHECKING:
    from tests.simulation.scenes.absences import Evacuation, Guards
    from tests.simulation.working import Work

TOPIC = "t"
INSTANCE = "bw"
SIZE_MAX = 2**31 - 1  # the brokers' group.max.size, where it is not set
STEPS_MAX = 300_000  # an ordinary life takes ten thousand
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
    """`reported` is the trace. `notes` counts what the machines have noted, `injected` the faults."""

    def __init__(self, seed: int, clock: Clock | None = None, crowd: int = 0, *, lasting_hostile: bool = False) -> None:
        """With a shared clock many worlds live at the same time. `crowd`: so many consumers of one topic.
        `lasting_hostile`: consumers, and a hostile member that stays to the end."""
        self.seed = seed
        self.rng = random.Random(seed)
        self.clock = clock or Clock()
        self.reported: list[str] = []
        self.notes = Counter[str]()
        self.edges = Counter[Edge[Any]]()  # that the machines have taken
        self.injected = Counter[str]()
        self.metadata = True
        self.commits = 0  # of offsets of the group, by whomever
        self.skew_ms = 0  # of Bellwether's machines' time of day
        self.rested: dict[str, tuple[float, int]] = {}  # seconds and rebalances until it was at rest again
        self.checks = Checks(self)
        self.guards: Guards | None = None  # beside every process, in worlds that are about that
        self.evacuation: Evacuation | None = None
        self.work: Work | None = None
        self.network = Network(self.clock, self.rng, self.injected)
        self.broker = Broker(self.clock, self.rng.getrandbits, self.log, self._changed, self.checks.planned)
        self.crowd = crowd
        self.lasting_hostile = lasting_hostile
        consumers = [flock for flock in FLOCKS if flock != "streams"]
        self.flock = self.rng.choice(CROWDS if crowd else consumers if lasting_hostile else [*FLOCKS, "streams"])
        self.more = random.Random(f"more of {seed}")
        self.application = Application.drawn(self.more)
        self.topics = Topics(self.clock, self.rng, self.application.racks if self.streams else {})
        self.subscribed: tuple[str, ...] = (TOPIC,)
        self._make_topics(self.rng.randint(3, 24))
        self.config = self._config()
        self.control = ControlLog(self)
        assert check_timing(self.config) is None
        static = not crowd and self.rng.random() < 0.4
        self.processes: list[Process] = []
        self.members: list[Member] = []
        for i in range(crowd or self.rng.randint(2, 7)):
            kind = self.rng.choice(FLOCKS[self.flock])
            if self.streams:
                threads = self.more.randint(1, self.application.threads_max)
                self.processes.append(Process(self, f"m{i}", static, threads))
                self.members += self.processes[-1].threads
            else:
                self.members.append(Member(self, f"m{i}", kind, f"i{i}" if static else None))
        hostile = not self.streams and not crowd and self.rng.random() < 0.25
        hostile = hostile or lasting_hostile
        self.hostile = [Hostile(self, "evil", FLOCKS[self.flock][0], None)] if hostile else []
        self.instances = [Instance(self, f"{INSTANCE}-{name}", self.config) for name in "ab"]

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
            group_id="g",
            protocols=STREAMS.protocols if self.streams else STOCK_PROTOCOLS,
            adopt=self.rng.choice(("when-empty", "succeed", "take-over", "take-over")),
            instance_id=INSTANCE if self.rng.random() < 0.8 else None,
            leave_on_stop=self.rng.random() < 0.5,
            linger_ms=None,
            takeover_attempts_max=1_000,
            takeovers_in_vain_max=1_000,
        )
        size_max = random.Random(f"size of {self.seed}").choice((None, SIZE_MAX, SIZE_MAX))
        made = replace(made, size_limit=SizeLimit(size_max))
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
        raise ViolationError(f"seed {self.seed}, {self.clock.now:.3f} s: {text}")

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

    # ---- time ------------------------------------------------------------------------------------------------------

    def run_until(self, when: float, enough: Callable[[], bool] | None = None) -> bool:
        """Lives on; True when `enough` came true, which is asked once a second."""
        ask_at = self.clock.now
        while self.clock.now < when:
            self.clock.step(min(when, ask_at) if enough is not None else when)
            self.checks.step()
            if self.clock.steps > STEPS_MAX * max(1, self.crowd // 10):
                self.violate(f"{self.clock.steps} steps and no end")
            if enough is not None and self.clock.now >= ask_at:
                if enough():
                    return True
                ask_at = self.clock.now + 1.0
        return False
