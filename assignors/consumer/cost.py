"""What a plan costs: one scoring for the chain, metrics, dry runs and backtests."""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.consumer.derived import components, mismatched, subscriptions
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray

# Up to this many (topic, member) cells, counting into a table beats sorting.
_TABLE_CELLS = 8_000_000


@dataclass(frozen=True, slots=True)
class Score:
    """Lower is better in every field but `owned`; all but `deviation` count partitions.

    `cross_rack`: no replica stands in the owner's rack; `cross_leader_rack`: the leader replica does not. Partitions of
    members without a rack are neutral and counted in `rackless`; those whose replica racks are unknown are neutral.
    `spread`: the worst max - min of partitions per member inside one connected component; `deviation`: standard
    deviation of members from the mean of their component; `topic_spread`: the worst max - min of one topic.
    """

    owned: int
    unowned: int
    cross_rack: int
    cross_leader_rack: int
    rackless: int
    spread: int
    deviation: float
    topic_spread: int


def score(group: GroupView, cluster: ClusterView, owner: IntArray) -> Score:
    """Scores an owner array; partitions without an owner cost nothing but `unowned`, if their topic is subscribed."""
    held: IntArray = np.flatnonzero(owner != NOBODY).astype(np.int32)
    racks = group.rack[owner[held]]
    table = subscriptions(group, len(cluster.topics))
    wanted = np.logical_or.reduce(table[group.sets_in_use], axis=0)
    spread, deviation = imbalance(group, cluster, owner)
    leader = cluster.leader_rack[held]
    return Score(
        owned=len(held),
        unowned=int(cluster.counts[wanted].sum() - np.repeat(wanted, cluster.counts)[held].sum()),
        cross_rack=int(crossing(group, cluster, owner).sum()),
        cross_leader_rack=int(((racks != NO_RACK) & (leader != NO_RACK) & (racks != leader)).sum()),
        rackless=int((racks == NO_RACK).sum()),
        spread=spread,
        deviation=deviation,
        topic_spread=topic_spread(group, cluster, owner),
    )


def crossing(group: GroupView, cluster: ClusterView, owner: IntArray) -> BoolArray:
    """Marks partitions whose owner names a rack without a replica of it (racks of the replicas being known)."""
    known = np.logical_or.reduce(cluster.signature_racks, axis=1)[cluster.signature] & (owner != NOBODY)
    flats: IntArray = np.flatnonzero(known).astype(np.int32)
    result = np.zeros(len(owner), dtype=np.bool_)
    result[flats] = mismatched(cluster, group.rack[owner[flats]], flats)
    return result


def imbalance(group: GroupView, cluster: ClusterView, owner: IntArray) -> tuple[int, float]:
    """(worst spread, standard deviation) over the components: work cannot move between components."""
    count = np.bincount(owner[owner != NOBODY], minlength=group.size)
    parts = [count[c.members] for c in components(group, len(cluster.topics))]
    if not parts:
        return 0, 0.0
    worst = max(int(part.max() - part.min()) for part in parts)
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    return worst, float(np.sqrt(squares / sum(map(len, parts))))


def topic_spread(group: GroupView, cluster: ClusterView, owner: IntArray) -> int:
    """The worst difference between two subscribers of one topic in partitions of that topic."""
    table = subscriptions(group, len(cluster.topics))
    subscribers = np.bincount(group.topic_set, minlength=len(table)) @ table
    held = owner != NOBODY
    cells = cluster.topic_of()[held] * np.int64(max(1, group.size)) + owner[held]
    if not len(cells):
        return 0
    total = len(cluster.topics) * max(1, group.size)
    if total <= _TABLE_CELLS:
        counted = np.bincount(cells, minlength=total)
        found = np.flatnonzero(counted)
        amount = counted[found]
    else:
        found, amount = np.unique(cells, return_counts=True)
    topic = found // max(1, group.size)
    starts = np.flatnonzero(np.diff(topic, prepend=-1))
    highest = np.maximum.reduceat(amount, starts)
    lowest = np.minimum.reduceat(amount, starts)
    owners = np.diff(starts, append=len(topic))
    return int((highest - np.where(owners < subscribers[topic[starts]], 0, lowest)).max())
