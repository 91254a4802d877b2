"""Small worlds for assignor tests: groups, readable plans, and clusters with the racks that other clients' tests
use."""

from collections.abc import Mapping, Sequence

import numpy as np

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray, MemberView
from bellwether_kafka.protocol.primitives import TopicPartition


def cluster_of(counts: Mapping[str, int], replicas: int = 1, racks: Sequence[str | None] = (None,)) -> ClusterView:
    """One broker per rack; replica j of the partition with running number i is on broker (i + j) mod brokers."""
    start = 0
    layout: dict[str, list[list[str | None]]] = {}
    for topic, count in counts.items():
        layout[topic] = [[racks[(i + j + start) % len(racks)] for j in range(replicas)] for i in range(count)]
        start += count
    return ClusterView.of(layout)


def members_of(topics: Sequence[Sequence[str]], racks: Sequence[str | None] | None = None) -> list[MemberView]:
    """Dynamic members consumer1, consumer2, ... in this order."""
    rack = racks or [None] * len(topics)
    return [MemberView(f"consumer{i + 1}", None, tuple(t), rack[i]) for i, t in enumerate(topics)]


def racked() -> tuple[GroupView, ClusterView]:
    """Two lists of topics over three racks, one replica each."""
    cluster = cluster_of({"t": 9, "u": 6}, racks=("a", "b", "c"))
    return GroupView.of(cluster, members_of([["t", "u"], ["t"], ["t", "u"], ["u"]], ["a", "b", "c", "b"])), cluster


def plan_of(group: GroupView, cluster: ClusterView, owner: IntArray) -> dict[str, str]:
    """Member id -> "t1-0 t1-1 ..."."""
    names = [f"{topic}-{p}" for topic, n in zip(cluster.topics, cluster.counts, strict=True) for p in range(n)]
    return {
        member.member_id: " ".join(names[f] for f in np.flatnonzero(owner == m))
        for m, member in enumerate(group.members)
    }


def claimed_by(group: GroupView, member: int) -> IntArray:
    """The flat partitions that a member claims."""
    return group.claims[group.claims_first[member] : group.claims_first[member + 1]]


def rack_mismatches(group: GroupView, cluster: ClusterView, owner: IntArray) -> int:
    """Partitions whose owner has a rack in which no replica is, counted one by one."""
    count = 0
    for flat, m in enumerate(owner.tolist()):
        if m < 0 or group.members[m].rack is None:
            continue
        replica_racks = {
            rack for r, rack in enumerate(cluster.racks) if cluster.signature_racks[cluster.signature[flat], r]
        }
        count += group.members[m].rack not in replica_racks
    return count


def tps(topic: str, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for p in partitions]


KAFKA = Policy("kafka")
T6 = cluster_of({"t": 6})
