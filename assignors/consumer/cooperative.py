"""The cooperative step: which partitions are pending for one rebalance because another member still consumes them
(KIP-429).

The JVM's general path believes a stale claim and hands a partition over while a newer owner still consumes it. Here a
claim with a newer claim against it does not make its member the owner, but every claim counts as consumption that must
be revoked first (docs/internals/assignors.md#cooperative-rebalancing).
"""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import claimants, compare
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, GroupView, IntArray, LongArray


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
