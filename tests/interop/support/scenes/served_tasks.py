"""An application whose 4.4 broker asks Bellwether, by `group.protocol=streams`, with the assignor on its class path."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import BROKER_44
from tests.interop.support.members import wait_until
from tests.interop.support.scenes.served import address_in
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.patience import PATIENCE

GROUP, PARTITIONS = "served-tasks", 6
RACKS = ("az1", "az2", "az3")
RACK_OF = {"a": "az1", "b": "az1", "c": "az2", "d": "az2", "e": "az3"}
OWN = "bellwether.broker.BellwetherTaskAssignor"
SETTLE_S = 120.0
PROBED_S = 3.0
QUIET_S = 8.0  # an assignment follows a heartbeat, and these come every second


def asking_cluster(folder: Path, *, nodes: int = 1, assignors: Sequence[str] = (OWN, "sticky")) -> KafkaCluster:
    """Brokers that ask the Bellwether whose socket is in this folder. The first assignor is the default."""
    properties = {
        "group.streams.assignors": ",".join(assignors),
        "group.streams.num.standby.replicas": "1",
        "bellwether.assignor.address": address_in(folder),
        "bellwether.assignor.tasks.deadline.ms": "1000",  # of a busy machine
        "group.streams.heartbeat.interval.ms": "1000",
        "group.streams.min.heartbeat.interval.ms": "1000",
        "group.streams.session.timeout.ms": "10000",
        "group.streams.min.session.timeout.ms": "10000",
    }
    return KafkaCluster(nodes=nodes, racks=RACKS[:nodes], properties=properties, release=BROKER_44)


def create_topics(cluster: KafkaCluster) -> None:
    cluster.create_topic(f"{GROUP}-in", PARTITIONS)
    cluster.create_topic(f"{GROUP}-out", 1)


def application() -> Application:
    return Application(
        application_id=GROUP,
        topics=(f"{GROUP}-in",),
        output=f"{GROUP}-out",
        partitions=PARTITIONS,
        guarantee="exactly_once_v2",
        settings={"group.protocol": "streams", "app.leave": "true"},
        release=BROKER_44,
    )


@contextmanager
def counting_application(
    cluster: KafkaCluster,
    bellwether: Bellwether,
    described: Application | None = None,
    rack_of: Mapping[str, str] = RACK_OF,
) -> Iterator[StreamsApp]:
    """Instances in these racks, which count records that come all the time, while the broker asks this Bellwether. It
    must not run yet, and ends before they do. Each record is counted once in the end."""
    with (
        StreamsApp(cluster, described or application()) as app,
        Load(cluster, f"{GROUP}-in", keys=120) as load,
        ExitStack() as ends,
    ):
        ends.push(bellwether)
        started(bellwether)
        load.produce(1_200)
        load.start(100)
        for name, rack in rack_of.items():
            app.add(name, rack, {"client.rack": rack})  # consumer.client.rack is not sent in this protocol
        yield app
        load.stop()
        app.wait_counted(load.expected, limit_s=SETTLE_S)


def settled(app: StreamsApp) -> dict[str, str]:
    """Waits until each task runs once and each with state has its standby; returns the owners."""
    stateful = [task for task in app.application.tasks if int(task.split("_")[0]) in app.application.changelogs]

    def complete() -> bool:
        standbys = sorted(task for instance in app.live for task in instance.standbys)
        quiet = all(instance.quiet_s > QUIET_S for instance in app.live)
        return quiet and app.complete() and standbys == sorted(stateful)

    wait_until(complete, SETTLE_S, lambda: str({i.name: (i.running, i.standbys) for i in app.live}) + str(app.send()))
    return app.owners()


def started(bellwether: Bellwether) -> None:
    """Waits until the broker, which probes twice a second, knows that it answers, and the group is observed."""
    before = len(bellwether.log("plans_for_brokers"))
    bellwether.start(wait=False)
    wait_until(lambda: len(bellwether.log("plans_for_brokers")) > before, SETTLE_S, bellwether.tail)
    time.sleep(PROBED_S * PATIENCE)


def in_one_rack(app: StreamsApp) -> list[str]:
    """The tasks whose standby is in the rack in which they run."""
    rack_of = {task: instance.rack for instance in app.live for task in instance.running}
    return [task for instance in app.live for task in instance.standbys if rack_of[task] == instance.rack]
