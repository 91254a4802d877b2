"""What the soak runs: topics that grow under a steady producer, and groups of mixed clients that come, go and die.

Every choice comes from one seed. Who owns what and who has read what is asked from the members alone.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import RACKED, RACKS
from tests.interop.support.members import Flock, Member, double_ownership, partitions_of, wait_settled

SESSION_MS = 6_000
SETTLE_LIMIT_S = 90.0
MEMBERS_MAX = 5
PARTITIONS_MAX = 16
RECORDS_PER_S = 400
FAILURES_KEPT = 5


@dataclass(frozen=True, slots=True)
class SoakGroup:
    """A group, the clients that its members are drawn from and its topics."""

    name: str
    kinds: tuple[str, ...]
    assignors: tuple[str, ...]
    topics: tuple[str, ...]


TOPICS: Mapping[str, int] = {"soak-orders": 8, "soak-payments": 6, "soak-clicks": 4}
ORDERS, PAYMENTS, CLICKS = TOPICS
GROUPS = (
    SoakGroup("soak-cooperative", ("java", "confluent", "franz-go"), ("cooperative-sticky",), (ORDERS, PAYMENTS)),
    SoakGroup(
        "soak-range",
        ("java", "confluent", "kafka-python", "franz-go", "sarama", "kafka-go"),
        ("range",),
        (ORDERS, CLICKS),
    ),
    SoakGroup(
        "soak-roundrobin", ("confluent", "aiokafka", "kafka-python", "sarama"), ("roundrobin",), (PAYMENTS, CLICKS)
    ),
    SoakGroup("soak-sticky", ("java", "sarama", "franz-go"), ("sticky",), (ORDERS,)),
    SoakGroup("soak-python", ("kafka-python",), ("cooperative-sticky",), (PAYMENTS,)),
)


class Topics:
    """The topics, their partition counts now, and a producer that never stops until it is told to."""

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
        found = self._cluster.admin.list_offsets(wanted)
        return {(tp.topic, tp.partition): int(done.result(timeout=30).offset) for tp, done in found.items()}

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
class Story:
    """One group's soak: what happened, how long it took to settle each time, and what went wrong."""

    group: SoakGroup
    joins: int = 0
    leaves: int = 0
    kills: int = 0
    settled_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Actor:
    """Lives one group until the end: an action, then wait until it has settled, and again."""

    def __init__(
        self, group: SoakGroup, kinds: tuple[str, ...], flock: Flock, topics: Topics, lead: Bellwether, seed: int
    ) -> None:
        self.story = Story(group)
        self._lead = lead
        self._kinds = kinds
        self._flock = flock
        self._topics = topics
        self._dice = random.Random(f"{seed} {group.name}")
        self._mortal: set[str] = set()
        self._made = 0

    @property
    def members(self) -> list[Member]:
        return self._flock.live(self.story.group.name)

    def run(self, until: float, said: Callable[[str], None]) -> None:
        try:
            for _ in range(2):
                self._join()
            self._settle("start")
            while time.monotonic() < until:
                time.sleep(self._dice.uniform(0.0, 4.0))
                what = self._act()
                said(f"{self.story.group.name}: {what}")
                trouble = self._settle(what)
                if trouble:
                    said(trouble)
        except Exception as error:  # noqa: BLE001 - whatever ends an actor is a finding, and the others go on
            self.story.violations.append(f"{type(error).__name__}: {error}")
            said(self.story.violations[-1])

    def judge_ownership(self) -> None:
        everybody = [m for m in self._flock.members if m.group == self.story.group.name]
        self.story.violations += double_ownership(everybody)

    def _act(self) -> str:
        members = self.members
        mortal = [m for m in members if m.name in self._mortal]
        actions = ["join"] * (len(members) < MEMBERS_MAX) * 2
        if len(members) > 1:
            actions += ["leave"] + ["kill"] * bool(mortal)
        action = self._dice.choice(actions)
        if action == "join":
            return f"{self._join().name} joins"
        victim = self._dice.choice(members if action == "leave" else mortal)
        if action == "leave":
            self.story.leaves += 1
            victim.stop()
        else:
            self.story.kills += 1
            victim.kill()
        return f"{victim.name} {'leaves' if action == 'leave' else 'is killed'}"

    def _join(self) -> Member:
        group = self.story.group
        kind = self._kinds[self._made % len(self._kinds)]
        self._made += 1
        own_process = self._dice.random() < 0.4
        rack = self._dice.choice(RACKS) if kind in RACKED else None
        member = self._flock.member(
            kind, group.name, group.topics, group.assignors, rack=rack, session_ms=SESSION_MS, own_process=own_process
        )
        if own_process:
            self._mortal.add(member.name)
        self.story.joins += 1
        return member

    def _settle(self, what: str) -> str | None:
        """Waits until the group has settled; tells what is wrong if it does not."""
        began = time.monotonic()
        topics = self.story.group.topics
        try:
            wait_settled(
                self.members,
                lambda: partitions_of(self._topics.counts(topics)),
                spread=len(topics),
                limit_s=SETTLE_LIMIT_S,
            )
        except AssertionError as unsettled:
            trouble = f"after {what}: {unsettled}\nbellwether: {self._lead.said_of(self.story.group.name, 30)}"
            self.story.violations.append(trouble)
            return trouble
        self.story.settled_s.append(time.monotonic() - began)
        return None
