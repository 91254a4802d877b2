"""A running group that is converted to the protocol in which its broker assigns, and back, while records arrive."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.bellwether import run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT_WITH_APPLICATIONS
from tests.interop.support.jvm import BROKER_44, MissingToolError, java
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.scenes.conversions import PROPERTIES, SETTLE_S, ConvertibleGroup, RecordSource, watched
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, led, sending, until_app_is_led
from tests.interop.support.streams_load import Load

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
STREAMS_PROPERTIES = {
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    with KafkaCluster(properties=PROPERTIES) as cluster:
        yield cluster


@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_the_watch_shows_what_members_have_and_no_record_is_lost(brokers: KafkaCluster, way: str) -> None:
    """Static members keep their partitions, as `convert` predicts."""
    with Flock(brokers.bootstrap) as flock:
        group = ConvertibleGroup(brokers, flock, f"convert-{way}", "java", way)
        with RecordSource(brokers, [group.name]) as source:
            there, back = group.convert("consumer"), group.convert("classic")
            source.stop()
        assert not [*there.differences, *back.differences]
        assert (there.last["protocol"], back.last["protocol"]) == ("consumer", "classic")
        assert there.last["members"] == {"consumer": 3}
        if way == "static":
            assert there.last["placement"] == there.last["predicted"]
        consumed = group.consumption(source.ends(group.name))
        assert consumed.records > 0
        assert (consumed.lost, consumed.backwards, consumed.uncommitted) == (0, 0, 0), consumed


def test_an_application_is_converted_while_it_is_down_and_back(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """By the steps of `convert`. No record is lost, and Bellwether leads it again on the way back. How many tasks move
    depends on the order in which its instances are back."""
    try:
        java(BROKER_44)
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    with KafkaCluster(nodes=1, racks=("az1",), properties=STREAMS_PROPERTIES, release=BROKER_44) as cluster:
        app = application(cluster, "converted-tasks", release=BROKER_44, settings={"app.leave": "true"})
        options = {"stores": "persistent", **PATIENT_WITH_APPLICATIONS}
        with (
            led(cluster, app, tmp_path, **options) as lead,
            StreamsApp(cluster, app) as instances,
            Load(cluster, app.topics[0], keys=120) as load,
            sending(lead, instances),
        ):
            load.produce(1_000)
            for name in ("a", "b"):
                instances.add(name)
            instances.wait_settled(spread=1)
            wait_until(lambda: lead.is_member(app.application_id), SETTLE_S, lead.tail)
            load.start(100)
            for to in ("streams", "classic"):
                back = ["--back"] if to == "classic" else []
                with watched(cluster, app.application_id, *back) as lines:
                    for instance in instances.live:
                        assert instance.stop() == 0
                    released = run_to_end(["release", app.application_id, "--bootstrap", cluster.bootstrap])
                    assert released.code == 0, released.text
                    for name in ("a", "b"):
                        instances.start(name, settings={"group.protocol": to})
                    instances.wait_settled()
                last = json.loads(lines[-1])
                assert (last["protocol"], last["settled"], last["placement"]["unowned"]) == (to, True, 0)
            # Generations began again with each conversion, so the last rebalance is not known by its number.
            until_app_is_led(cluster, instances, lead, SETTLE_S, lambda: lead.is_member(app.application_id))
            load.stop()
            instances.wait_counted(load.expected, exactly_once=False)
