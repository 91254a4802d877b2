"""What must not happen to a live Streams application, happens: hostile members, topics that are missing or resized, a
broker that does not return end offsets. It goes on at least as well as it would under its own leader.
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic

from bellwether_kafka.coordinator.planning.streams_inputs import RESTARTS_MAX
from bellwether_kafka.protocol.messages import (
    LATEST_OFFSET,
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.raw import RawMember
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import (
    PARTITIONS,
    WINDOWED,
    application,
    failures,
    generation_of,
    led,
    led_by_java,
    sending,
    strangers,
)
from tests.interop.support.streams_load import Load

pytestmark = pytest.mark.timeout(600)
GOOD = SubscriptionInfo(process_id=ProcessId(0, 7)).encode()
EVERYTHING = tuple((TaskId(s, p), LATEST_OFFSET) for s in (0, 1, 2, 77) for p in range(PARTITIONS))
# A member that cannot be read gets nothing; Java's leader dies of each of these, and the next one after it. Named
# topologies can be read, but not beside threads without any.
UNREADABLE: dict[str, bytes | None] = {
    "null": None,
    "empty": b"",
    "truncated": GOOD[:20],
    "version 12 that knows 11": (12).to_bytes(4) + (11).to_bytes(4),
    "a negative count": GOOD[:24] + (-1).to_bytes(4, signed=True) + GOOD[28:],
    "named topologies": SubscriptionInfo(
        process_id=ProcessId(0, 6), task_offset_sums=((TaskId(0, 0, "top"), 5),)
    ).encode(),
    "a huge count": GOOD[:28] + (2**31 - 1).to_bytes(4) + GOOD[32:],
}
# These can be read, and are threads like any other, as they are for Java: they may get tasks while they stay.
READABLE: dict[str, bytes] = {
    "newer than we are": (12).to_bytes(4) + (12).to_bytes(4),
    "runs every task and more": SubscriptionInfo(process_id=ProcessId(0, 8), task_offset_sums=EVERYTHING).encode(),
    "tasks that are not there": SubscriptionInfo(
        process_id=ProcessId(0, 9), task_offset_sums=((TaskId(77, 5), 10), (TaskId(1, 2**31 - 1), 2**62))
    ).encode(),
    "an endpoint that is none": SubscriptionInfo(process_id=ProcessId(0, 10), user_end_point="\x00nowhere:").encode(),
}


def hostile(app: Application, user_data: bytes | None, owned: tuple[TopicPartition, ...] = ()) -> bytes:
    """The subscription of a member that subscribes to what the application's threads do."""
    topics = tuple(sorted(t for sources in app.sources.values() for t in sources))
    return ConsumerProtocolSubscription(
        version=3, topics=topics, user_data=user_data, owned_partitions=owned, generation_id=2**31 - 1 if owned else -1
    ).encode()


def test_hostile_members_do_not_disturb_a_led_application(kafka: KafkaCluster, tmp_path: Path) -> None:
    common = application(kafka, "bad-members", session_timeout_ms=6_000)
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        before = app.wait_settled()
        load.start(100)
        junk = {"no subscription at all": b"\x00\x03\xff", **{k: hostile(common, v) for k, v in UNREADABLE.items()}}
        for what, metadata in junk.items():
            with RawMember(kafka.bootstrap, common.application_id, [("stream", metadata)]) as member:
                given = ConsumerProtocolAssignment.decode(member.rebalance())
                reported = AssignmentInfo.decode(given.user_data or b"")
                assert (given.partitions, reported.active_tasks, reported.standby_tasks) == ((), (), ()), what
                assert app.owners() == before, what
        grabbed = tuple(TopicPartition(t, p) for t in common.topics for p in range(PARTITIONS))
        liars = {"owns what others own": hostile(common, GOOD, grabbed)}
        for what, metadata in {**liars, **{k: hostile(common, v) for k, v in READABLE.items()}}.items():
            with RawMember(kafka.bootstrap, common.application_id, [("stream", metadata)]) as member:
                member.rebalance()
            assert app.wait_settled(quiet_s=1.0) == before, what
        load.stop()
        app.wait_counted(load.expected)
        assert strangers(kafka, common.application_id) == []
        assert failures(app) == []

        def warned() -> str:
            return " ".join(w for line in lead.log("streams_decision") for w in line["warnings"])

        wait_until(lambda: "cannot be read" in warned(), 30, warned)


def test_a_changelog_that_nobody_described_is_left_to_java(kafka: KafkaCluster, tmp_path: Path) -> None:
    common = application(kafka, "bad-missing")
    with (
        led(kafka, common, tmp_path, described=False) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        app.wait_settled()
        app.wait_counted(load.expected)
        assert strangers(kafka, common.application_id), "we led without changelogs"
        (refused, *_) = lead.logged("membership", what="REFUSED")
        assert "internal topics do not exist" in refused["reason"]
        assert failures(app) == []


def test_internal_topics_get_the_replicas_of_the_application_or_are_not_made(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The brokers' default is one replica. Thirteen topics were made with it, and with one broker down the application
    stood still."""
    name = "bad-replicas"
    common = Application(name, (f"{name}-in",), f"{name}-out", PARTITIONS, acceptable_recovery_lag=100)
    for topic, partitions in ((f"{name}-in", PARTITIONS), (f"{name}-out", 1)):
        kafka.create_topic(topic, partitions, rf=3)
    internal = {t for number, topics in common.sources.items() if number for t in topics}
    internal = internal.union(*common.changelogs.values())
    with led(kafka, common, tmp_path) as lead:
        lead.wait_for_words(
            'and topic bad-replicas-in of the application has 3; set \\"replication.factor\\" of the group'
        )
        assert lead.log("internal_topics_created") == []
    settings = {"replication.factor": 3, "topic.segment.bytes": 1_048_576}
    with led(kafka, common, tmp_path, **settings) as lead, StreamsApp(kafka, common) as app, sending(lead, app):
        app.add("one")
        app.wait_settled()
        assert strangers(kafka, name) == []
        made = kafka.admin.list_topics(timeout=10).topics
        assert {len(p.replicas) for t in internal for p in made[t].partitions.values()} == {3}
        (windowed,) = {t for t in internal if "windowed-changelog" in t}
        resource = ConfigResource(ConfigResource.Type.TOPIC, windowed)
        configs = kafka.admin.describe_configs([resource])[resource].result(20)
        message = {key: configs[key].value for key in ("cleanup.policy", "retention.ms", "segment.bytes")}
        assert message == {**dict(WINDOWED), "segment.bytes": "1048576"}


def test_topics_that_outgrow_a_repartition_topic_disturb_nobody(kafka: KafkaCluster, tmp_path: Path) -> None:
    """A Java leader rebalances when a source topic grows, finds the repartition topic too small, and fails; of a larger
    changelog it fails in its next rebalance. Nothing is to be hurried: the application goes on with what it has."""
    common = application(kafka, "bad-resized")
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        # No record goes to the new partitions, which no task reads, should the producer see them.
        Load(kafka, common.topics[0], keys=100, partitions=PARTITIONS) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        before = app.wait_settled()
        generation = generation_of(kafka, common.application_id)
        load.start(100)
        kafka.add_partitions(f"{common.application_id}-counts-changelog", PARTITIONS + 2)
        kafka.add_partitions(common.topics[0], PARTITIONS + 2)
        (reported, *_) = lead.logged("change_not_followed")
        time.sleep(4)  # four looks of the metadata watch
        load.stop()
        app.wait_counted(load.expected)
        assert app.owners() == before
        assert generation_of(kafka, common.application_id) == generation
        assert failures(app) == []
        assert f"grew from {PARTITIONS} to {PARTITIONS + 2}" in reported["change"]


@pytest.mark.proof
def test_a_changelog_that_is_deleted_is_made_again(kafka: KafkaCluster, tmp_path: Path) -> None:
    common = application(kafka, "bad-deleted")
    changelog = f"{common.application_id}-windowed-changelog"
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        before = app.wait_settled()
        app.wait_counted(load.expected)
        kafka.delete_topic(changelog)
        wait_until(lambda: lead.log("internal_topics_created", topics=[changelog]), 30, app.send)
        kafka.wait_for_topic(changelog, PARTITIONS)
        load.produce(500)
        app.wait_counted(load.expected)
        assert app.wait_settled() == before
        assert strangers(kafka, common.application_id) == []
        assert failures(app) == []


def place_changelogs_apart(cluster: KafkaCluster, common: Application) -> int:
    """All topics of the application such that one node holds its changelogs and nothing else; returns that node."""
    coordinator = cluster.coordinator_node(common.application_id)
    aside, other = sorted({1, 2, 3} - {coordinator})
    placement = {t: aside for topics in common.changelogs.values() for t in topics}
    sources = {t for topics in common.sources.values() for t in topics} | {common.output}
    placement |= dict.fromkeys(sources, other)
    topics = [
        NewTopic(t, num_partitions=common.partitions, replica_assignment=[[node]] * common.partitions)
        for t, node in placement.items()
    ]
    for name, made in cluster.admin.create_topics(topics, operation_timeout=20).items():
        made.result(timeout=30)
        cluster.wait_for_topic(name, common.partitions)
    return aside


def lags_known_in(lead: Bellwether, generation: int) -> bool:
    return any(line["lags_known"] for line in lead.log("streams_decision") if line["generation"] == generation)


def test_while_end_offsets_cannot_be_read_everything_stays(kafka: KafkaCluster, tmp_path: Path) -> None:
    name = "bad-offsets"
    common = Application(name, (f"{name}-in",), f"{name}-out", PARTITIONS, acceptable_recovery_lag=100)
    common = replace(common, session_timeout_ms=6_000)
    aside = place_changelogs_apart(kafka, common)
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        before = app.wait_settled()
        app.wait_counted(load.expected)  # threads with something to write to a changelog would wait for it as well
        kafka.stop_node(aside)
        try:
            with RawMember(kafka.bootstrap, name, [("stream", hostile(common, None))]) as member:
                member.rebalance()
        finally:
            kafka.start_node(aside)
        load.produce(500)
        assert app.wait_settled() == before
        app.wait_counted(load.expected)
        assert strangers(kafka, name) == []
        assert lead.logged("streams_decision", lags_known=False)

        def a_rebalance_knows_lags() -> bool:
            with RawMember(kafka.bootstrap, name, [("stream", hostile(common, None))]) as member:
                member.rebalance()
                generation = member.generation
            # The line is written after the broker has the assignment, so a member may know its generation before.
            lead.logged("streams_decision", generation=generation)
            return lags_known_in(lead, generation)

        # A node that is back does not answer for all of its partitions at once.
        wait_until(a_rebalance_knows_lags, 60, lambda: lead.log_of(name))
        assert failures(app) == []


@pytest.mark.proof
def test_a_wrong_topology_that_is_attested_kills_nothing_for_long(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Two equal subtopologies in the wrong order: a Streams thread dies at once of a task of the other one. An
    orchestrator that starts it again finds a Java leader after a few times."""
    common = application(kafka, "bad-attested", session_timeout_ms=6_000)
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, replace(common, topology="v3")) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        instance = app.add("one")
        for _ in range(RESTARTS_MAX + 2):
            wait_until(lambda: not instance.alive or led_by_java(kafka, common.application_id, 0), 60, app.send)
            if instance.alive:
                break
            instance.stop()
            app.start("one")
        else:
            raise AssertionError("the application was led to its death again and again")
        app.wait_settled()
        app.wait_counted(load.expected)


@pytest.mark.proof
def test_a_store_that_the_attested_topology_lacks_stalls_nothing_for_long(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Nobody makes the changelog of a store that only the application knows of, so its tasks never run. Their threads
    show that when they are asked, and then a Java leader makes it."""
    common = application(kafka, "bad-stalled", session_timeout_ms=6_000)
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, replace(common, topology="v2")) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.start(100)
        app.add("one")
        wait_until(lambda: led_by_java(kafka, common.application_id, 0), 90, app.send)
        app.wait_settled()
        load.stop()
        app.wait_counted(load.expected)
        (stalled, *_) = lead.logged("membership", what="REFUSED")
        assert "the topology is not the application's" in stalled["reason"]
        assert failures(app) == []
