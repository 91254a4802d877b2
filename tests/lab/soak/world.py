"""What the soak runs: topics that grow under a steady producer, and groups of mixed clients that come, go, die, are
empty for a while and take orders.

Every choice comes from one seed. Who owns what and who has read what is asked from the members alone.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.interop.support.bellwether import run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import RACKED, RACKS
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.interop.support.ownership import double_ownership
from tests.interop.support.rebalances import rebalances
from tests.lab.soak.processes import Process

SESSION_MS = 6_000
SETTLE_LIMIT_S = 90.0
MEMBERS_MAX = 5
PARTITIONS_MAX = 16
RECORDS_PER_S = 400
FAILURES_KEPT = 5
CONTROL = "soak-control"
CARRIED_OUT_WITHIN_S = 60.0
LEAVE_S = 15
# The longest is longer than Bellwether stays in a group without members by default; for runs that have the time.
EMPTY_S = (10.0, 45.0, 330.0)
EMPTY_PART = 0.2
LET_IN_S = 240.0


@dataclass(frozen=True, slots=True)
class SoakGroup:
    """A group, the clients that its members are drawn from, its topics, and whether its process is restarted.

    `left`: Bellwether is ordered to leave it for a while. Members of that group and of a restarted one lead now and
    then, so their clients must be able to: a leader in kafka-python was seen to give away what it went on to hold and
    ends with KeyError beside a member without topics, a Java leader ends beside kafka-go
    (docs/internals/client-quirks.md), and sticky needs the data of other languages.
    """

    name: str
    kinds: tuple[str, ...]
    assignors: tuple[str, ...]
    topics: tuple[str, ...]
    restarted: bool = False
    left: bool = False


TOPICS: Mapping[str, int] = {"soak-orders": 8, "soak-payments": 6, "soak-clicks": 4}
ORDERS, PAYMENTS, CLICKS = TOPICS
GROUPS = (
    # A member leads it for a while, and librdkafka does not lead franz-go to rest (client-quirks.md#librdkafka).
    SoakGroup("soak-cooperative", ("java", "confluent"), ("cooperative-sticky",), (ORDERS, PAYMENTS), left=True),
    SoakGroup(
        "soak-range",
        ("java", "confluent", "franz-go", "sarama"),
        ("range",),
        (ORDERS, CLICKS),
        restarted=True,
    ),
    SoakGroup(
        "soak-roundrobin",
        ("confluent", "aiokafka", "java", "sarama"),
        ("roundrobin",),
        (PAYMENTS, CLICKS),
        restarted=True,
    ),
    SoakGroup("soak-sticky", ("java", "sarama", "franz-go"), ("sticky",), (ORDERS,)),
    SoakGroup("soak-python", ("kafka-python",), ("cooperative-sticky",), (PAYMENTS,)),
)


class Topics:
    """The topics, their partition counts now, and a producer that writes until `stop`."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._counts = dict(TOPICS)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)
        self.produced = 0
        self.trouble: str | None = "the producer ended early"
        self._failed: list[str] = []
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions, rf=2)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def generation(self, group: str) -> int:
        """The newest generation of a group that has an assignment, 0 for none."""
        return max((r.generation for r in rebalances(self._cluster, group)), default=0)

    def counts(self, topics: tuple[str, ...]) -> dict[str, int]:
        with self._lock:
            return {topic: self._counts[topic] for topic in topics}

    def grow(self, dice: random.Random) -> str | None:
        """Adds one to three partitions to a topic that has room; says what it did."""
        small = [topic for topic, count in self.counts(tuple(TOPICS)).items() if count < PARTITIONS_MAX]
        if not small:
            return None
        topic = dice.choice(small)
        count = min(PARTITIONS_MAX, self.counts((topic,))[topic] + dice.randint(1, 3))
        self._cluster.add_partitions(topic, count)
        with self._lock:
            self._counts[topic] = count
        return f"{topic} has {count} partitions"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the producer once everything is sent; `trouble` says so if it was not."""
        self._stopping.set()
        self._thread.join(90)

    def ends(self, topics: tuple[str, ...]) -> dict[tuple[str, int], int]:
        """The offset after the last record of every partition."""
        wanted = {TopicPartition(t, p): OffsetSpec.latest() for t, p in partitions_of(self.counts(topics))}
        answers = self._cluster.admin.list_offsets(wanted)
        return {(tp.topic, tp.partition): int(done.result(timeout=30).offset) for tp, done in answers.items()}

    def _produce(self) -> None:
        config = {"linger.ms": "20", "topic.metadata.refresh.interval.ms": "1000"}
        producer = Producer(self._cluster.client_config("admin", "admin") | config)
        start = time.monotonic()
        turn = 0
        while not self._stopping.is_set():
            counts = self.counts(tuple(TOPICS))
            places = [(topic, p) for topic, count in counts.items() for p in range(count)]
            while self.produced < (time.monotonic() - start) * RECORDS_PER_S:
                turn += 1
                topic, partition = places[turn % len(places)]
                try:
                    producer.produce(topic, value=turn.to_bytes(8, "big"), partition=partition, on_delivery=self._sent)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                        raise
                    continue  # grown a moment ago: the producer has not seen it yet
                self.produced += 1
            producer.poll(0.05)
        left = producer.flush(60)
        self.trouble = f"the producer could not send {left} records: {self._failed}" if left or self._failed else None

    def _sent(self, error: KafkaError | None, _: object) -> None:
        if error is not None and len(self._failed) < FAILURES_KEPT:
            self._failed.append(str(error))


@dataclass
class Scenario:
    """One group's soak: what happened, how long it took to settle each time, and what went wrong."""

    group: SoakGroup
    joins: int = 0
    leaves: int = 0
    kills: int = 0
    empties: int = 0
    orders: int = 0
    let_in_after: list[int] = field(default_factory=list)  # generations after which a member may have to lead
    settled_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Actor:
    """Lives one group until the end: an action, then wait until it has settled, and again."""

    def __init__(
        self, group: SoakGroup, kinds: tuple[str, ...], flock: Flock, topics: Topics, lead: Process, seed: int
    ) -> None:
        self.scenario = Scenario(group)
        self._lead = lead
        self._kinds = kinds
        self._flock = flock
        self._topics = topics
        self._dice = random.Random(f"{seed} {group.name}")
        self._mortal: set[str] = set()
        self._made = 0
        self._until = 0.0

    @property
    def members(self) -> list[Member]:
        return self._flock.live(self.scenario.group.name)

    def run(self, until: float, message: Callable[[str], None]) -> None:
        self._until = until
        try:
            for _ in range(2):
                self._join()
            self._settle("start")
            while time.monotonic() < until:
                time.sleep(self._dice.uniform(0.0, 4.0))
                what = self._act()
                message(f"{self.scenario.group.name}: {what}")
                trouble = self._settle(what)
                if trouble:
                    message(trouble)
        except Exception as error:  # noqa: BLE001 - whatever ends an actor is a finding, and the others go on
            self.scenario.violations.append(f"{type(error).__name__}: {error}")
            message(self.scenario.violations[-1])

    def judge_ownership(self) -> None:
        members = [m for m in self._flock.members if m.group == self.scenario.group.name]
        self.scenario.violations += double_ownership(members)

    def _act(self) -> str:
        members = self.members
        mortal = [m for m in members if m.name in self._mortal]
        actions: list[Callable[[], str]] = [self._one_joins] * (len(members) < MEMBERS_MAX) * 4
        if len(members) > 1:
            actions += [self._one_leaves] * 2 + [self._one_is_killed] * 2 * bool(mortal)
        if not self.scenario.group.restarted:  # orders need a process that is there to take them
            actions += [self._order]
        if self._until - time.monotonic() > EMPTY_S[0] / EMPTY_PART:
            actions += [self._empty]
        return self._dice.choice(actions)()

    def _one_joins(self) -> str:
        return f"{self._join().name} joins"

    def _one_leaves(self) -> str:
        victim = self._dice.choice(self.members)
        self.scenario.leaves += 1
        victim.stop()
        return f"{victim.name} leaves"

    def _one_is_killed(self) -> str:
        victim = self._dice.choice([m for m in self.members if m.name in self._mortal])
        self.scenario.kills += 1
        victim.kill()
        return f"{victim.name} is killed"

    def _empty(self) -> str:
        left_s = (self._until - time.monotonic()) * EMPTY_PART
        empty_s = self._dice.choice([s for s in EMPTY_S if s <= left_s] or [left_s])
        for member in self.members:
            member.stop()
        if empty_s > LET_IN_S:
            self._let_in()
        time.sleep(empty_s)
        self.scenario.empties += 1
        for _ in range(2):
            self._join()
        return f"was empty for {empty_s:.0f} s"

    def _order(self) -> str:
        """One order that makes sense now, until it has been carried out; and back again."""
        self.scenario.orders += 1
        name = self.scenario.group.name
        possible = (self._pin, self._pause, self._rebalance, *[self._leave] * self.scenario.group.left)
        return self._dice.choice(possible)(name)

    def _pin(self, group: str) -> str:
        """In the rack of a member that names one; a rebalance where none does."""
        racked = [m for m in self.members if "rack" in m.fields]
        owned = sorted(tp for m in self.members for tp in m.owned())
        if not racked or not owned:
            return self._rebalance(group)
        topic, partition = self._dice.choice(owned)
        rack = self._dice.choice(racked).fields["rack"]
        if not self._ordered("pin", group, f"{topic}-{partition}", f"rack:{rack}"):
            return "a pin was refused"

        def followed() -> bool:
            return any((topic, partition) in m.owned() for m in racked if m.fields["rack"] == rack)

        deadline = time.monotonic() + CARRIED_OUT_WITHIN_S
        while not followed() and time.monotonic() < deadline:
            time.sleep(0.2)
        if not followed():
            self._wrong(f"{topic}-{partition} was pinned to {rack} for {CARRIED_OUT_WITHIN_S:.0f} s and is elsewhere")
        self._ordered("unpin", group, f"{topic}-{partition}")
        return f"{topic}-{partition} was pinned to {rack}"

    def _leave(self, group: str) -> str:
        self._lead.excused.add(group)
        self._let_in()
        self._ordered("leave", group, "--for", f"{2 * LEAVE_S}s")
        time.sleep(LEAVE_S)
        self._ordered("resume", group)
        self._lead.excused.discard(group)
        return f"was left for {LEAVE_S} s"

    def _pause(self, group: str) -> str:
        self._ordered("pause", group, "--for", "30s")
        self._join()
        self._ordered("resume", group)
        return "a member joined in a pause"

    def _rebalance(self, group: str) -> str:
        self._ordered("rebalance", group)
        return "a rebalance was ordered"

    def _ordered(self, *arguments: str) -> bool:
        """Whether the order was taken; one that was not is a violation."""
        where = ("--bootstrap", self._topics.bootstrap, "--topic", CONTROL)
        ended = run_to_end([*arguments, *where])
        if ended.code:
            self._wrong(f"{' '.join(arguments)}: exit code {ended.code}, {ended.text.strip()}")
        return not ended.code

    def _let_in(self) -> None:
        self.scenario.let_in_after.append(self._topics.generation(self.scenario.group.name))

    def _wrong(self, text: str) -> None:
        self.scenario.violations.append(f"{text}\nbellwether: {self._lead.lead.log_of(self.scenario.group.name, 10)}")

    def _join(self) -> Member:
        group = self.scenario.group
        kind = self._kinds[self._made % len(self._kinds)]
        self._made += 1
        own_process = self._dice.random() < 0.4
        rack = self._dice.choice(RACKS) if kind in RACKED else None
        member = self._flock.member(
            kind, group.name, group.topics, group.assignors, rack=rack, session_ms=SESSION_MS, own_process=own_process
        )
        if own_process:
            self._mortal.add(member.name)
        self.scenario.joins += 1
        return member

    def _settle(self, what: str) -> str | None:
        """Waits until the group has settled; returns what is wrong if it does not."""
        began = time.monotonic()
        topics = self.scenario.group.topics
        try:
            wait_settled(
                self.members,
                lambda: partitions_of(self._topics.counts(topics)),
                spread=len(topics),
                limit_s=SETTLE_LIMIT_S,
            )
        except AssertionError as unsettled:
            trouble = f"after {what}: {unsettled}\nbellwether: {self._lead.lead.log_of(self.scenario.group.name, 30)}"
            self.scenario.violations.append(trouble)
            return trouble
        self.scenario.settled_s.append(time.monotonic() - began)
        return None
