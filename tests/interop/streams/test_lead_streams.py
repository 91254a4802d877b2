"""An unmodified Kafka Streams application led by `bellwether run`: from empty brokers, through growth and crashes, till
every record is counted. Who runs what is asked from the instances; who led, from the brokers."""

from dataclasses import replace
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.membership import NoteKind
from bellwether_kafka.coordinator.planning import load_application
from bellwether_kafka.coordinator.settings import load as load_settings
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import wait_until
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import (
    PARTITIONS,
    RETURNED,
    application,
    create_internal_topics,
    decided_again,
    failures,
    generation_of,
    led,
    led_by_java,
    sending,
    strangers,
)
from tests.interop.support.streams_load import Load

LIFE_S = 600
# Two probes of a minute each, and JVMs that start on a busy machine.
SETTLE_S = 200

pytestmark = pytest.mark.timeout(LIFE_S)


@pytest.mark.smoke
def test_an_application_is_led_from_empty_brokers_through_growth(kafka: KafkaCluster, tmp_path: Path) -> None:
    common, events = application(kafka, "lead-streams-grow", standbys=1), "lead-streams-grow-events"
    with (
        led(kafka, common, tmp_path, events=events) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=500) as load,
        sending(lead, app),
    ):
        load.produce(20_000)
        for name, rack in (("one", "az1"), ("two", "az2")):
            app.add(name, rack)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        load.start(200)
        app.add("three", "az3")
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        load.stop()
        app.wait_counted(load.expected)
        assert app.timeline().overlaps() == []
        assert strangers(kafka, common.application_id) == []
        assert failures(app) == []
        decided = {line["generation"] for line in lead.log("streams_decision", source="plan")}
    again = decided_again(kafka, events, tmp_path)
    assert [
        (rebalance["generation"], rebalance["differences"], rebalance["failed"])
        for rebalance in again
        if not rebalance["same"]
    ] == []
    assert {rebalance["generation"] for rebalance in again} >= decided > set()
    assert {rebalance["members"] for rebalance in again} >= {2, 3}, "threads of two processes, and of three"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_crashes_of_an_instance_and_of_bellwether_lose_nothing(
    kafka: KafkaCluster, tmp_path: Path, guarantee: str
) -> None:
    # Exactly once, a standby sees no more than the last commit: what comes between two commits must be no lag.
    common = application(
        kafka,
        f"lead-streams-{guarantee}",
        standbys=1,
        guarantee=guarantee,
        session_timeout_ms=6_000,
        acceptable_recovery_lag=1_000,
    )
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=300) as load,
        sending(lead, app),
    ):
        load.produce(3_000)
        for name in ("one", "two"):
            app.add(name)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        load.start(200)

        app.instances["one"].kill()
        assert set(app.wait_settled().values()) == {"two"}
        app.start("one")
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        assert strangers(kafka, common.application_id) == []

        generation = generation_of(kafka, common.application_id)
        lead.kill()
        wait_until(lambda: led_by_java(kafka, common.application_id, generation), 60, app.send)
        app.wait_settled()
        load.stop()
        app.wait_counted(load.expected, exactly_once=guarantee != "at_least_once")
        assert app.timeline().overlaps() == []
        assert {instance.state for instance in app.live} == {"RUNNING"}
        assert failures(app) == []


def test_a_successor_leads_on_without_a_rebalance(kafka: KafkaCluster, tmp_path: Path) -> None:
    """kill -9, and another Bellwether under the same instance id within the session: a thread of the test plays it, so
    that the time that a process takes to start does not count."""
    common = application(kafka, "lead-streams-return", standbys=1)
    options = {"session_timeout_ms": 10_000, "probing.rebalance.interval.ms": 600_000}
    with (
        led(kafka, common, tmp_path, **options) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(1_000)
        app.add("one")
        app.add("two")
        before = app.wait_settled(spread=1, limit_s=SETTLE_S)
        generation = generation_of(kafka, common.application_id)
        (tmp_path / "successor.toml").write_text(lead._config)
        settings = load_settings(tmp_path / "successor.toml", environ={})
        lead.kill()
        (group,) = settings.groups
        assert group.streams is not None
        applications = {group.name: load_application(group.streams)}
        with InstanceHarness(settings.properties, *settings.memberships, applications=applications) as successor:
            successor.wait_until(lambda: RETURNED in successor.message(NoteKind.LEADING), "the successor leads")
            assert app.wait_settled(quiet_s=3.0) == before
            assert generation_of(kafka, common.application_id) == generation
            app.instances["two"].kill()
            wait_until(lambda: generation_of(kafka, common.application_id) > generation, 60, app.send)
            app.wait_settled()
            assert strangers(kafka, common.application_id) == []
            app.wait_counted(load.expected, exactly_once=False)  # what "two" had not committed comes again


def test_a_process_that_is_not_attested_makes_java_lead(kafka: KafkaCluster, tmp_path: Path) -> None:
    common = application(kafka, "lead-streams-doubt")
    create_internal_topics(kafka, common)
    with (
        led(kafka, common, tmp_path, topology_attested=False) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        app.wait_settled()
        app.application = replace(common, topology="v3")
        assert app.instances["one"].stop() == 0
        load.produce(500)
        app.start("one")
        app.wait_settled()
        app.wait_counted(load.expected)
        assert strangers(kafka, common.application_id), "the new version was led by our old topology"
        (refused, *_) = lead.logged("membership", what="REFUSED")
        assert "has restarted and may run another version" in refused["reason"]


def test_a_wrong_topology_file_leaves_the_application_to_java(kafka: KafkaCluster, tmp_path: Path) -> None:
    common = application(kafka, "lead-streams-wrong")
    other = replace(common, topics=(f"{common.topics[0]}-of-old",))
    kafka.create_topic(other.topics[0], PARTITIONS)
    with (
        led(kafka, other, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        app.wait_settled()
        app.wait_counted(load.expected)
        assert strangers(kafka, common.application_id)
        reasons = [line["reason"] for line in lead.logged("membership", what="REFUSED")]
        assert reasons
        assert all("belongs to no subtopology" in reason for reason in reasons)
