"""What an observer of a group shows as its plan: from the bytes that describe the members, and metadata by name."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import consumer
from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, RawGroup, RawMember, Refusal
from bellwether_kafka.coordinator.kafka import MetadataRead
from bellwether_kafka.coordinator.kafka.metadata import cluster_view
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

GENERATION, PROTOCOL = 9, "cooperative-sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedOwner:
    """A member and what it has."""

    member_id: str
    rack: str | None
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]


def shown_plan(
    group: str,
    topics: Mapping[str, Sequence[str]],
    members: Sequence[ObservedOwner],
    policy: str,
    *,
    brokers: Sequence[str],
) -> dict[tuple[str, int], str]:
    """Returns the member that gets each partition. `topics` has the rack of each partition, `brokers` that of each
    broker; `members` are in the order of their ids."""
    cluster = _metadata_view(topics, brokers)
    described = []
    for member in members:
        subscription = ConsumerProtocolSubscription(3, member.topics, None, member.owned, 5, member.rack)
        assignment = ConsumerProtocolAssignment(partitions=member.owned)
        described.append(AssignedMember(member.member_id, None, subscription.encode(), assignment.encode()))
    memory = consumer.recall(GENERATION, PROTOCOL, cluster, described)
    joined = tuple(RawMember(member.member_id, None, member.metadata) for member in described)
    raw = RawGroup(group, GENERATION, PROTOCOL, joined, resting=True)
    decision = consumer.decide(raw, cluster, memory, consumer.policy(policy), 0, zlib.crc32(group.encode()))
    assert not isinstance(decision, Refusal), decision
    ids = decision.plan.group.members.ids
    return {
        (topic, partition): ids[decision.plan.owner[flat]]
        for topic in decision.cluster.topics
        for partition, flat in enumerate(decision.cluster.flats_of(topic).tolist())
    }


def _metadata_view(topics: Mapping[str, Sequence[str]], brokers: Sequence[str]) -> ClusterView:
    """As it is read from a cluster with a broker in each rack, which has read others before."""
    names = tuple(sorted(topics))
    return cluster_view(
        MetadataRead(
            topics=names,
            counts=np.array([len(topics[name]) for name in names], dtype=np.int32),
            codes=np.array([brokers.index(rack) for name in names for rack in topics[name]], dtype=np.int32),
            placements=[(broker, (broker,)) for broker in range(len(brokers))],
            racks=dict(enumerate(brokers)),
            online=frozenset(range(len(brokers))),
            read_at=0.0,
        )
    )
