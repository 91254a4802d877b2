"""Simulates a change to a group, and the rebalances until the group is stable again. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan
from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, IntArray, Memory, RawGroup, RawMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition

REBALANCES_MAX = 20


def changed(raw: RawGroup, cluster: ClusterView, change: shared.Change) -> tuple[RawGroup, ClusterView]:
    """Returns the group and the cluster after the change. Raises WhatIfError."""
    subscriptions = {member.member_id: _read(member) for member in raw.others}
    for name in change.without_members:
        if name not in subscriptions:
            raise shared.WhatIfError(
                f"The group has no member {name}; its members are {', '.join(sorted(subscriptions))}."
            )
    sent = [read.rack_id if read else None for read in subscriptions.values()]
    racks = dict(zip(subscriptions, shared.racks_of(raw.others, sent)[0], strict=True))
    for rack in change.without_racks:
        if rack not in racks.values():
            racks_in_use = ", ".join(sorted({r for r in racks.values() if r})) or "none"
            raise shared.WhatIfError(f"No member of the group is in rack {rack}; their racks are {racks_in_use}.")
    gone = {name for name, rack in racks.items() if name in change.without_members or rack in change.without_racks}
    left = tuple(member for member in raw.members if member.member_id not in gone)
    if change.new_members:
        left += _copies(raw, left, change.new_members)
    if all(member.member_id in raw.own_member_ids for member in left):
        raise shared.WhatIfError("Nobody would be left in the group.")
    return replace(raw, members=left, resting=False), _grown(cluster, change.topics)


def rebalances(
    raw: RawGroup, cluster: ClusterView, memory: Memory, policy: Policy, now_ms: int
) -> tuple[Decision[PartitionPlan], ...]:
    """Returns decisions until nothing is pending and nothing moves; the first is the immediate effect of the change.
    `memory` is that of the generation before the change. Raises WhatIfError."""
    made: list[Decision[PartitionPlan]] = []
    while len(made) < REBALANCES_MAX:
        joined = _claiming(raw, memory) if policy.cooperative(raw.protocol) else raw
        decision = decide(replace(joined, generation=memory.generation + 1), cluster, memory, policy, now_ms)
        if isinstance(decision, shared.Refusal):
            raise shared.WhatIfError(f"It could not be led then: {decision.reason}.")
        if made and not decision.moves.moved and not decision.moves.new and not decision.followup:
            break
        made.append(decision)
        memory = decision.plan.memory
    return tuple(made)


def _claiming(raw: RawGroup, memory: Memory) -> RawGroup:
    """Returns the members as they would rejoin: with claims to what they were last sent."""
    names = [memory.cluster.name(flat) for flat in range(memory.cluster.partition_total)]
    owned: dict[str, list[TopicPartition]] = {member.key: [] for member in memory.members}
    for flat, owner in enumerate(memory.owner.tolist()):
        if owner != NOBODY:
            owned[memory.members[owner].key].append(names[flat])
    return replace(raw, members=tuple(_with_claims(m, owned.get(m.key, []), memory.generation) for m in raw.members))


def _with_claims(member: RawMember, owned: Sequence[TopicPartition], generation: int) -> RawMember:
    subscription = _read(member)
    if subscription is None:
        return member
    version = max(subscription.version, 2)  # the first version that has a generation with the claims
    subscription = replace(subscription, version=version, owned_partitions=tuple(owned), generation_id=generation)
    return replace(member, metadata=subscription.encode())


def _read(member: RawMember) -> ConsumerProtocolSubscription | None:
    try:
        return ConsumerProtocolSubscription.decode(member.metadata)
    except RemoteProtocolError:
        return None


def _copies(raw: RawGroup, left: tuple[RawMember, ...], racks: tuple[str, ...]) -> tuple[RawMember, ...]:
    models = (_read(member) for member in left if member.member_id not in raw.own_member_ids)
    model = next(filter(None, models), None)
    if model is None:
        raise shared.WhatIfError("No member's subscription can be read, so new members cannot be made after its model.")
    fresh = replace(model, version=3, owned_partitions=(), user_data=None, generation_id=-1)
    blobs = [replace(fresh, rack_id=rack or None).encode() for rack in racks]
    return tuple(RawMember(f"new-{i}", None, blob) for i, blob in enumerate(blobs, 1))


def _grown(cluster: ClusterView, topics: Mapping[str, int]) -> ClusterView:
    """Adds partitions. They get the replica racks of existing ones in turn, as Kafka spreads them."""
    if not topics:
        return cluster
    for name, total in topics.items():
        if name not in cluster.index:
            topics_in_use = ", ".join(cluster.topics)
            raise shared.WhatIfError(f"No member subscribes to a topic {name}; known are {topics_in_use}.")
        if total < (present := cluster.counts[cluster.index[name]]):
            raise shared.WhatIfError(f"Topic {name} has {present} partitions; Kafka removes none.")
    counts = np.array([topics.get(t, int(c)) for t, c in zip(cluster.topics, cluster.counts, strict=True)], np.int32)
    return replace(
        cluster,
        counts=counts,
        first=shared.offsets(counts),
        signature=_stretched(cluster, cluster.signature, counts),
        leader_rack=_stretched(cluster, cluster.leader_rack, counts),
    )


def _stretched(cluster: ClusterView, values: IntArray, counts: IntArray) -> IntArray:
    parts = np.split(values, cluster.first[1:-1])
    return np.concatenate([np.resize(*grown) for grown in zip(parts, counts, strict=True)]).astype(np.int32)
