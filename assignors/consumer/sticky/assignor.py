"""The sticky assignors "sticky" and "cooperative-sticky": balanced, and partitions move only to get there.

Both place alike; they differ in the step after it (`cooperative.pending_partitions`).
"""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import components, current_owner, former_owners, rack_matters
from bellwether_kafka.assignors.consumer.sticky.constrained import spread
from bellwether_kafka.assignors.consumer.sticky.former import give_back
from bellwether_kafka.assignors.consumer.sticky.general import balance
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray, LongArray


def place(group: GroupView, cluster: ClusterView) -> IntArray:
    """An owner per flat partition, NOBODY where no member subscribes."""
    # Who owns what now, by the members' claims and what the leader delivered.
    before = current_owner(group, cluster)
    owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    claimant, claims = former_owners(group, cluster, before)
    # What may be exchanged: anything in a component whose members are alike, else partitions that are alike.
    key = np.zeros(cluster.partition_total if len(claims) else 0, dtype=np.int64)
    position = np.full(group.size + 1, NOBODY, dtype=np.int32)  # the last entry answers for NOBODY
    for number, component in enumerate(components(group, len(cluster.topics))):
        flats = component.flats(cluster)
        if not len(flats):
            continue
        # From here on a member is its position in the component, and what others own is free.
        position[:] = NOBODY
        position[component.members] = np.arange(len(component.members), dtype=np.int32)
        mine = position[before[flats]]
        if component.uniform:
            # Everybody may have everything: keep up to a quota, deal the rest.
            placed = spread(cluster, flats, mine, group.rack[component.members])
        else:
            # Keep, pour, level and steal on counts; then exchange for racks and fewer moves.
            placed = balance(group, cluster, component, flats, mine)
        owner[flats] = component.members[placed]
        if len(claims):
            key[flats] = number if component.uniform else _alike(cluster, flats)
            if rack_matters(cluster, group.rack[component.members], flats):
                key[flats] = _alike(cluster, flats)
    if not len(claims):
        return owner
    # By the order of ids, as everything else: which of several exchanges is found depends on the numbers of members.
    by_id = np.argsort(np.array(group.members.ids), kind="stable")
    rank = np.full(group.size + 1, NOBODY, dtype=np.int32)  # the last entry answers for NOBODY
    rank[by_id] = np.arange(group.size, dtype=np.int32)
    order = np.lexsort((claims, rank[claimant]))
    placed = give_back(rank[before], rank[owner], key, rank[claimant][order], claims[order])
    return np.append(by_id, NOBODY)[placed].astype(np.int32)


def _alike(cluster: ClusterView, flats: LongArray) -> LongArray:
    """A number for each topic and set of replica racks, other than those of components."""
    topic = np.searchsorted(cluster.first, flats, side="right") - 1
    base = len(cluster.topics) + 1
    return np.asarray(base + topic * len(cluster.signature_racks) + cluster.signature[flats], dtype=np.int64)


class StickyAssignor:
    """Kafka's "sticky" (KIP-54): its members revoke everything first, so nothing is withheld."""

    name = "sticky"
    cooperative = False

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        return place(group, cluster)


class CooperativeStickyAssignor(StickyAssignor):
    """Kafka's "cooperative-sticky" (KIP-429): members keep consuming, so what moves waits a rebalance."""

    name = "cooperative-sticky"
    cooperative = True
