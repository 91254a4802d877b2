"""A group that its brokers assign by Bellwether's plans: members in three racks, and partitions with one replica."""

import time
from collections.abc import Sequence
from pathlib import Path

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import CURRENT, Release
from tests.interop.support.members import QUIET_S, Flock, Member, partitions_of, wait_until
from tests.patience import PATIENCE

TOPIC, PARTITIONS = "served", 30
RACKS = ("az1", "az2", "az3")
OWN = ("BellwetherAssignor", "RackFirstAssignor", "LoadAwareAssignor")
ASSIGNORS = ",".join(("uniform", *(f"bellwether.broker.{name}" for name in OWN)))
SETTLE_S = 60.0
PROBED_S = 3.0
JOINED_S = 3.0  # the broker joins changes for a second, and a heartbeat comes every second


def address_in(folder: Path) -> str:
    return f"unix:{folder / 'assignor.sock'}"


def asking_cluster(
    folder: Path,
    *,
    release: Release = CURRENT,
    deadline_ms: int = 500,  # of a busy machine; how fast plans come is measured elsewhere
    session_ms: int = 45_000,
    options: Sequence[str] = (),
) -> KafkaCluster:
    """Brokers that ask the Bellwether whose socket is in this folder."""
    properties = {
        "group.consumer.assignors": ASSIGNORS,
        "bellwether.assignor.address": address_in(folder),
        "bellwether.assignor.deadline.ms": str(deadline_ms),
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.min.session.timeout.ms": str(session_ms),
    }
    return KafkaCluster(properties=properties, release=release, options=options)


def create_topic(cluster: KafkaCluster, partitions: int = PARTITIONS) -> None:
    cluster.create_topic(TOPIC, assignment=[[1 + p % 3] for p in range(partitions)])


def joined(
    flock: Flock,
    group: str,
    assignor: str,
    rack: str,
    *,
    kind: str = "java",
    own_process: bool = False,
    topic: str = TOPIC,
) -> Member:
    more = {"property.group.remote.assignor": assignor}
    return flock.member(kind, group, [topic], [], protocol="consumer", rack=rack, more=more, own_process=own_process)


def settled(members: Sequence[Member], partitions: int = PARTITIONS, limit_s: float = SETTLE_S) -> None:
    """Waits until these members have every partition once, for a while."""

    def complete() -> bool:
        return whole(members, partitions) and all(member.quiet_s > JOINED_S + QUIET_S for member in members)

    wait_until(complete, limit_s, lambda: str({member.name: sorted(member.owned()) for member in members}))


def whole(members: Sequence[Member], partitions: int) -> bool:
    """Whether these members have every partition once."""
    owned = [partition for member in members for partition in member.owned()]
    return len(owned) == partitions and set(owned) == partitions_of({TOPIC: partitions})


def crossing(members: Sequence[Member]) -> int:
    return sum(RACKS[p % 3] != member.fields["rack"] for member in members for _, p in member.owned())


def started(bellwether: Bellwether) -> None:
    """Waits until brokers, which probe twice a second, know that it answers."""
    before = len(bellwether.log("plans_for_brokers"))
    bellwether.start(wait=False)
    wait_until(lambda: len(bellwether.log("plans_for_brokers")) > before, SETTLE_S, bellwether.tail)
    time.sleep(PROBED_S * PATIENCE)


def begun_for_orders(bellwether: Bellwether) -> int:
    """How many rebalances were begun for an order; not those for a plan that came late on a busy machine."""
    return sum("has ordered" in entry["cause"] for entry in bellwether.log("rebalance_begun"))


def settled_with_shares(members: Sequence[Member]) -> None:
    wait_until(lambda: all(member.owned() for member in members), SETTLE_S, lambda: str(members))
    settled(members)
