"""Tasks of one application by the `sticky` assignor of a 4.4 broker and by Bellwether's plans: racks and moves.

`pytest -m proof -s` prints the table.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import BROKER_44, MissingToolError, java
from tests.interop.support.scenes.served import address_in
from tests.interop.support.scenes.served_tasks import (
    GROUP,
    OWN,
    PARTITIONS,
    RACKS,
    asking_cluster,
    counting_application,
    in_one_rack,
    settled,
)
from tests.interop.support.streams_app import StreamsApp

MIN_TRAFFIC = {"mode": "observe", "kind": "streams", "rack.aware.assignment.strategy": "min_traffic"}


@dataclass(frozen=True, slots=True)
class Placed:
    """A settled assignment: tasks whose standby is in their own rack, tasks that read from a leader in another rack,
    and tasks that have moved although their owner stayed."""

    after: str
    standbys_in_rack: int
    across_racks: int
    moved: int


def leader_racks(broker: KafkaCluster, topics: Sequence[str]) -> Mapping[tuple[str, int], str]:
    metadata = broker.admin.list_topics(timeout=10).topics
    return {(name, p): RACKS[part.leader - 1] for name in topics for p, part in metadata[name].partitions.items()}


def placed(
    after: str, app: StreamsApp, broker: KafkaCluster, before: Mapping[str, str]
) -> tuple[Placed, dict[str, str]]:
    owners, sources = settled(app), app.application.sources
    led = leader_racks(broker, [topic for topics in sources.values() for topic in topics])
    rack_of = {instance.name: instance.rack for instance in app.live}
    across = 0
    for task, owner in owners.items():
        subtopology, partition = map(int, task.split("_"))
        across += any(led[topic, partition] != rack_of[owner] for topic in sources[subtopology])
    stayed = {task: owner for task, owner in before.items() if owner in rack_of}
    moved = sum(owners[task] != owner for task, owner in stayed.items())
    return Placed(after, len(in_one_rack(app)), across, moved), owners


def placements(assignors: Sequence[str]) -> list[Placed]:
    """Starts five instances in three racks, stops one and starts it again. Each record is counted once in the end."""
    with (
        tempfile.TemporaryDirectory(prefix="bellwether-assignor-") as name,
        asking_cluster(Path(name), nodes=3, assignors=assignors) as broker,
    ):
        broker.create_topic(f"{GROUP}-in", assignment=[[1 + p % 3] for p in range(PARTITIONS)])
        broker.create_topic(f"{GROUP}-out", 1)
        bellwether = Bellwether(broker, [GROUP], options=MIN_TRAFFIC, assignor_address=address_in(Path(name)))
        with counting_application(broker, bellwether) as app:
            first, owners = placed("start", app, broker, {})
            bellwether.logged("group_observed", group=GROUP, members=5)
            app.instances["e"].stop()
            left, owners = placed("leave", app, broker, owners)
            app.start("e", settings={"client.rack": "az3"})
            joined, _ = placed("join", app, broker, owners)
        return [first, left, joined]


@pytest.mark.proof
@pytest.mark.broker
@pytest.mark.timeout(1_200)
def test_standbys_and_reads_cross_racks_as_they_should_where_the_broker_asks(request: pytest.FixtureRequest) -> None:
    try:
        java(BROKER_44)
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    sticky, own = placements(("sticky",)), placements((OWN, "sticky"))
    print(*(f"sticky {each}" for each in sticky), *(f"bellwether {each}" for each in own), sep="\n")
    assert [each.standbys_in_rack for each in own] == [0, 0, 0]
    assert own[-1].across_racks <= sticky[-1].across_racks
