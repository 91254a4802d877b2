"""The round robin assignor: one cursor over all members (docs/internals/assignors.md#round-robin)."""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import NO_CLASS, member_order, topic_classes
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray


class RoundRobinAssignor:
    """`roundrobin`: Java's RoundRobinAssignor. The cursor skips members that do not subscribe and never resets."""

    name = "roundrobin"
    cooperative = False
    needs_every_member = True

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        """Returns the owner array; consecutive topics with the same subscribers are dealt in one step."""
        owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
        classes = topic_classes(group, len(cluster.topics))
        if not classes.members:
            return owner
        order = member_order(group)
        position = np.empty(group.size, dtype=np.int32)
        position[order] = np.arange(group.size, dtype=np.int32)
        cursor = 0
        starts = np.flatnonzero(np.diff(classes.of, prepend=NO_CLASS - 1))
        for start, end in zip(starts, [*starts[1:], len(classes.of)], strict=True):
            low, high = int(cluster.first[start]), int(cluster.first[end])
            if classes.of[start] == NO_CLASS or low == high:
                continue
            members = classes.members[classes.of[start]]
            turn = np.searchsorted(position[members], cursor) + np.arange(high - low)
            owner[low:high] = members[turn % len(members)]
            cursor = (int(position[owner[high - 1]]) + 1) % group.size
        return owner
