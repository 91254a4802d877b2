"""The least rights of each feature (docs/reference/acls.md) on a broker with StandardAuthorizer: with them it works;
without any one of them one sentence names the right and the remedy, and the group goes on undisturbed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader
from bellwether_kafka.coordinator.topology import write_topology
from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import last_rebalance, rebalances
from tests.interop.support.security.rights import grant
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import topology_of

# A minute and more on a calm machine, so not in every run.
pytestmark = [pytest.mark.broker, pytest.mark.proof, pytest.mark.timeout(600)]

FEATURES = ("observe", "take-over", "streams", "assist", "control", "events", "weights")
PARTITIONS = 4
LIMIT_S = 60.0
READ, WRITE, CREATE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE
TAKE_OVER = {"adopt": "take-over", "evictions_max": 2, **PATIENT}
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC


@dataclass(frozen=True, slots=True)
class Right:
    """One ACL; `words` describes it."""

    operation: AclOperation
    resource: ResourceType
    name: str
    prefix: bool = False

    @property
    def words(self) -> str:
        named = f"on {self.resource.name.capitalize()} '{self.name}"
        return f"{self.operation.name} {named}" if self.prefix else f"{self.operation.name} {named}'"


class AclScene:
    """One broker, a user per feature, and an application that may do everything."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        for resource in (GROUP, TOPIC, ResourceType.TRANSACTIONAL_ID):
            self._bind("application", AclOperation.ALL, resource, "acl-", prefix=True)

    def grant(self, user: str, *rights: Right) -> None:
        for right in rights:
            self._bind(user, right.operation, right.resource, right.name, prefix=right.prefix)

    def login(self, user: str) -> dict[str, str]:
        return {k: v for k, v in self.cluster.client_config(user, user).items() if k != "log_level"}

    def member(self, flock: Flock, group: str, **more: str) -> Member:
        login = {f"property.{name}": value for name, value in (self.login("application") | more).items()}
        return flock.member("confluent", group, [group], more=login, own_process=bool(more))

    def bellwether(self, user: str, group: str, options: Mapping[str, Any], **settings: Any) -> Bellwether:
        return Bellwether(self.cluster, [group], options=options, user=user, **settings)

    def written(self, topic: str) -> int:
        """Records in a topic with one partition."""
        consumer = Consumer(self.login("application") | {"group.id": "acl-reader"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        finally:
            consumer.close()

    def _bind(self, user: str, operation: AclOperation, resource: ResourceType, name: str, *, prefix: bool) -> None:
        kind = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        grant(self.cluster, user, operation, resource, name, kind)


@pytest.fixture(scope="module")
def testbed(request: pytest.FixtureRequest) -> Iterator[AclScene]:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    users = {name: name for name in ("application", *FEATURES)}
    with KafkaCluster(nodes=1, racks=("az1",), users=users) as cluster:
        yield AclScene(cluster)


class Resting:
    """Two members at rest in a group and topic of this name; a context manager."""

    def __init__(self, testbed: AclScene, group: str) -> None:
        self._cluster, self._flock, self.group = testbed.cluster, Flock(testbed.cluster.bootstrap), group
        testbed.cluster.create_topic(group, PARTITIONS)
        self.members = [testbed.member(self._flock, group) for _ in range(2)]

    def __enter__(self) -> Self:
        self.settled()
        return self

    def __exit__(self, *_: object) -> None:
        self._flock.close()

    def settled(self) -> None:
        wait_settled(self.members, partitions_of({self.group: PARTITIONS}), spread=0)

    def seen(self) -> object:
        events = [[(event.kind, event.partitions) for event in member.events] for member in self.members]
        return events, rebalances(self._cluster, self.group)

    def led_by_bellwether(self) -> bool:
        return last_rebalance(self._cluster, self.group).leader.startswith("bellwether-")


def reports(process: Bellwether, right: Right) -> None:
    """Waits for the one sentence that names the right and what to do about it."""

    def message() -> bool:
        return any(right.words in line and "grant" in line for line in process.text().splitlines())

    wait_until(message, LIMIT_S, lambda: f"nothing about {right.words}:\n{process.tail()}")
    assert not [line for line in process.text().splitlines() if "Traceback" in line]


def without_each(
    testbed: AclScene, user: str, resting: Resting, rights: Sequence[Right], options: Mapping[str, Any], **settings: Any
) -> None:
    """Starts the feature with no right, then with one after another; each time the next one is missed by name."""
    before = resting.seen()
    for right in rights:
        process = testbed.bellwether(user, resting.group, options, **settings)
        try:
            process.start(wait=False)
            reports(process, right)
        finally:
            process.__exit__(None, None, None)
        assert resting.seen() == before, f"without {right.words} the group was disturbed"
        testbed.grant(user, right)


def base(group: str) -> tuple[Right, Right]:
    return Right(READ, GROUP, group), Right(DESCRIBE, TOPIC, group)


def test_observe(testbed: AclScene) -> None:
    group, options = "acl-observe", {"mode": "observe"}
    with Resting(testbed, group) as resting:
        without_each(
            testbed, "observe", resting, (Right(DESCRIBE, GROUP, group), Right(DESCRIBE, TOPIC, group)), options
        )
        before = resting.seen()
        process = testbed.bellwether("observe", group, options)
        try:
            process.start(wait=False)
            wait_until(
                lambda: any(seen["shadow_moves"] == 0 for seen in process.log("group_observed")), LIMIT_S, process.tail
            )
        finally:
            process.__exit__(None, None, None)
        assert resting.seen() == before


def test_lead_and_take_over(testbed: AclScene) -> None:
    group, options = "acl-take-over", TAKE_OVER
    with Resting(testbed, group) as resting:
        without_each(testbed, "take-over", resting, base(group), options)
        with testbed.bellwether("take-over", group, options) as process:
            wait_until(resting.led_by_bellwether, LIMIT_S, process.tail)
            resting.settled()


def test_lead_an_application(testbed: AclScene, tmp_path: Path) -> None:
    group = "acl-streams"
    for topic in (f"{group}-in", f"{group}-out"):
        testbed.cluster.create_topic(topic, PARTITIONS)
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username='application'"
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{jaas} password='application';",
    }
    application = Application(group, (f"{group}-in",), f"{group}-out", PARTITIONS, settings=login)
    file = tmp_path / "topology.yaml"
    file.write_text(write_topology(topology_of(application)))
    options = {"kind": "streams", "topology": str(file), "topology_attested": True}
    # Its leader creates what is missing, so without CREATE it steps aside, and Java creates and leads.
    testbed.grant("streams", Right(READ, GROUP, group), Right(DESCRIBE, TOPIC, group, prefix=True))
    create = Right(CREATE, TOPIC, group, prefix=True)
    with StreamsApp(testbed.cluster, application) as app:
        with testbed.bellwether("streams", group, options) as process:
            app.add("one")
            reports(process, create)
            app.wait_settled(limit_s=120)
        app.instances["one"].stop()
    testbed.grant("streams", create)
    for topic in testbed.cluster.admin.list_topics(timeout=10).topics:
        if topic.startswith(f"{group}-") and topic not in (f"{group}-in", f"{group}-out"):
            testbed.cluster.admin.delete_topics([topic])[topic].result(timeout=30)
    with StreamsApp(testbed.cluster, application) as app, testbed.bellwether("streams", group, options) as process:
        before = last_rebalance(testbed.cluster, group).generation
        app.add("one")
        app.wait_settled(limit_s=120)
        led = [r for r in rebalances(testbed.cluster, group, before) if r.members > 1]
        assert led, process.tail()
        assert all(r.leader.startswith("bellwether-") for r in led), process.tail()


def test_assist(testbed: AclScene) -> None:
    group, options = "acl-assist", {"mode": "assist", "client_ids_unique": True}
    with Resting(testbed, group) as resting:
        without_each(testbed, "assist", resting, [Right(READ, GROUP, group)], options)
        process = testbed.bellwether("assist", group, options)
        try:
            process.start(wait=False)
            wait_until(lambda: bool(process.log("online_conversion")), LIMIT_S, process.tail)
            with Flock(testbed.cluster.bootstrap) as flock:
                ghost = testbed.member(flock, group, **{"client.id": "twin"})
                wait_settled([*resting.members, ghost], partitions_of({group: PARTITIONS}))
                wait_until(lambda: bool(ghost.owned()), LIMIT_S, process.tail)
                ghost.kill()
                returned = testbed.member(flock, group, **{"client.id": "twin"})
                wait_until(lambda: bool(process.log("ghosts", what="GHOST")), LIMIT_S, process.tail)
                wait_settled([*resting.members, returned], partitions_of({group: PARTITIONS}))
        finally:
            process.__exit__(None, None, None)


def test_control_topic_and_standby(testbed: AclScene) -> None:
    group, control = "acl-control", "acl-control-orders"
    settings = {"control_topic": control, "standby": True}
    options = TAKE_OVER
    testbed.grant("control", *base(group))
    with Resting(testbed, group) as resting:
        rights = [Right(CREATE, TOPIC, control), Right(READ, TOPIC, control), Right(WRITE, TOPIC, control)]
        without_each(testbed, "control", resting, rights, options, **settings)
        with testbed.bellwether("control", group, options, instance_name="one", **settings) as process:
            wait_until(resting.led_by_bellwether, LIMIT_S, process.tail)
            resting.settled()


def test_events(testbed: AclScene) -> None:
    group, topic = "acl-events", "acl-events-out"
    testbed.grant("events", *base(group))
    testbed.cluster.create_topic(topic, 1)
    options = TAKE_OVER
    with Resting(testbed, group) as resting:
        with testbed.bellwether("events", group, options, events={"topic": topic}) as process:
            reports(process, Right(WRITE, TOPIC, topic))
            wait_until(resting.led_by_bellwether, LIMIT_S, process.tail)
            resting.settled()
        testbed.grant("events", Right(WRITE, TOPIC, topic))
        with testbed.bellwether("events", group, options, events={"topic": topic}) as process:
            wait_until(lambda: testbed.written(topic) > 0, LIMIT_S, process.tail)


def test_weights(testbed: AclScene) -> None:
    group, topic = "acl-weights", "acl-weights-in"
    testbed.grant("weights", Right(DESCRIBE, GROUP, group), Right(DESCRIBE, TOPIC, group))
    testbed.cluster.create_topic(topic, 1)
    right = Right(READ, TOPIC, topic)
    with Resting(testbed, group) as resting:
        without_each(testbed, "weights", resting, [right], {"mode": "observe"}, weights={"topic": topic})
    producer = Producer(testbed.login("application"))
    producer.produce(topic, b"no weight", b"acl-weights-0")
    producer.flush(30)
    reader = WeightReader(testbed.login("weights"), WeightSettings(topic=topic))
    reader.start()
    try:
        wait_until(lambda: reader.refused.total() > 0, LIMIT_S, lambda: "the topic was not read")
    finally:
        reader.close()
