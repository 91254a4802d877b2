"""An unmodified Kafka Streams application led by `bellwether run`: from empty brokers, through growth and crashes, till
every record is counted. Who runs what is asked from the instances; who led, from the brokers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignors.streams.model import Subtopology
from assignors.streams.topology import InternalTopic, Topology
from coordinator.topology import write_topology
from tests.interop.bellwether import INSTANCE, Bellwether
from tests.interop.brokers import KafkaCluster
from tests.interop.rounds import Round, rounds
from tests.interop.streams_app import Application, StreamsApp
from tests.interop.streams_load import Load

PARTITIONS = 4
LIFE_S = 280
RACKS = ("az1", "az2", "az3")
WINDOWED = (("cleanup.policy", "compact,delete"), ("retention.ms", "90000000"))

pytestmark = pytest.mark.timeout(LIFE_S + 60)


def application(cluster: KafkaCluster, name: str, **settings: Any) -> Application:
    cluster.create_topic(f"{name}-in", PARTITIONS)
    cluster.create_topic(f"{name}-out", 1)
    common = Application(name, (f"{name}-in",), f"{name}-out", PARTITIONS, acceptable_recovery_lag=100)
    return replace(common, **settings)


def topology_of(app: Application) -> Topology:
    """What the application's developers would write down: its subtopologies and how its stores are kept."""
    parts = []
    for number, sources in app.sources.items():
        repartition = sources if number else ()
        sinks = () if number else tuple(t for n, topics in app.sources.items() if n for t in topics)
        parts.append(Subtopology(number, sources, repartition, sinks, app.changelogs.get(number, ())))
    stores = [t for topics in app.changelogs.values() for t in topics]
    return Topology(
        app.application_id,
        tuple(parts),
        "file",
        internal_topics=tuple(InternalTopic(t, configs=WINDOWED if "windowed" in t else ()) for t in stores),
    )


@contextmanager
def led(cluster: KafkaCluster, app: Application, folder: Path, **options: Any) -> Iterator[Bellwether]:
    """Bellwether as the first member of the application's group."""
    file = folder / f"{app.application_id}.yaml"
    file.write_text(write_topology(topology_of(app)))
    told = {
        "kind": "streams",
        "topology": str(file),
        "topology_attested": True,
        "session_timeout_ms": 6_000,
        "processing.guarantee": app.guarantee,
        "acceptable.recovery.lag": app.acceptable_recovery_lag,
        "max.warmup.replicas": app.warmups,
        "num.standby.replicas": app.standbys,
        "probing.rebalance.interval.ms": app.probing_interval_ms,
        "rack.aware.assignment.strategy": app.rack_strategy,
        **options,
    }
    with Bellwether(cluster, [app.application_id], options=told) as process:
        yield process


def strangers(cluster: KafkaCluster, group: str) -> list[Round]:
    """The rounds of a group that somebody else led."""
    return [r for r in rounds(cluster, group) if not r.leader.startswith(INSTANCE)]


@contextmanager
def telling(lead: Bellwether, app: StreamsApp) -> Iterator[None]:
    """What Bellwether and the instances said, with whatever fails inside."""
    try:
        yield
    except AssertionError as error:
        said = lead.said_of(app.application.application_id, 60)
        raise AssertionError(f"{error}\nbellwether:\n{said}\ninstances:\n{app.tell()}") from error


def test_an_application_is_led_from_empty_brokers_through_growth(kafka: KafkaCluster, tmp_path: Path) -> None:
    common = application(kafka, "lead-streams-grow", standbys=1)
    with (
        led(kafka, common, tmp_path) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=500) as load,
        telling(lead, app),
    ):
        load.produce(20_000)
        for name, rack in (("one", "az1"), ("two", "az2")):
            app.add(name, rack)
        app.wait_settled(spread=1)
        load.start(200)
        app.add("three", "az3")
        app.wait_settled(spread=1, limit_s=150)
        load.stop()
        app.wait_counted(load.expected)
        assert app.timeline().overlaps() == []
        assert strangers(kafka, common.application_id) == []
        assert not [error for instance in app.instances.values() for error in instance.errors]
