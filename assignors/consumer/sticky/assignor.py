"""The sticky assignors "sticky" and "cooperative-sticky": balanced, and partitions move only to get there.

Both place alike; they differ in the step after it: members of the cooperative one keep consuming while they rebalance,
so what moves waits a round (`cooperative.withhold`).
"""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import Component, components, current_owner
from bellwether_kafka.assignors.consumer.sticky.constrained import spread
from bellwether_kafka.assignors.consumer.sticky.general import balance
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray


def place(group: GroupView, cluster: ClusterView) -> IntArray:
    """An owner per flat partition, NOBODY where no member subscribes. Component by component."""
    before = current_owner(group, cluster)
    owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    for component in components(group, len(cluster.topics)):
        _place_component(group, cluster, component, before, owner)
    return owner


def _place_component(
    group: GroupView, cluster: ClusterView, component: Component, before: IntArray, owner: IntArray
) -> None:
    flats = component.flats(cluster)
    if not len(flats):
        return
    position = np.full(group.size + 1, NOBODY, dtype=np.int32)  # the last entry answers for NOBODY
    position[component.members] = np.arange(len(component.members), dtype=np.int32)
    mine = position[before[flats]]
    racks = group.rack[component.members]
    if component.uniform:
        placed = spread(cluster, flats, mine, racks)
    else:
        placed = balance(group, cluster, component, flats, mine)
    owner[flats] = component.members[placed]


class StickyAssignor:
    """Kafka's "sticky" (KIP-54): its members revoke everything first, so nothing is withheld."""

    name = "sticky"
    cooperative = False

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        return place(group, cluster)


class CooperativeStickyAssignor:
    """Kafka's "cooperative-sticky" (KIP-429)."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        return place(group, cluster)
