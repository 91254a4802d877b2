"""A Streams application whose 4.4 broker asks Bellwether, by `group.protocol=streams`, with the assignor on its class
path."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import BROKER_44, MissingToolError, java
from tests.interop.support.members import wait_until
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.patience import PATIENCE

GROUP, PARTITIONS = "served-tasks", 6
RACKS = ("az1", "az2", "az3")
SETTLE_S = 120.0
PROBED_S = 3.0
QUIET_S = 8.0  # an assignment follows a heartbeat, and these come every second

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bellwether-assignor-") as name:
        yield Path(name)


@pytest.fixture
def broker(request: pytest.FixtureRequest, folder: Path) -> Iterator[KafkaCluster]:
    try:
        java(BROKER_44)
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    properties = {
        "group.streams.assignors": "bellwether.broker.BellwetherTaskAssignor,sticky",  # the first one is the default
        "group.streams.num.standby.replicas": "1",
        "bellwether.assignor.address": f"unix:{folder / 'assignor.sock'}",
        "bellwether.assignor.tasks.deadline.ms": "1000",  # of a busy machine
        "group.streams.heartbeat.interval.ms": "1000",
        "group.streams.min.heartbeat.interval.ms": "1000",
        "group.streams.session.timeout.ms": "10000",
        "group.streams.min.session.timeout.ms": "10000",
    }
    with KafkaCluster(nodes=1, racks=RACKS[:1], properties=properties, release=BROKER_44) as cluster:
        cluster.create_topic(f"{GROUP}-in", PARTITIONS)
        cluster.create_topic(f"{GROUP}-out", 1)
        yield cluster


def application() -> Application:
    return Application(
        application_id=GROUP,
        topics=(f"{GROUP}-in",),
        output=f"{GROUP}-out",
        partitions=PARTITIONS,
        settings={"group.protocol": "streams", "app.leave": "true"},
        release=BROKER_44,
    )


def settled(app: StreamsApp) -> dict[str, str]:
    """Waits until each task runs once and each with state has its standby; returns the owners."""
    stateful = [task for task in app.application.tasks if int(task.split("_")[0]) in app.application.changelogs]

    def complete() -> bool:
        standbys = sorted(task for instance in app.live for task in instance.standbys)
        quiet = all(instance.quiet_s > QUIET_S for instance in app.live)
        return quiet and app.complete() and standbys == sorted(stateful)

    wait_until(complete, SETTLE_S, lambda: str({i.name: (i.running, i.standbys) for i in app.live}) + str(app.send()))
    return app.owners()


def in_one_rack(app: StreamsApp) -> list[str]:
    """The tasks whose standby is in the rack in which they run."""
    rack_of = {task: instance.rack for instance in app.live for task in instance.running}
    return [task for instance in app.live for task in instance.standbys if rack_of[task] == instance.rack]


def started(bellwether: Bellwether) -> None:
    """Waits until the broker, which probes twice a second, knows that it answers, and the group is observed."""
    before = len(bellwether.log("plans_for_brokers"))
    bellwether.start(wait=False)
    wait_until(lambda: len(bellwether.log("plans_for_brokers")) > before, SETTLE_S, bellwether.tail)
    time.sleep(PROBED_S * PATIENCE)


def test_a_broker_places_tasks_by_rack_while_bellwether_answers_and_keeps_them_while_it_does_not(
    broker: KafkaCluster, folder: Path
) -> None:
    """Two instances in each of two racks and one in the third. Every record is counted once in the end."""
    address = f"unix:{folder / 'assignor.sock'}"
    bellwether = Bellwether(broker, [GROUP], options={"mode": "observe"}, assignor_address=address)
    with (
        StreamsApp(broker, application()) as app,
        Load(broker, f"{GROUP}-in", keys=120) as load,
        ExitStack() as ends,
    ):
        ends.push(bellwether)
        started(bellwether)
        load.produce(1_200)
        load.start(100)
        for name, rack in (("a", "az1"), ("b", "az1"), ("c", "az2"), ("d", "az2"), ("e", "az3")):
            app.add(name, rack, {"client.rack": rack})  # consumer.client.rack is not sent in this protocol
        owners = settled(app)
        assert in_one_rack(app) == [], bellwether.tail()
        assert {list(owners.values()).count(name) for name in "abcde"} <= {3, 4}
        plans = bellwether.log("plan_served")
        assert (plans[-1]["policy"], plans[-1]["assignor"]) == ("streams-ha", "bellwether")

        bellwether.kill()
        standbys = {task: instance.name for instance in app.live for task in instance.standbys}
        app.instances["e"].stop()
        kept = settled(app)
        assert {task: kept[task] for task, owner in owners.items() if owner != "e"} == {
            task: owner for task, owner in owners.items() if owner != "e"
        }, "what runs elsewhere stays"
        lost = [task for task, owner in owners.items() if owner == "e" and task in standbys]
        assert lost
        assert {task: kept[task] for task in lost} == {task: standbys[task] for task in lost}, "where the copies are"
        assert "no plan from Bellwether" in "".join(broker.logs(1_000_000).values())

        started(bellwether)
        bellwether.logged("group_observed", group=GROUP, members=4)
        app.start("e", settings={"client.rack": "az3"})
        owners = settled(app)
        assert "e" in owners.values(), bellwether.tail()
        assert in_one_rack(app) == [], bellwether.tail()
        plan = bellwether.log("plan_served")[-1]
        assert (plan["group"], f"{GROUP}-in" in plan["topics"]) == (GROUP, True), plan
        print(f"plans took {[plan['plan_ms'] for plan in bellwether.log('plan_served')]} ms")
        load.stop()
        app.wait_counted(load.expected, limit_s=SETTLE_S)
