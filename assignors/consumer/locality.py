"""Improves the rack locality of a finished plan without changing any member's partition count, by a min-cost flow on
classes.

A partition's cost on a member depends only on the member's rack. So members with the same rack and subscription form
one node, and partitions with the same replica racks, subscribers and present node form one class. The flow starts from
the given plan and cancels negative cycles among the few nodes, so an optimal plan does not change. Costs are
lexicographic: first partitions without a replica in the owner's rack, then partitions moved.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.derived import subscriptions, topic_classes
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray

# With more (rack, subscription) nodes the plan stays as it is, because the search for cycles would take too long.
MAX_NODES = 96
# Every pass lowers the cost, so an early stop is safe; this limit only bounds the time.
MAX_PASSES = 5_000
_FAR = np.int64(1) << 60


@dataclass(frozen=True, slots=True, eq=False)
class _Collapsed:
    """The collapsed problem: `node[m]` of each member, the `assigned` flat partitions, their class `of`, and per class
    the `origin` node and the `cost` on each node."""

    node: LongArray
    assigned: LongArray
    of: LongArray
    origin: LongArray
    cost: LongArray


def improve(group: GroupView, cluster: ClusterView, owner: IntArray, before: IntArray) -> IntArray:
    """Returns the plan with the fewest cross-rack partitions that keeps the partition count of every member.

    Moving a partition that the plan moves anyway (`before` has another owner or none) costs nothing extra.
    """
    collapsed = _collapse(group, cluster, owner, before)
    if collapsed is None:
        return owner
    classes = np.arange(len(collapsed.cost))
    flow = np.zeros(collapsed.cost.shape, dtype=np.int64)
    flow[classes, collapsed.origin] = np.bincount(collapsed.of)
    _cancel(collapsed.cost, flow)
    return _deal(collapsed, owner, flow)


def _collapse(group: GroupView, cluster: ClusterView, owner: IntArray, before: IntArray) -> _Collapsed | None:
    """Collapses members to nodes (rack, subscription) and owned partitions to classes. Returns None if there is nothing
    to exchange or there are too many nodes."""
    assigned: LongArray = np.flatnonzero(owner != NOBODY)
    nodes, node = np.unique(np.stack([group.rack, group.topic_set], axis=1), axis=0, return_inverse=True)
    node = node.reshape(-1)
    if not len(assigned) or not 2 <= len(nodes) <= MAX_NODES:
        return None
    subscribers = topic_classes(group, len(cluster.topics)).of
    readers, now = subscribers[cluster.topic_of()[assigned]], owner[assigned]
    parts = (cluster.signature[assigned], readers, node[now], now != before[assigned])
    sizes = tuple(int(part.max()) + 1 for part in parts)
    codes, of = np.unique(np.ravel_multi_index(parts, sizes), return_inverse=True)
    signature, of_class, origin, loose = np.unravel_index(codes, sizes)
    sample = np.zeros(sizes[1], dtype=np.int64)
    sample[subscribers[subscribers < sizes[1]]] = np.flatnonzero(subscribers < sizes[1])
    allowed = subscriptions(group, len(cluster.topics))[nodes[:, 1]][:, sample[of_class]].T
    cost = np.where(_crossing(cluster, nodes[:, 0])[signature], np.int64(len(assigned) + 1), np.int64(0))
    cost += (np.arange(len(nodes)) != origin[:, None]) & (loose == 0)[:, None]
    return _Collapsed(node, assigned, of.reshape(-1), origin.astype(np.int64), np.where(allowed, cost, _FAR))


def _crossing(cluster: ClusterView, racks: IntArray) -> BoolArray:
    """Returns `[signature, node]`: whether a partition with these replica racks is remote for a member in that node's
    rack."""
    replica_racks_known = np.logical_or.reduce(cluster.signature_racks, axis=1)
    remote: BoolArray = np.ones((len(replica_racks_known), len(racks)), dtype=np.bool_)
    inside = racks >= 0
    remote[:, inside] = ~cluster.signature_racks[:, racks[inside]]
    remote[:, racks == NO_RACK] = False
    remote[~replica_racks_known] = False
    return remote


def _cancel(cost: LongArray, flow: LongArray) -> None:
    """Moves flow around negative cycles of nodes until there is none, so that no plan is cheaper, or MAX_PASSES is
    reached."""
    size = cost.shape[1]
    gain = np.full((size, size), _FAR, dtype=np.int64)
    through = np.zeros((size, size), dtype=np.int64)
    stale = list(range(size))
    for _ in range(MAX_PASSES):
        for a in stale:
            there = np.flatnonzero(flow[:, a])
            gain[a] = _FAR
            if len(there):
                step = cost[there] - cost[there, a][:, None]
                best = step.argmin(axis=0)
                gain[a], through[a] = step[best, np.arange(size)], there[best]
        stale = _negative_cycle(gain)
        if not stale:
            return
        following = [*stale[1:], stale[0]]
        amount = min(int(flow[through[a, b], a]) for a, b in zip(stale, following, strict=True))
        for a, b in zip(stale, following, strict=True):
            flow[through[a, b], a] -= amount
            flow[through[a, b], b] += amount


def _negative_cycle(gain: LongArray) -> list[int]:
    """Returns the nodes of one negative cycle in order, [] if there is none."""
    size = len(gain)

    def relax(distance: IntArray | LongArray) -> tuple[LongArray, LongArray]:
        reach = distance[:, None] + gain
        via = reach.argmin(axis=0)
        return reach[via, np.arange(size)], via

    passes = islice(shared.relaxations(relax, np.zeros(size, dtype=np.int64)), size - 1, None)
    for parent, cheaper in passes:  # a node that still gets cheaper now is reached from a negative cycle
        here = int(cheaper[0])
        for _ in range(size):
            here = int(parent[here])
        return next(loop[::-1] for loop in shared.loops(parent) if here in loop)
    return []


def _deal(collapsed: _Collapsed, owner: IntArray, flow: LongArray) -> IntArray:
    """Converts the flow to owners: partitions that leave a node free their places, and arriving ones take those places
    in order."""
    classes = np.arange(len(flow))
    order = np.argsort(collapsed.of, kind="stable")
    size = np.bincount(collapsed.of)
    leaving = collapsed.assigned[order[shared.ordinals(size) >= np.repeat(flow[classes, collapsed.origin], size)]]
    away = flow.copy()
    away[classes, collapsed.origin] = 0
    target = np.repeat(np.tile(np.arange(flow.shape[1]), len(flow)), away.reshape(-1))
    places = collapsed.node[owner[leaving]]
    result = owner.copy()
    for destination in np.unique(target):
        result[np.sort(leaving[target == destination])] = owner[np.sort(leaving[places == destination])]
    return result
