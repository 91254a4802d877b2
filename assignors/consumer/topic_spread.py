"""Spreads each topic evenly over members whose partition totals stay the same, by swaps between two members.

If totals differ by at most one, and one member has two more of a topic than another, then the other has more of some
other topic. So there is always a swap of one for one, and no such swap makes a topic more uneven. Each reduces the sum
of squares of all shares, so the process ends, with every topic within one.
"""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray, LongArray

SWAPS_MAX = 20_000  # takes about a second; the rest is left to the next rebalance


def spread_topics(group: GroupView, cluster: ClusterView, owner: IntArray, before: IntArray) -> IntArray:
    """Returns the plan with each topic spread evenly over members with the same subscription.

    A partition that the plan moves anyway (`before` has another owner or none) is swapped before one that stays.
    """
    new_owner, left = owner.copy(), SWAPS_MAX
    for row in group.sets_in_use.tolist():
        members = np.flatnonzero(group.topic_set == row)
        if len(members) > 1 and left:
            left = _among(members, group.size, cluster, new_owner, before, left)
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


def _among(members: LongArray, size: int, cluster: ClusterView, owner: IntArray, before: IntArray, left: int) -> int:
    """Makes swaps in `owner` and returns how many of `left` swaps remain. The group has `size` members."""
    place = np.full(size + 1, NOBODY, dtype=np.int64)  # the last entry is for NOBODY
    place[members] = np.arange(len(members))
    owned = np.flatnonzero(place[owner] != NOBODY)
    topics, topic = np.unique(cluster.topic_of()[owned], return_inverse=True)
    shares = np.zeros((len(members), len(topics)), dtype=np.int64)
    np.add.at(shares, (place[owner[owned]], topic.reshape(-1)), 1)
    for t in range(len(topics)):
        while left:
            most, fewest = int(shares[:, t].argmax()), int(shares[:, t].argmin())
            back = shares[fewest] - shares[most]
            other = int(back.argmax())
            if back[t] > -2 or back[other] < 1:
                break
            for which, giver, taker in ((t, most, fewest), (other, fewest, most)):
                flat = _cheapest(cluster, int(topics[which]), owner, before, int(members[giver]), int(members[taker]))
                owner[flat] = members[taker]
                shares[giver, which] -= 1
                shares[taker, which] += 1
            left -= 1
    return left


def _cheapest(cluster: ClusterView, topic: int, owner: IntArray, before: IntArray, giver: int, taker: int) -> int:
    """Returns the partition of a topic to hand from `giver` to `taker`: preferably one that returns to its former
    owner, else one that moves anyway."""
    first, end = int(cluster.first[topic]), int(cluster.first[topic + 1])
    flats = first + np.flatnonzero(owner[first:end] == giver)
    was = before[flats]
    return int(flats[np.where(was == taker, 0, np.where(was != giver, 1, 2)).argmin()])
