"""Groups whose topology is learned or read, and the brokers that show them."""

from typing import Any

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Topology
from bellwether_kafka.coordinator.topology import Learned, TopologyKeeper
from tests.kit.streams import SHOP, SHOP_COUNTS, A, B, Thread, group, led


def shown() -> tuple[AssignedMember, ...]:
    """The group as DescribeGroups shows it after it has settled."""
    first = led(group(A, B))
    threads = [A.after(first), B.after(first)]
    blobs = dict(led(group(*threads, generation=2), memory=first.plan.memory).assignments)
    return tuple(AssignedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads)


def keeper(given: Topology | None = None, admin: Any = None, **more: Any) -> TopologyKeeper:
    async def learner(application_id: str, members: Any, *_: object) -> Learned:
        return Learned.of(application_id, members, SHOP_COUNTS)

    return TopologyKeeper("shop", given, admin, None, learn=learner, **more)  # type: ignore[arg-type]  # nothing else is asked here


def live(
    topology: Topology = SHOP,
    counts: dict[str, int] = SHOP_COUNTS,
    standbys: int = 0,
    *,
    joined: bool = True,
    stateful: tuple[int, ...] = (1,),
) -> list[AssignedMember]:
    """Two members of a Stable group, as a Java leader would have left them."""
    threads = tuple(Thread(m, p, topology.source_topics) for m, p in (("a", 1), ("b", 2)))
    configs = AssignmentConfigs(num_standby_replicas=standbys)
    first = led(group(*threads), topology=topology, counts=counts, configs=configs)
    if joined:
        threads = tuple(t.after(first, stateful) for t in threads)
    second = led(group(*threads, generation=2), topology=topology, counts=counts, configs=configs)
    blobs = dict(second.assignments)
    return [AssignedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads]
