"""The range assignor: contiguous shares per topic, equal for co-partitioned topics, with rack locality where it costs
nothing.

It behaves like Java's RangeAssignor (KIP-881, docs/internals/assignors.md#range). Topics with the same subscribers and
partition count get the same pattern, which is computed once.
"""

from collections.abc import Iterator

import numpy as np

from bellwether_kafka.assignors.consumer.derived import NO_CLASS, topic_classes
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray


class RangeAssignor:
    """`range`: counts per topic differ by at most one; co-partitioned topics give each member equal partition
    numbers."""

    name = "range"
    cooperative = False
    needs_every_member = True

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        """Returns the owner array. Balance beats co-partitioning, and co-partitioning beats locality, as in Java."""
        owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
        batches = list(_batches(group, cluster))
        needed = [_needs_racks(group, cluster, members, flats) for members, flats in batches]
        uses_racks = any(needs.any() for needs in needed)
        for (members, flats), needs in zip(batches, needed, strict=True):
            given = np.full(flats.shape[1], NOBODY, dtype=np.int32)
            if uses_racks and (len(flats) > 1 or needs[0]):
                given = _match_racks(group, cluster, members, flats)
            owner[flats] = members[_fill(given, len(members))]
        return owner


def _match_racks(group: GroupView, cluster: ClusterView, members: IntArray, flats: IntArray) -> IntArray:
    """Runs the rack pass on a batch. Returns positions in the member order, which apply to each of its topics."""
    racks = group.rack[members]
    if not (racks != NO_RACK).any():
        return np.full(flats.shape[1], NOBODY, dtype=np.int32)
    local = np.logical_and.reduce(cluster.signature_racks[cluster.signature[flats]], axis=0)
    return _match_partitions(local, racks) if len(flats) > 1 else _match_members(local, racks)


def _batches(group: GroupView, cluster: ClusterView) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields batches of topics with the same subscribers and count: the subscribers in order, and flat partitions
    `[topic, partition]`."""
    classes = topic_classes(group, len(cluster.topics))
    wanted = np.flatnonzero((classes.of != NO_CLASS) & (cluster.counts > 0))
    batches: dict[tuple[int, int], list[int]] = {}
    kinds = zip(classes.of[wanted].tolist(), cluster.counts[wanted].tolist(), strict=True)
    for topic, kind in zip(wanted.tolist(), kinds, strict=True):
        batches.setdefault(kind, []).append(topic)
    for (of, count), topics in sorted(batches.items()):
        flats = cluster.first[topics][:, None] + np.arange(count)
        yield classes.members[of], flats.astype(np.int32)


def _needs_racks(group: GroupView, cluster: ClusterView, members: IntArray, flats: IntArray) -> BoolArray:
    """Returns, per topic, whether locality can differ between members: Java's useRackAwareAssignment."""
    racks = np.unique(group.rack[members])
    racks = racks[racks >= 0]
    if not len(racks):
        return np.zeros(len(flats), dtype=np.bool_)
    replica_racks = cluster.signature_racks[cluster.signature[flats]]
    union = np.logical_or.reduce(replica_racks, axis=1)
    uneven = np.logical_or.reduce(replica_racks != union[:, None, :], axis=(1, 2))
    result: BoolArray = np.logical_or.reduce(union[:, racks], axis=1) & uneven
    return result


def _match_partitions(local: BoolArray, racks: IntArray) -> IntArray:
    """The pass for co-partitioned topics: gives each partition to the first member in order that is local to it and has
    room.

    In each rack only the first member with room is a candidate, so each rack needs one cursor. Returns positions in the
    member order, NOBODY if no local member has room.
    """
    n, m = len(local), len(racks)
    quota, extras = divmod(n, m)
    queues = {int(r): np.flatnonzero(racks == r).tolist() for r in np.unique(racks) if r >= NO_RACK}
    cursor = dict.fromkeys(queues, 0)
    taken = [0] * m
    matches = _racks_by_row(local, queues)
    result = np.full(n, NOBODY, dtype=np.int32)
    for p, candidates in enumerate(matches):
        limit = quota + (extras > 0)
        best = m
        for rack in candidates:
            queue, at = queues[rack], cursor[rack]
            while at < len(queue) and taken[queue[at]] >= limit:
                at += 1
            cursor[rack] = at
            if at < len(queue):
                best = min(best, queue[at])
        if best == m:
            continue
        result[p] = best
        taken[best] += 1
        extras -= taken[best] > quota
    return result


def _racks_by_row(local: BoolArray, queues: dict[int, list[int]]) -> list[list[int]]:
    """Returns, per partition, the member racks that match it. Members without a rack match all partitions."""
    rows, inverse = np.unique(local, axis=0, return_inverse=True)
    candidates = [[r for r in queues if r == NO_RACK or row[r]] for row in rows]
    return [candidates[i] for i in inverse.reshape(-1)]


def _match_members(local: BoolArray, racks: IntArray) -> IntArray:
    """The pass for a single topic: each member in order takes its first free local partitions, up to its current
    maximum."""
    n, m = len(local), len(racks)
    quota, extras = divmod(n, m)
    everything = list(range(n))
    queues = {
        int(r): everything if r == NO_RACK else np.flatnonzero(local[:, r]).tolist()
        for r in np.unique(racks)
        if r >= NO_RACK
    }
    cursor = dict.fromkeys(queues, 0)
    result = [NOBODY] * n
    for member, rack in enumerate(racks.tolist()):
        if rack not in queues:
            continue
        queue, at = queues[rack], cursor[rack]
        room = quota + (extras > 0)
        taken = 0
        while taken < room and at < len(queue):
            if result[queue[at]] == NOBODY:
                result[queue[at]] = member
                taken += 1
            at += 1
        cursor[rack] = at
        extras -= taken > quota
    return np.array(result, dtype=np.int32)


def _fill(given: IntArray, m: int) -> IntArray:
    """The plain pass: gives free partitions to members in order; the first members that may exceed the quota get the
    extras."""
    free = np.flatnonzero(given == NOBODY)
    quota, extras = divmod(len(given), m)
    have = np.bincount(given[given != NOBODY], minlength=m)
    extras -= int((have > quota).sum())
    room = np.maximum(quota - have, 0)
    may_exceed = np.flatnonzero(have <= quota)[:extras]
    room[may_exceed] += 1
    result = given.copy()
    result[free] = np.repeat(np.arange(m, dtype=np.int32), room)
    return result
