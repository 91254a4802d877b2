"""A running group that is converted to the protocol in which its broker assigns, and back, while records arrive."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT_WITH_APPLICATIONS
from tests.interop.support.jvm import BROKER_44, MissingToolError, java
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.scenes.conversions import PROPERTIES, SETTLE_S, ConvertibleGroup, RecordSource, watched
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, StreamsApp
from tests.interop.support.streams_led import application, led, sending, until_app_is_led
from tests.interop.support.streams_load import Load

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
INSTANCES = ("a", "b")
# As by default, so that Bellwether recognises the process of a restarted instance, and that a stopped one has led.
BY_DEFAULT = {**DEFAULT_CLIENT_ID, "app.leave": "false"}
RESTARTS_MAX = 3
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


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_an_application_is_converted_while_it_is_down_and_back(
    request: pytest.FixtureRequest, tmp_path: Path, guarantee: str
) -> None:
    """By the steps of `convert`. No record is lost, under exactly_once_v2 none is counted twice, and Bellwether leads
    the application again on the way back. How many tasks move depends on the order in which its instances are back."""
    try:
        java(BROKER_44)
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    with KafkaCluster(nodes=1, racks=("az1",), properties=STREAMS_PROPERTIES, release=BROKER_44) as cluster:
        name = f"converted-{guarantee.replace('_', '-')}"
        settings = {"app.leave": "true", "producer.transaction.timeout.ms": "60000"}  # 10 s end on a busy machine
        app = application(
            cluster, name, release=BROKER_44, settings=settings, guarantee=guarantee, session_timeout_ms=30_000
        )
        options = {"stores": "persistent", **PATIENT_WITH_APPLICATIONS}
        with (
            led(cluster, app, tmp_path, **options) as lead,
            StreamsApp(cluster, app) as instances,
            Load(cluster, app.topics[0], keys=120) as load,
            sending(lead, instances),
        ):
            load.produce(1_000)
            for each in INSTANCES:
                instances.add(each)
            instances.wait_settled(spread=1)
            wait_until(lambda: lead.is_member(app.application_id), SETTLE_S, lead.tail)
            load.start(100)
            convert(cluster, instances, "streams", ["release", app.application_id, "--bootstrap", cluster.bootstrap])
            convert(cluster, instances, "classic")
            if guarantee == "exactly_once_v2":
                restart_until_led(lead, instances)
            else:  # generations began again with each conversion, so the last rebalance is not known by its number
                until_app_is_led(cluster, instances, lead, SETTLE_S, lambda: lead.is_member(app.application_id))
            load.stop()
            instances.wait_counted(load.expected, exactly_once=guarantee == "exactly_once_v2")


def convert(cluster: KafkaCluster, instances: StreamsApp, to: str, *between: list[str]) -> None:
    """Stops all instances, gives these orders and starts the instances with the protocol, followed by the watch."""
    with watched(cluster, instances.application.application_id, *(["--back"] if to == "classic" else [])) as lines:
        for instance in instances.live:
            assert instance.stop() == 0
        for order in between:
            ended = run_to_end(order)
            assert ended.code == 0, ended.text
        for name in INSTANCES:
            instances.start(name, settings={"group.protocol": to} | (BY_DEFAULT if to == "classic" else {}))
        instances.wait_settled()
    last = json.loads(lines[-1])
    assert (last["protocol"], last["settled"], last["placement"]["unowned"]) == (to, True, 0)


def restart_until_led(lead: Bellwether, instances: StreamsApp) -> None:
    """Restarts one instance after another until Bellwether leads: one in sixteen member ids is in its way. Raises
    AssertionError if it does not lead in the end."""
    for name in INSTANCES * RESTARTS_MAX:
        assert instances.instances[name].stop() == 0
        instances.start(name, settings={"group.protocol": "classic"} | BY_DEFAULT)
        instances.wait_settled()
        if lead.is_member(instances.application.application_id):
            return
    raise AssertionError("a member leads still")
