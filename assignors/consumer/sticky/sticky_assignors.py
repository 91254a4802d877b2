"""The assignors "sticky" and "cooperative-sticky": balanced plans in which partitions move only for the balance.

Both place alike; they differ in the step that follows (`follow_up.pending_partitions`).
"""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import components, current_owner, former_owners, rack_matters
from bellwether_kafka.assignors.consumer.sticky.constrained import spread
from bellwether_kafka.assignors.consumer.sticky.exchange import exchange
from bellwether_kafka.assignors.consumer.sticky.former import give_back
from bellwether_kafka.assignors.consumer.sticky.general import balance
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray, LongArray


def place(group: GroupView, cluster: ClusterView) -> IntArray:
    """Returns an owner per flat partition, NOBODY if no member subscribes."""
    # The present owners, from members' claims and what the leader delivered.
    before = current_owner(group, cluster)
    owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    claimant, claims = former_owners(group, cluster, before)
    # Partitions with equal keys may be exchanged: all of a component whose members are alike, else those that are
    # alike.
    key = np.zeros(cluster.partition_total if len(claims) else 0, dtype=np.int64)
    position = np.full(group.size + 1, NOBODY, dtype=np.int32)  # the last entry is for NOBODY
    for number, component in enumerate(components(group, len(cluster.topics))):
        flats = component.flats(cluster)
        if not len(flats):
            continue
        # From here on members are positions in the component, and partitions of other owners count as free.
        position[:] = NOBODY
        position[component.members] = np.arange(len(component.members), dtype=np.int32)
        mine = position[before[flats]]
        if component.uniform:
            # All members may have all partitions: keep up to a quota, distribute the rest.
            placed = spread(cluster, flats, mine, group.rack[component.members])
        else:
            # Keep, distribute, level and steal on counts; then exchange for racks and fewer moves.
            placed = balance(group, cluster, component, flats, mine)
        if not component.uniform or rack_matters(cluster, group.rack[component.members], flats):
            placed = exchange(group, cluster, component, flats, mine, placed)
        owner[flats] = component.members[placed]
        if len(claims):
            key[flats] = number if component.uniform else _alike(cluster, flats)
            if rack_matters(cluster, group.rack[component.members], flats):
                key[flats] = _alike(cluster, flats)
    if not len(claims):
        return owner
    # Ordered by ids like everything else: which of several exchanges is found depends on the numbers of members.
    by_id = np.argsort(np.array(group.members.ids), kind="stable")
    rank = np.full(group.size + 1, NOBODY, dtype=np.int32)  # the last entry is for NOBODY
    rank[by_id] = np.arange(group.size, dtype=np.int32)
    order = np.lexsort((claims, rank[claimant]))
    placed = give_back(rank[before], rank[owner], key, rank[claimant][order], claims[order])
    return np.append(by_id, NOBODY)[placed].astype(np.int32)


def _alike(cluster: ClusterView, flats: LongArray) -> LongArray:
    """Returns a number for each (topic, set of replica racks), distinct from the numbers of components."""
    topic = np.searchsorted(cluster.first, flats, side="right") - 1
    base = len(cluster.topics) + 1
    return np.asarray(base + topic * len(cluster.signature_racks) + cluster.signature[flats], dtype=np.int64)


class StickyAssignor:
    """Kafka's "sticky" (KIP-54). Its members revoke everything first, so nothing is pending."""

    name = "sticky"
    cooperative = False

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        return place(group, cluster)


class CooperativeStickyAssignor(StickyAssignor):
    """Kafka's "cooperative-sticky" (KIP-429). Its members keep consuming, so moves take effect one rebalance later."""

    name = "cooperative-sticky"
    cooperative = True
