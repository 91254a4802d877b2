"""Applications that are not what they were: an older Kafka, a new store, subtopologies that changed places, a new topic
for a pattern. None gets stuck and every record is counted, led by Bellwether or, where the version is not attested, by
Java.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.planning.streams_inputs import TAG, tag_value
from bellwether_kafka.coordinator.topology import write_topology
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT_WITH_APPLICATIONS
from tests.interop.support.jvm import CURRENT, KAFKA_VERSION, STREAMS_39, STREAMS_39_VERSION
from tests.interop.support.members import wait_until
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import (
    PARTITIONS,
    application,
    create_internal_topics,
    failures,
    generation_of,
    led,
    led_by_java,
    sending,
    strangers,
    topology_of,
)
from tests.interop.support.streams_load import Load

pytestmark = pytest.mark.timeout(600)
SESSION_MS = 6_000
RETURN_S = 150  # an attempt or two, the waits between them, and a minute of looking at what is still open
# One group of two in a dozen is taken over only if the second in the member table may be removed as well.
LEARNED = {
    "topology": None,
    "topology_attested": False,
    "adopt": "take-over",
    "evictions_max": 2,
    "stores": "persistent",
}


def restart(app: StreamsApp, name: str, version: Application) -> None:
    """Stops an instance the orderly way and starts it as this version of the application."""
    assert app.instances[name].stop() == 0, app.send()
    app.application = version
    app.start(name)
    app.wait_settled()


def test_a_3_9_application_is_led_and_rolled_to_4_3(kafka: KafkaCluster, tmp_path: Path) -> None:
    old = application(kafka, "versions-39", standbys=1, session_timeout_ms=SESSION_MS, release=STREAMS_39)
    with (
        led(kafka, old, tmp_path) as lead,
        StreamsApp(kafka, old) as app,
        Load(kafka, old.topics[0], keys=200) as load,
        sending(lead, app),
    ):
        load.produce(2_000)
        app.add("one")
        app.add("two")
        app.wait_settled(spread=1)
        app.wait_counted(load.expected)
        assert {i.version for i in app.live} == {STREAMS_39_VERSION}
        load.start(100)
        restart(app, "one", replace(old, release=CURRENT))
        assert {i.version for i in app.live} == {STREAMS_39_VERSION, KAFKA_VERSION}
        restart(app, "two", replace(old, release=CURRENT))
        load.stop()
        app.wait_counted(load.expected)
        assert {i.version for i in app.live} == {KAFKA_VERSION}
        assert strangers(kafka, old.application_id) == []
        assert app.timeline().overlaps() == []
        assert failures(app) == []


@pytest.mark.proof
def test_a_version_with_a_new_store_is_rolled_out_under_its_topology(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The operator gives Bellwether the new version's topology first and attests it."""
    old = application(kafka, "versions-store", standbys=1, session_timeout_ms=SESSION_MS)
    new = replace(old, topology="v2")
    with (
        led(kafka, new, tmp_path) as lead,
        StreamsApp(kafka, old) as app,
        Load(kafka, old.topics[0], keys=200) as load,
        sending(lead, app),
    ):
        load.produce(1_000)
        app.add("one")
        app.add("two")
        app.wait_settled(spread=1)
        load.start(100)
        for name in ("one", "two"):
            restart(app, name, new)
        load.stop()
        app.wait_counted(load.expected)
        assert strangers(kafka, old.application_id) == []
        assert app.timeline().overlaps() == []
        assert failures(app) == []


@pytest.mark.proof
def test_a_version_that_reads_another_topic_is_rolled_out_under_a_java_leader(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Members of the two versions subscribe differently. The new file is installed before the deploy, without a
    restart; Bellwether does not lead a mixture, and leads again when all members run the new version."""
    old = application(kafka, "versions-topics", session_timeout_ms=SESSION_MS)
    more = f"{old.topics[0]}-more"
    kafka.create_topic(more, PARTITIONS)
    new, group = replace(old, topics=(*old.topics, more)), old.application_id
    options = {"adopt": "take-over", "evictions_max": 2, "stores": "persistent", **PATIENT_WITH_APPLICATIONS}
    with (
        led(kafka, old, tmp_path, **options) as lead,
        StreamsApp(kafka, old) as app,
        Load(kafka, old.topics[0], keys=200) as load,
        sending(lead, app),
    ):
        load.produce(1_000)
        app.add("one")
        app.add("two")
        app.wait_settled(spread=1)
        assert strangers(kafka, group) == []
        before = generation_of(kafka, group)
        (tmp_path / f"{group}.yaml").write_text(write_topology(topology_of(new)))
        for name in ("one", "two"):
            assert app.instances[name].stop() == 0, app.send()
            app.application = new
            app.start(name)
            wait_until(lambda: led_by_java(kafka, group, before), RETURN_S, app.send)
        wait_until(lambda: last_rebalance(kafka, group).leader.startswith(INSTANCE), RETURN_S, app.send)
        load.produce(500)
        app.wait_settled(spread=1)
        app.wait_counted(load.expected, exactly_once=False)  # a removed leader reads again what it had not committed
        assert [line["digest"] for line in lead.log("topology_file_read")] == [topology_of(new).digest]
        reasons = [line["reason"] for line in lead.logged("membership", what="REFUSED")]
        assert any(more in reason for reason in reasons), reasons
        assert failures(app) == []


def test_a_version_with_swapped_subtopologies_says_so_by_its_tag(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Nothing on the wire but the tag distinguishes the two: the same topics, the same number of tasks, both
    stateful."""

    def tagged(app: Application) -> Application:
        return replace(app, settings={f"client.tag.{TAG}": tag_value(topology_of(app).digest)})

    plain = application(kafka, "versions-swap", session_timeout_ms=SESSION_MS)
    create_internal_topics(kafka, plain)
    old, new = tagged(plain), tagged(replace(plain, topology="v3"))
    with (
        led(kafka, old, tmp_path, topology_attested=False) as lead,
        StreamsApp(kafka, old) as app,
        Load(kafka, plain.topics[0], keys=200) as load,
        sending(lead, app),
    ):
        load.produce(1_000)
        app.add("one")
        app.wait_settled()
        restart(app, "one", old)
        assert strangers(kafka, plain.application_id) == [], "the same version came back and attests it"
        load.start(100)
        restart(app, "one", new)
        load.stop()
        app.wait_counted(load.expected)
        assert strangers(kafka, plain.application_id), "the new version was led by our old topology"
        assert failures(app) == []
        reasons = [line["reason"] for line in lead.logged("membership", what="REFUSED")]
        assert reasons
        assert all("attests the topology" in reason for reason in reasons)


@pytest.mark.proof
@pytest.mark.parametrize(("version", "instances"), [("v2", 1), ("v3", 1), ("v1", 2)])
def test_a_new_version_is_learned_from_one_generation_of_java(
    kafka: KafkaCluster, tmp_path: Path, version: str, instances: int
) -> None:
    """Nobody attests it, and there is no topology file: v2 has a new store, v3 two subtopologies that changed places,
    v1 is the same again, which nobody can know. A member of the new version leads, shows its topology by that, and
    Bellwether leads again by this. (Two instances could not be rolled to v2 or v3 under their own leader either.)"""
    name = f"versions-learned-{version}-{instances}"
    old = application(kafka, name, session_timeout_ms=SESSION_MS, standbys=instances - 1)
    new, group = replace(old, topology=version), old.application_id
    options = {**LEARNED, **PATIENT_WITH_APPLICATIONS}

    def own() -> bool:
        return last_rebalance(kafka, group).leader.startswith(INSTANCE)

    with StreamsApp(kafka, old) as app, Load(kafka, old.topics[0], keys=200) as load:
        load.produce(1_000)
        for number in range(instances):
            app.add(f"i{number}")
        app.wait_settled(spread=1)
        app.wait_counted(load.expected)
        with led(kafka, old, tmp_path, **options) as lead, sending(lead, app):
            wait_until(own, RETURN_S, app.send)
            for number in range(instances):
                before = generation_of(kafka, group)
                restart(app, f"i{number}", new)
                wait_until(lambda since=before: led_by_java(kafka, group, since), RETURN_S, app.send)
                load.produce(500)
                wait_until(own, RETURN_S, app.send)
            load.produce(500)
            app.wait_settled(spread=1)
            app.wait_counted(
                load.expected, exactly_once=False
            )  # a removed leader reads again what it had not committed
            assert knows(lead, new), lead.tail()
            reasons = [line["reason"] for line in lead.logged("membership", what="REFUSED")]
            assert any("has restarted and may run another version" in reason for reason in reasons), reasons
        assert app.timeline().overlaps() == []
        assert failures(app) == []


def knows(lead: Bellwether, app: Application) -> bool:
    """Whether the topology that it learned last is that of this version; whose the changelogs are may be open, where it
    makes no difference to any plan. A removed leader reports what it wrote down last, not what it has read since."""
    learned = [*lead.log("topology_learned"), *lead.log("topology_settled")]
    newest = max(learned, key=lambda line: str(line["timestamp"]))
    whole = replace(topology_of(app), source="learned")
    bare = tuple(replace(s, changelogs=()) for s in whole.subtopologies)
    still_open = replace(whole, subtopologies=bare, undecided=whole.changelogs)
    return newest["digest"] in (whole.digest, still_open.digest)


def test_a_topic_that_a_pattern_finds_is_read_too(kafka: KafkaCluster, tmp_path: Path) -> None:
    first = application(kafka, "versions-pattern", pattern="versions-pattern-in.*")
    added = f"{first.topics[0]}-of-another-country"
    with (
        led(kafka, first, tmp_path) as lead,
        StreamsApp(kafka, first) as app,
        Load(kafka, first.topics[0], keys=200) as load,
        Load(kafka, added, keys=50, prefix="another") as another,
        sending(lead, app),
    ):
        load.produce(1_000)
        app.add("one")
        app.add("two")
        app.wait_settled(spread=1)
        load.start(100)
        kafka.create_topic(added, PARTITIONS)
        another.produce(1_000)
        load.stop()
        app.wait_counted(load.expected + another.expected)
        assert strangers(kafka, first.application_id) == []
        assert app.timeline().overlaps() == []
        assert failures(app) == []
