"""What a rebalance leaves to the next one, and what it takes over from the last (KIP-429).

A partition that moves between members that go on consuming takes two rebalances: one takes it away, the next hands it
out. Every claim counts as consumption that must be revoked first, also a stale one, which the JVM's general path
believes (docs/internals/assignors.md#cooperative-rebalancing). If the second rebalance planned anew, with partitions
that nobody has, ties would fall otherwise and ask for a third. So memory has the target of a plan beside what was sent.
The next rebalance carries it out, if nothing else has changed; if something has, the policy starts from it, and
validity and balance come first.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.derived import claimants, compare, current_owner, subscriptions
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray, Memory


@dataclass(frozen=True, slots=True, eq=False)
class LastTarget:
    """The assignor of a rebalance that carries out the plan before it. `owner` has that plan's target."""

    owner: IntArray

    name = "the last plan"
    cooperative = False

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:  # noqa: ARG002 - see ConsumerAssignor
        return self.owner


def intended_owner(group: GroupView, cluster: ClusterView, memory: Memory) -> IntArray:
    """Returns the owner of each partition as policies shall see it: the present one, and of a partition that the last
    plan left pending the member that was to get it. A claim of anybody but that member and the one that was asked to
    give it up shows that others have planned since, and counts more."""
    before = current_owner(group, cluster)
    if not len(memory.target):
        return before
    keys, claimant = group.members.keys, claimants(group)
    to, asked = memory.target_in(cluster, keys), memory.holder_in(cluster, keys)
    intended = (to != NOBODY) & (memory.owner_in(cluster, keys) == NOBODY)
    flats = group.claims[(to[group.claims] != claimant) & (asked[group.claims] != claimant)]
    intended[flats] = False
    subscribed = subscriptions(group, len(cluster.topics))[group.topic_set]
    intended &= subscribed[np.maximum(to, 0), cluster.topic_of()] if group.size else False
    return np.where(intended, to, before).astype(np.int32)


def target_to_carry_out(
    group: GroupView, cluster: ClusterView, memory: Memory, rules: tuple[shared.Rule, ...], by: str
) -> LastTarget | None:
    """Returns the target of the last plan if something of it is still pending and nothing else has changed since:
    members, subscriptions, racks, partitions, `rules` and the policy's name `by` are the same, and members have nothing
    that the last plan did not give them or ask of them. None otherwise."""
    if not len(memory.target) or (memory.rules, memory.by) != (rules, by) or not _same_cluster(memory.cluster, cluster):
        return None
    if _described(memory.members) != _described(group.members):
        return None
    keys, claimant = group.members.keys, claimants(group)
    given, asked = memory.owner_in(cluster, keys)[group.claims], memory.holder_in(cluster, keys)[group.claims]
    if ((given != claimant) & (asked != claimant)).any():
        return None
    return LastTarget(memory.target_in(cluster, keys))


def _same_cluster(last: ClusterView, now: ClusterView) -> bool:
    if (last.topics, last.racks, last.unreadable) != (now.topics, now.racks, now.unreadable):
        return False
    columns = (last.counts, now.counts), (last.signature, now.signature), (last.signature_racks, now.signature_racks)
    return all(np.array_equal(before, after) for before, after in columns)


def _described(members: shared.Members) -> dict[str, tuple[object, ...]]:
    """Returns what a plan depends on, by member key. Equal subscriptions are shared, so they compare fast."""
    return {m.key: (m.topics, m.rack, m.leader_only, m.degraded) for m in members}


def pending_partitions(group: GroupView, owner: IntArray) -> BoolArray:
    """Marks the flat partitions that their planned owner gets only after others have revoked them.

    A planned partition is pending if another member claims it, unless its planned owner claims it in a generation newer
    than that of every other claim. Members that revoke before they join (eager ones) have no claims here.
    """
    claimant, claims = claimants(group), group.claims
    elsewhere = np.zeros(len(owner), dtype=np.bool_)
    others = owner[claims] != claimant
    if not others.any():
        return elsewhere
    elsewhere[claims[others]] = True
    moving = elsewhere[claims]
    claimant, claims = claimant[moving], claims[moving]
    winner, _ = compare(claimant, claims, group.claim_generation[claimant], len(owner))
    pending: BoolArray = elsewhere & (winner != owner) & (owner != NOBODY)
    return pending


def unreleased(group: GroupView, sent: IntArray) -> tuple[IntArray, IntArray]:
    """Returns two arrays over flat partitions. The first is the member that claims a partition which the plan does not
    leave with it, NOBODY if none, of several members the one with the newest claim. The second is how many plans in a
    row asked that member to give it up, 0 if none."""
    claimant, claims = claimants(group), group.claims
    holder, asked = np.full(len(sent), NOBODY, dtype=np.int32), np.zeros(len(sent), dtype=np.int32)
    over: LongArray = np.flatnonzero(sent[claims] != claimant)
    over = over[np.argsort(group.claim_generation[claimant[over]], kind="stable")]
    holder[claims[over]] = claimant[over]
    asked[claims[over]] = group.claim_asked[over] if len(group.claim_asked) else 1
    return holder, asked
