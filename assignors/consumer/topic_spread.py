"""Spreads each topic evenly over members with the same subscription: the stage of the policy `topic-balance`.

In order of priority: every member has as many partitions as before, but for one more or less that two may exchange;
each topic differs by at most one between members; as few partitions as possible move.

A plan that is even already stays. Else:

1. A member gets the whole share of each topic, and for the remainders one more of some topics. Topic by topic, members
   that have one more keep it, as long as all members can still reach their totals (Gale and Ryser's condition).
2. Rings of members in which each hands one partition to the next are cancelled until none saves a move (`reduce_cost`).
   The counts are then the cheapest flow from topics to members.
3. Members keep of each topic what the counts allow, and get the rest in order.

Two members, of which one has all of two topics: a-0 a-1 b-0 b-1 | - becomes a-0 b-0 | a-1 b-1 by two moves, where the
balance alone would allow a-0 a-1 | b-0 b-1.
"""

import numpy as np

from bellwether_kafka.assignors.consumer.sticky import ClassCounts, dealt, reduce_cost
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray

# Above this many cells (topic, member) topics stay as they are: a few passes would take seconds.
CELLS = 4_000_000


def spread_topics(group: GroupView, cluster: ClusterView, owner: IntArray, before: IntArray) -> IntArray:
    """Returns the plan with each topic spread evenly over members with the same subscription, so that as few partitions
    as possible have another owner than `before`."""
    new_owner = owner.copy()
    place = np.full(group.size + 1, NOBODY, dtype=np.int32)  # the last entry is for NOBODY
    for row in group.sets_in_use.tolist():
        members = group.by_id[group.topic_set[group.by_id] == row]
        place[:] = NOBODY
        place[members] = np.arange(len(members), dtype=np.int32)
        flats = np.flatnonzero(place[owner] != NOBODY)
        load = np.bincount(place[owner[flats]], minlength=len(members))
        topics, topic = np.unique(cluster.topic_of()[flats], return_inverse=True)
        if len(members) > 1 and int(np.ptp(load)) <= 1 and len(topics) * len(members) <= CELLS:
            spread = _spread(topic.reshape(-1), place[before[flats]], place[owner[flats]], load)
            new_owner[flats] = members[spread]
    return new_owner


def unevenness(group: GroupView, cluster: ClusterView, owner: IntArray) -> float:
    """Returns the sum of squares of all shares minus that of evenly spread topics; 0 if all are even."""
    assigned = np.flatnonzero(owner != NOBODY)
    if not len(assigned):
        return 0.0
    topic = cluster.topic_of()[assigned].astype(np.int64)
    shares = np.unique(topic * group.size + owner[assigned], return_counts=True)[1].astype(np.float64)
    counts = np.bincount(topic, minlength=len(cluster.topics))
    readers = np.zeros(len(counts), dtype=np.int64)
    for row, number in zip(*np.unique(group.topic_set, return_counts=True), strict=True):
        readers[group.topic_sets[row]] += number
    low, more = np.divmod(counts, np.maximum(readers, 1))
    even = more * (low + 1) ** 2 + (np.maximum(readers, 1) - more) * low**2
    return float((shares**2).sum() - even.sum())


def _spread(topic: LongArray, before: IntArray, placed: IntArray, load: LongArray) -> IntArray:
    """Returns the owner of each partition; owners are positions among the members, whose totals are `load`."""
    size, supply = len(load), np.bincount(topic)
    owned = np.flatnonzero(before >= 0)
    share, had = (
        np.bincount(topic[items] * size + of[items], minlength=len(supply) * size).reshape(-1, size)
        for items, of in ((slice(None), placed), (owned, before))
    )
    if (share.max(axis=1) - share.min(axis=1) <= 1).all():
        return placed
    least, more = np.divmod(supply, size)
    one_more = _remainders(more, load - least.sum(), had > least[:, None])
    counts = ClassCounts(
        partitions=least[:, None] + one_more,
        allowed=np.ones_like(one_more),
        stuck=had,
        size=np.ones(size, dtype=np.int64),
        supply=supply,
        load=load.copy(),
        bounds=(least, least + (more > 0)),
    )
    reduce_cost(counts, np.zeros_like(one_more))
    return dealt(topic, before, placed, counts.partitions)


def _remainders(more: LongArray, need: LongArray, has: BoolArray) -> BoolArray:
    """Returns `[topic, member]`: who gets one more of a topic, so that `more[topic]` members do, and each member as
    often as it needs: rather those that have one more already.

    There is such a table if for each k the k members that need most need no more than the topics still have for k.
    """
    table = np.zeros_like(has)
    size, need = len(need), need.copy()
    up_to = np.arange(1, size + 1)
    room = np.minimum(more[:, None], up_to).sum(axis=0)
    for t in np.flatnonzero(more).tolist():
        room = room - np.minimum(more[t], up_to)
        for order in (np.lexsort((-need, ~has[t])), np.argsort(-need, kind="stable")):
            left = need.copy()
            left[order[: more[t]]] -= 1
            if left.min() >= 0 and (np.cumsum(np.sort(left)[::-1]) <= room).all():
                break
        table[t, order[: more[t]]] = True
        need = left
    return table
