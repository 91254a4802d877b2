"""Derives one current owner per partition from members' claims and the leader's memory (KIP-792).

Rules (docs/internals/assignors.md#stickiness-whose-claim-counts): memory beats claims of its generation and older ones.
Among claims the highest generation wins; two claims of the same highest generation cancel each other. A stale claim
that no other claim contests is honoured. A claim to a topic that its member does not subscribe to is ignored. Each
member has one generation, which applies to all its claims.
"""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray

UNCLAIMED = -2


def claimants(group: GroupView) -> IntArray:
    """Returns the member index of each entry of `group.claims`."""
    if not len(group.claims):
        return np.zeros(0, dtype=np.int32)
    return np.arange(group.size, dtype=np.int32).repeat(group.claims_first[1:] - group.claims_first[:-1])


def compare(
    claimant: IntArray, claims: IntArray, generation: IntArray, partition_total: int
) -> tuple[IntArray, IntArray]:
    """Returns, per flat partition, (the member with the claim of the highest generation, NOBODY if none or several;
    that generation, or UNCLAIMED). `claimant`, `claims` (flat partitions) and `generation` are parallel arrays."""
    winner = np.full(partition_total, NOBODY, dtype=np.int32)
    best = np.full(partition_total, UNCLAIMED, dtype=np.int32)
    winner[claims] = claimant
    best[claims] = generation
    # This assignment keeps one claimant per partition. If a member does not find itself, the partition has several.
    if len(claims) and (winner[claims] != claimant).any():
        times = np.bincount(claims, minlength=partition_total)
        several = np.flatnonzero(times[claims] > 1)
        order = several[np.lexsort((generation[several], claims[several]))]
        partition, age = claims[order], generation[order]
        last = np.append(partition[1:] != partition[:-1], True)
        top = np.flatnonzero(last)
        tie = (partition[top] == partition[top - 1]) & (age[top] == age[top - 1])
        best[partition[top]] = age[top]
        winner[partition[top]] = np.where(tie, NOBODY, claimant[order[top]])
    return winner, best


def subscriptions(group: GroupView, topic_total: int) -> BoolArray:
    """Returns a table of whether each distinct subscription (row) contains each topic (column)."""
    table = np.zeros((len(group.topic_sets), topic_total), dtype=np.bool_)
    for row, topics in enumerate(group.topic_sets):
        table[row, topics] = True
    return table


def wanted(group: GroupView, cluster: ClusterView) -> BoolArray:
    """Marks the flat partitions of topics to which at least one member subscribes."""
    topics = np.logical_or.reduce(subscriptions(group, len(cluster.topics))[group.sets_in_use], axis=0)
    return np.repeat(topics, cluster.counts)


def current_owner(group: GroupView, cluster: ClusterView) -> IntArray:
    """Returns the owner of each flat partition before this rebalance, NOBODY if there is none or claims cancel each
    other.

    An owner always subscribes to the topic.
    """
    if group.current is not None:
        return group.current
    if not len(group.claims) and not (group.remembered != NOBODY).any():
        return np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    claimant, claims = claimants(group), group.claims
    everything = group.wants_all(len(cluster.topics))
    if not everything:
        table, topic_of = subscriptions(group, len(cluster.topics)), cluster.topic_of()
    if not everything and len(claims):
        fit = table[group.topic_set[claimant], topic_of[claims]]
        claimant, claims = claimant[fit], claims[fit]
    winner, age = compare(claimant, claims, group.claim_generation[claimant], cluster.partition_total)
    remembered = group.remembered
    trusted = (remembered != NOBODY) & (age <= group.remembered_generation)
    if not trusted.any():
        return winner
    if not everything:
        trusted &= table[group.topic_set[np.maximum(remembered, 0)], topic_of]
    return np.where(trusted, remembered, winner).astype(np.int32)


def former_owners(group: GroupView, cluster: ClusterView, current: IntArray) -> tuple[IntArray, LongArray]:
    """Returns (member, flat partition) of claims by members other than the current owner, only the newest of each
    partition: its former owners. There are several if they claim the same generation."""
    claimant, claims = claimants(group), group.claims
    over = np.flatnonzero(current[claims] != claimant)
    if not len(over):
        return claimant[over], over
    if not group.wants_all(len(cluster.topics)):
        table = subscriptions(group, len(cluster.topics))
        over = over[table[group.topic_set[claimant[over]], cluster.topic_of()[claims[over]]]]
    claimant, claims = claimant[over], claims[over].astype(np.int64)
    newest = np.full(cluster.partition_total, UNCLAIMED, dtype=np.int32)
    age = group.claim_generation[claimant]
    np.maximum.at(newest, claims, age)
    last = age == newest[claims]
    return claimant[last], claims[last]
