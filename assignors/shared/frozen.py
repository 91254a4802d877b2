"""Freezes the assignment of topics whose metadata could not be read: such topics still exist
(docs/internals/reliability.md#duties-of-a-leader).

A refused or failed read (an ACL, a broker that is down) must never take a topic from its owners, and must never reduce
its known partition count.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared.arrays import offsets
from bellwether_kafka.assignors.shared.dense_views import NO_RACK, NOBODY, ClusterView, IntArray
from bellwether_kafka.assignors.shared.memory import Memory, translate
from bellwether_kafka.protocol.bulk import AssignmentColumns, ClaimColumns

# Claimed partition numbers from here on are ignored as malicious: no topic is that large.
MAX_CLAIMED_PARTITIONS = 100_000


def known_cluster(cluster: ClusterView, memory: Memory, claims: ClaimColumns) -> ClusterView:
    """Returns the cluster with each unreadable topic at the largest size known from the view, memory or claims."""
    if not cluster.unreadable:
        return cluster
    sizes = claimed_sizes(claims)
    remembered = dict(zip(memory.cluster.topics, memory.cluster.counts.tolist(), strict=True))
    return extended(cluster, {t: max(sizes.get(t, 0), remembered.get(t, 0)) for t in cluster.unreadable})


def claimed_sizes(claims: ClaimColumns | AssignmentColumns) -> dict[str, int]:
    """Returns, per topic, the partition count that plausible claims (or assignments) imply, as partition numbers have
    no gaps."""
    plausible = (claims.partition >= 0) & (claims.partition < MAX_CLAIMED_PARTITIONS)
    sizes = np.zeros(len(claims.topic_names), dtype=np.int64)
    np.maximum.at(sizes, claims.topic[plausible], claims.partition[plausible] + 1)
    return dict(zip(claims.topic_names, sizes.tolist(), strict=True))


def extended(cluster: ClusterView, sizes: Mapping[str, int]) -> ClusterView:
    """Returns the view with these topics present and at least this large. Added partitions have unknown racks."""
    grown = {t: n for t, n in sizes.items() if n > (cluster.counts[cluster.index[t]] if t in cluster.index else 0)}
    if not grown:
        return cluster
    counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True)) | grown
    topics = tuple(sorted(counts))
    count = np.array([counts[t] for t in topics], dtype=np.int32)
    first = offsets(count)
    nowhere = np.zeros((1, len(cluster.column_racks)), dtype=np.bool_)
    bare = replace(
        cluster,
        topics=topics,
        counts=count,
        first=first,
        signature=np.full(int(first[-1]), len(cluster.signature_racks), dtype=np.int32),
        signature_racks=np.concatenate([cluster.signature_racks, nowhere]),
        leader_rack=np.full(int(first[-1]), NO_RACK, dtype=np.int32),
        index={t: i for i, t in enumerate(topics)},
    )
    target, _ = translate(cluster, bare)
    bare.signature[target] = cluster.signature
    bare.leader_rack[target] = cluster.leader_rack
    return bare


def freeze(cluster: ClusterView, before: IntArray, owner: IntArray) -> IntArray:
    """Restores the owner before this rebalance, if there was one, for partitions of unreadable topics."""
    rows = [cluster.index[t] for t in cluster.unreadable if t in cluster.index]
    if not rows:
        return owner
    frozen = np.zeros(len(cluster.topics), dtype=np.bool_)
    frozen[rows] = True
    keep = np.repeat(frozen, cluster.counts) & (before != NOBODY)
    return np.where(keep, before, owner).astype(np.int32)
