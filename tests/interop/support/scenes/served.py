"""A group that its brokers assign by Bellwether's plans: members in three racks, and partitions with one replica."""

import time
from collections.abc import Sequence
from pathlib import Path

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import QUIET_S, Flock, Member, partitions_of, wait_until
from tests.patience import PATIENCE

TOPIC, PARTITIONS = "served", 30
RACKS = ("az1", "az2", "az3")
ASSIGNORS = "uniform,bellwether.broker.BellwetherAssignor,bellwether.broker.RackFirstAssignor"
SETTLE_S = 60.0
PROBED_S = 3.0
JOINED_S = 3.0  # the broker joins changes for a second, and a heartbeat comes every second


def address_in(folder: Path) -> str:
    return f"unix:{folder / 'assignor.sock'}"


def asking_cluster(folder: Path) -> KafkaCluster:
    """Brokers that ask the Bellwether whose socket is in this folder."""
    properties = {
        "group.consumer.assignors": ASSIGNORS,
        "bellwether.assignor.address": address_in(folder),
        "bellwether.assignor.deadline.ms": "500",  # of a busy machine; how fast plans come is measured elsewhere
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    return KafkaCluster(properties=properties)


def create_topic(cluster: KafkaCluster) -> None:
    cluster.create_topic(TOPIC, assignment=[[1 + p % 3] for p in range(PARTITIONS)])


def joined(flock: Flock, group: str, assignor: str, rack: str) -> Member:
    more = {"property.group.remote.assignor": assignor}
    return flock.member("java", group, [TOPIC], [], protocol="consumer", rack=rack, more=more)


def settled(members: Sequence[Member]) -> None:
    """Waits until these members have every partition once, for a while."""

    def complete() -> bool:
        owned = [partition for member in members for partition in member.owned()]
        whole = len(owned) == PARTITIONS and set(owned) == partitions_of({TOPIC: PARTITIONS})
        return whole and all(member.quiet_s > JOINED_S + QUIET_S for member in members)

    wait_until(complete, SETTLE_S, lambda: str({member.name: sorted(member.owned()) for member in members}))


def crossing(members: Sequence[Member]) -> int:
    return sum(RACKS[p % 3] != member.fields["rack"] for member in members for _, p in member.owned())


def started(bellwether: Bellwether) -> None:
    """Waits until brokers, which probe twice a second, know that it answers."""
    before = len(bellwether.log("plans_for_brokers"))
    bellwether.start(wait=False)
    wait_until(lambda: len(bellwether.log("plans_for_brokers")) > before, SETTLE_S, bellwether.tail)
    time.sleep(PROBED_S * PATIENCE)


def settled_with_shares(members: Sequence[Member]) -> None:
    wait_until(lambda: all(member.owned() for member in members), SETTLE_S, lambda: str(members))
    settled(members)
