"""What a Streams application under measurement needs: its topics in racks, and who leads its group."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka.admin import NewTopic

from tests.interop.support.bellwether import INSTANCE, Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application, describe

POLICY = "streams-ha"
SAME_NUMBERS = (
    "acceptable.recovery.lag",
    "max.warmup.replicas",
    "num.standby.replicas",
    "probing.rebalance.interval.ms",
)
RACKS = ("az1", "az2", "az3")
PLAIN: Mapping[str, str] = {}
COMPACTED = {"cleanup.policy": "compact"}
WINDOWED = {"cleanup.policy": "compact,delete", "retention.ms": "90000000"}
REPARTITIONED = {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}


def create_topics(cluster: KafkaCluster, application: Application) -> None:
    """All topics of an application, internal ones with Streams' own configurations. Partitions take turns on nodes."""
    placement = [[p % cluster.nodes + 1] for p in range(application.partitions)]
    configs = dict.fromkeys((*application.topics, application.output), PLAIN)
    for subtopology in application.changelogs:
        configs |= dict.fromkeys(application.sources[subtopology], REPARTITIONED)
        for changelog in application.changelogs[subtopology]:
            configs[changelog] = WINDOWED if "windowed" in changelog else COMPACTED
    count = application.partitions
    topics = [NewTopic(name, count, replica_assignment=placement, config=dict(c)) for name, c in configs.items()]
    for created in cluster.admin.create_topics(topics, operation_timeout=20).values():
        created.result(timeout=30)
    for name in configs:
        cluster.wait_for_topic(name, application.partitions)


def foreign_partitions(app: StreamsApp, owners: Mapping[str, str]) -> tuple[int, int]:
    """Source and changelog partitions of active tasks without a replica in their owner's rack, and their number."""
    cluster, application = app.cluster, app.application
    node_racks = {node.id: node.rack for node in cluster.admin.describe_cluster().result(timeout=10).nodes}
    topics = cluster.admin.list_topics(timeout=10).topics
    foreign = total = 0
    for task, owner in owners.items():
        subtopology, partition = (int(part) for part in task.split("_"))
        for topic in (*application.sources[subtopology], *application.changelogs.get(subtopology, ())):
            replicas = topics[topic].partitions[partition].replicas
            total += 1
            foreign += app.instances[owner].rack not in {node_racks[replica] for replica in replicas}
    return foreign, total


def write_topology(application: Application, directory: Path) -> Path:
    """The topology file of an application, made by Bellwether from what `Topology.describe()` prints."""
    text, file = directory / "describe.txt", directory / "topology.yaml"
    text.write_text(describe(application))
    made = run_to_end(["topology", "parse", str(text), "--application-id", application.application_id])
    assert made.code == 0, made.text
    file.write_text(made.stdout)
    return file


def bellwether_options(
    application: Application, topology: Path, policy: str = POLICY, *, ghosts: bool | None = None, leads: bool = True
) -> dict[str, Any]:
    """Bellwether's settings for the group of this application: the same values that the application itself has.

    `ghosts`: whether dead members are removed; then it states that each instance has a client id of its own. `leads`:
    settings that only a leader uses are among them.
    """
    session = {"session_timeout_ms": 6_000} if leads else {}
    attested = {} if ghosts is None else {"ghosts": ghosts, "client_ids_unique": ghosts}
    reported = application.arguments("", Path())
    return {
        "kind": "streams",
        "topology": str(topology),
        "topology_attested": True,
        "policy": policy,
        "processing.guarantee": application.guarantee,
        "stores": "persistent",
        **session,
        **{name: int(reported[name]) for name in SAME_NUMBERS},
        "rack.aware.assignment.strategy": application.rack_strategy,
        **attested,
    }


@contextmanager
def leading(cluster: KafkaCluster, application: Application) -> Iterator[Bellwether]:
    """Bellwether as the first member of the application's group while the block runs.

    An AssertionError inside is raised again with the end of Bellwether's log.
    """
    with TemporaryDirectory(prefix="bellwether-topology-") as directory:
        options = bellwether_options(application, write_topology(application, Path(directory)), ghosts=False)
        with Bellwether(cluster, [application.application_id], options=options) as process:
            try:
                yield process
            except AssertionError as error:
                raise AssertionError(
                    f"{error}\nbellwether: {process.log_of(application.application_id, 60)}"
                ) from error


def check_leader(cluster: KafkaCluster, group: str, leader: str) -> None:
    """Raises AssertionError when a completed rebalance of the group had another kind of leader."""
    led_by_bellwether = [rebalance.leader.startswith(INSTANCE) for rebalance in rebalances(cluster, group)]
    expected = leader != "java"
    assert led_by_bellwether, f"no rebalance of {group} was completed"
    assert all(own == expected for own in led_by_bellwether), (
        f"{group} was not always led by {leader}: {led_by_bellwether}"
    )
