"""What goes wrong, by the seed: each fault is one of many kinds, and most end by themselves."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.applications import INPUT, OTHER
from tests.simulation.brokers.broker import NODES
from tests.simulation.instance import Instance
from tests.simulation.members import Member

if TYPE_CHECKING:
    from tests.simulation.world import World

FUSE_STEPS_MAX = 80
PARTITIONS_MAX = 40
TASKS_MAX = 16  # with state; more make a seed slow


class Faults:
    """Injects faults from now on until `heal`."""

    def __init__(self, world: "World", interval_s: float) -> None:
        self.world, self.rng, self.clock = world, world.rng, world.clock
        self._interval_s = interval_s
        self._over = False
        self._kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (4, self.member_dies),
            (3, self.member_closes),
            (2, self.member_pauses),
            (5, self.instance_burns),
            (2, self.instance_dies),
            (2, self.instance_stops),
            (3, self.instance_pauses),
            (2, self.second_instance),
            (2, self.cut),
            (2, self.hole),
            (2, self.coordinator_moves),
            (2, self.node_dies),
            (1, self.loss),
            (1, self.latency),
            (1, self.slow_plan),
            (1, self.no_metadata),
            (1, self.clock_jumps),
            (1, self.topic_grows),
            (1, self.topic_vanishes),
            (1, self.input_outgrows_state),
            (1, self.member_clock_jumps),
            (1, self.control_topic_falls_silent),
            (1, self.removed),
        )
        self._next()

    def heal(self) -> None:
        """No new faults; what is broken is fixed, what is down starts."""
        world = self.world
        world.log("---- everything heals ----")
        self._over = True
        world.network.down.clear()
        world.network.holes.clear()
        self._end_faults()
        world.metadata, world.skew_ms = True, 0
        if world.broker.coordinator is None:
            world.broker.elect(1, 0.1)
        self.internal_topics_grow()
        world.control.silent = False
        world.topics.agree()
        if not world.partitions:
            self._topic_comes_back(world.subscribed[0], 6)
            world.topics.agree()
        for hostile in world.hostile:
            if not hostile.lasting:
                hostile.close()
            elif not hostile.running:
                hostile.start()
        for member in world.members:
            if not member.running:
                member.start()
        for instance in world.instances:
            instance.slow_plan_s, instance.fuse = 0.0, None
        self._supervise()

    def _supervise(self) -> None:
        for instance in self._missing():
            instance.start()
        self.clock.after(5.0, self._supervise)

    def _missing(self) -> list[Instance]:
        """Where instances stand by for each other both are to run, otherwise one."""
        instances = self.world.instances
        if self.world.config.standby:
            return [instance for instance in instances if not instance.up]
        return [] if any(instance.up for instance in instances) else instances[:1]

    def _end_faults(self) -> None:
        self.world.network.loss = 0.0
        self.world.network.latency_s = (0.0005, 0.003)

    def _next(self) -> None:
        self.clock.after(self.rng.expovariate(1 / self._interval_s), self._inject)

    def _inject(self) -> None:
        if self._over:
            return
        kind = self.rng.choices([k for _, k in self._kinds], [weight for weight, _ in self._kinds])[0]
        what = kind()
        if what:
            self.world.injected[kind.__name__.replace("_", " ")] += 1
            self.world.log(f"FAULT {what}")
        self._next()

    def _later(self, low_s: float, high_s: float, work: Callable[[], None]) -> None:
        self.clock.after(self.rng.uniform(low_s, high_s), lambda: None if self._over else work())

    # ---- members ---------------------------------------------------------------------------------------------------

    def _member(self) -> Member | None:
        running = [member for member in self.world.members if member.running]
        return self.rng.choice(running) if running else None

    def _back(self, member: Member) -> None:
        self._later(0.2, 40.0, lambda: None if member.running else member.start())

    def member_dies(self) -> str:
        member = self._member()
        if member is None:
            return ""
        member.crash()
        self._back(member)
        return f"{member.name} is killed"

    def member_closes(self) -> str:
        member = self._member()
        if member is None:
            return ""
        member.close()
        self._back(member)
        return f"{member.name} is closed"

    def member_pauses(self) -> str:
        member = self._member()
        if member is None:
            return ""
        seconds = self.rng.uniform(1.0, 40.0)
        member.pause(seconds)
        return f"{member.name} stands still for {seconds:.1f} s"

    # ---- instances --------------------------------------------------------------------------------------------------

    def _instance(self) -> Instance | None:
        running = [instance for instance in self.world.instances if instance.up]
        return self.rng.choice(running) if running else None

    def _restart(self) -> None:
        """Some supervisor starts an instance where one is missing."""

        def start() -> None:
            missing = self._missing()
            if missing:
                self.rng.choice(missing if self.world.config.standby else self.world.instances).start()

        self._later(0.1, 25.0, start)

    def instance_burns(self) -> str:
        instance = self._instance()
        if instance is None:
            self._restart()
            return ""
        instance.fuse = self.rng.randint(1, FUSE_STEPS_MAX)
        self.clock.after(60.0, self._restart)
        return f"{instance.name} is going to be killed in {instance.fuse} steps"

    def instance_dies(self) -> str:
        instance = self._instance()
        if instance is None:
            self._restart()
            return ""
        instance.crash()
        self._restart()
        return f"{instance.name} is killed"

    def instance_stops(self) -> str:
        instance = self._instance()
        if instance is None:
            return ""
        instance.stop()
        self._restart()
        return f"{instance.name} gets a request to stop"

    def instance_pauses(self) -> str:
        instance = self._instance()
        if instance is None:
            return ""
        seconds = self.rng.uniform(0.5, 25.0)
        instance.pause(seconds)
        return f"{instance.name} stands still for {seconds:.1f} s"

    def second_instance(self) -> str:
        down = [instance for instance in self.world.instances if not instance.up]
        if not down or self._instance() is None:
            return ""
        down[0].start()
        return f"{down[0].name} starts beside the other"

    def slow_plan(self) -> str:
        instance = self._instance()
        if instance is None:
            return ""
        instance.slow_plan_s = self.rng.choice((0.5, 2.0, 30.0))

        def fast() -> None:
            instance.slow_plan_s = 0.0

        self._later(5.0, 30.0, fast)
        return f"plans of {instance.name} take {instance.slow_plan_s} s"

    def no_metadata(self) -> str:
        def back() -> None:
            self.world.metadata = True

        self.world.metadata = False
        self._later(5.0, 30.0, back)
        return "no metadata can be read"

    def control_topic_falls_silent(self) -> str:
        """Through which instances that stand by hear one another."""

        def back() -> None:
            control.silent = False

        control = self.world.control
        if not self.world.config.standby or control.silent:
            return ""
        control.silent = True
        seconds = self.rng.uniform(1.0, 30.0)
        self.clock.after(seconds, back)
        return f"nobody reaches the control topic for {seconds:.1f} s"

    def clock_jumps(self) -> str:
        """The time of day on Bellwether's machines; only plans of applications have dates."""
        world = self.world
        if not world.streams:
            return ""
        world.skew_ms = self.rng.choice((-1, 1)) * int(10 ** self.rng.uniform(3.0, 7.0))
        return f"the clock of our machines is {world.skew_ms / 1000:+.1f} s off"

    def topic_grows(self) -> str:
        """Of an application only what a subtopology without internal topics reads."""
        world = self.world
        topics = sorted(world.topics.sizes.keys() & {OTHER}) if world.streams else sorted(world.topics.sizes)
        if world.partitions >= PARTITIONS_MAX or not topics:
            return ""
        topic = self.rng.choice(topics)
        more = world.topics.sizes[topic] + self.rng.randint(1, 4)
        world.topics.change({**world.topics.sizes, topic: more}, self._disagreement())
        return f"topic {topic} grows to {more} partitions"

    def topic_vanishes(self) -> str:
        """It is deleted, and may be made again, with as many partitions or not."""
        world = self.world
        if world.streams or not world.topics.sizes:
            return ""
        topic = self.rng.choice(sorted(world.topics.sizes))
        before = world.topics.sizes[topic]
        world.topics.change({**world.topics.sizes, topic: 0}, self._disagreement())
        partitions = self.rng.choice((before, self.rng.randint(1, 12)))
        self._later(1.0, 90.0, lambda: self._topic_comes_back(topic, partitions))
        return f"topic {topic} is deleted"

    def _topic_comes_back(self, topic: str, partitions: int) -> None:
        topics = self.world.topics
        if topic not in topics.sizes:
            self.world.log(f"topic {topic} is there again, with {partitions} partitions")
            topics.change({**topics.sizes, topic: partitions}, self._disagreement())

    def input_outgrows_state(self) -> str:
        """The input of a subtopology with state, whose internal topics would have to grow with it. An operator sees to
        that some time later; until then the application lives only as long as nobody rebalances."""
        topics = self.world.topics
        if not self.world.streams or topics.sizes[INPUT] >= TASKS_MAX or not self.world.application.fits(topics.sizes):
            return ""
        topics.change({**topics.sizes, INPUT: topics.sizes[INPUT] + self.rng.randint(1, 3)}, self._disagreement())
        self._later(5.0, 60.0, self.internal_topics_grow)
        return f"topic {INPUT} grows to {topics.sizes[INPUT]} partitions, and no internal topic does"

    def internal_topics_grow(self) -> None:
        topics, application = self.world.topics, self.world.application
        if self.world.streams and not application.fits(topics.sizes):
            self.world.log(f"internal topics have {topics.sizes[INPUT]} partitions, too")
            topics.change(topics.sizes | dict.fromkeys(application.fixed, topics.sizes[INPUT]), self._disagreement())

    def member_clock_jumps(self) -> str:
        """Of a process that keeps a time at which it is to ask for a rebalance. Nobody ever sets it right."""
        if not self.world.processes:
            return ""
        process = self.rng.choice(self.world.processes)
        process.set_clock(self.rng.choice((-1, 1)) * int(10 ** self.rng.uniform(3.0, 7.0)))
        return f"the clock of {process.name} is {process.skew_ms / 1000:+.1f} s off"

    def _disagreement(self) -> float:
        """For how long some brokers do not know of a change."""
        return self.rng.choice((0.0, self.rng.uniform(0.0, 12.0)))

    def removed(self) -> str:
        """An administrator removes a member, Bellwether's included."""
        member_entries = sorted(self.world.broker.group.member_entries)
        if not member_entries or not self.world.broker.at_work:
            return ""
        member_id = self.rng.choice(member_entries)
        self.world.broker.group.remove(member_id, None)
        return f"{member_id} is removed by hand"

    # ---- wires and nodes -------------------------------------------------------------------------------------------

    def _client(self) -> str:
        running = [m.client for m in self.world.members if m.running] + [s.client for s in self.world.instances if s.up]
        return self.rng.choice(running) if running else ""

    def cut(self) -> str:
        client = self._client()
        self.world.network.cut(client)
        return f"connections of {client} are reset" if client else ""

    def hole(self) -> str:
        client = self._client()
        if not client:
            return ""
        self.world.network.holes.add(client)
        seconds = self.rng.uniform(0.5, 20.0)
        self.clock.after(seconds, lambda: self.world.network.holes.discard(client))
        return f"packets of {client} vanish for {seconds:.1f} s"

    def loss(self) -> str:
        self.world.network.loss = self.rng.uniform(0.01, 0.15)
        self._later(5.0, 20.0, self._end_faults)
        return f"{self.world.network.loss:.0%} of requests lose their connection"

    def latency(self) -> str:
        self.world.network.latency_s = (0.02, self.rng.uniform(0.05, 0.8))
        self._later(5.0, 30.0, self._end_faults)
        return f"latency up to {self.world.network.latency_s[1]:.2f} s"

    def coordinator_moves(self) -> str:
        broker = self.world.broker
        if not broker.at_work:
            return ""
        before = broker.coordinator
        broker.resign()
        self._elect(0.05, 3.0)
        return f"the coordinator leaves broker{before}"

    def node_dies(self) -> str:
        broker, network = self.world.broker, self.world.network
        number = broker.coordinator
        if number is None or not broker.at_work or network.down:
            return ""
        network.kill_node(number)
        broker.resign()
        self._elect(0.5, 6.0)
        self._later(3.0, 25.0, lambda: network.down.discard(number))
        return f"broker{number} dies"

    def _elect(self, low_s: float, high_s: float) -> None:
        def elect() -> None:
            if self.world.broker.coordinator is None:
                number = self.rng.choice([n for n in NODES if n not in self.world.network.down])
                self.world.broker.elect(number, self.rng.uniform(0.0, 2.0))

        self._later(low_s, high_s, elect)
