"""Checks that hold for every valid plan, whatever made it. Tests use them, and each decision before it encodes
anything.

No findings mean a valid plan. All checks are array operations; texts are only built for errors.
"""

from collections.abc import Iterator

import numpy as np

from bellwether_kafka.assignors.consumer.derived import claimants, subscriptions, wanted
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray, Plan

# More findings of a kind than this are only counted, because people read them.
MAX_FINDINGS = 10
_UNCLAIMED = -2


def validate(group: GroupView, cluster: ClusterView, plan: Plan, *, holds_claims: bool = True) -> tuple[str, ...]:
    """Returns what is wrong with a plan. `holds_claims`: claims are partitions that members consume now (the
    cooperative step applies); False if they are only history (the eager "sticky")."""
    owner = plan.owner
    if owner.shape != (cluster.partition_total,) or plan.pending.shape != owner.shape:
        return (f"the plan has {owner.size} partitions, the cluster has {cluster.partition_total}",)
    outside = (owner < NOBODY) | (owner >= group.size)
    if outside.any():
        return tuple(_name(cluster, outside, "{tp} is given to a member that is not there"))
    unowned, foreign = misplaced(group, cluster, owner)
    findings = [
        *_name(cluster, unowned, "{tp} has no owner"),
        *_name(cluster, foreign, "{tp} is given to {member}, which does not subscribe to it", group, owner),
        *_name(cluster, plan.pending & (owner == NOBODY), "{tp} is pending but has no owner"),
    ]
    taken, others = contested(group, owner) if holds_claims else (np.zeros_like(plan.pending),) * 2
    handed_over = taken & ~plan.pending
    findings += _name(cluster, handed_over, "{tp} is sent to {member} while another member consumes it", group, owner)
    findings += _name(cluster, plan.pending & ~others, "{tp} is pending though no other member claims it")
    return tuple(findings)


def misplaced(group: GroupView, cluster: ClusterView, owner: IntArray) -> tuple[BoolArray, BoolArray]:
    """Returns (partitions of subscribed topics without an owner, partitions whose owner does not subscribe)."""
    unowned: BoolArray = owner == NOBODY
    if group.size and group.wants_all(len(cluster.topics)):
        return unowned, np.zeros(len(owner), dtype=np.bool_)
    foreign = ~unowned
    if group.size:
        foreign &= ~subscriptions(group, len(cluster.topics))[group.topic_set[owner], cluster.topic_of()]
    return unowned & wanted(group, cluster), foreign


def contested(group: GroupView, owner: IntArray) -> tuple[BoolArray, BoolArray]:
    """Returns (partitions that the owner must not get yet, partitions that a member other than the owner claims).

    A claim of the owner counts only if it is newer than every other claim: a stale claim is not ownership
    (docs/internals/assignors.md#cooperative-rebalancing), and two claims of the same generation mean two consumers.
    """
    claimant, flats = claimants(group), group.claims
    other = owner[flats] != claimant
    if not len(flats) or not other.any():
        return np.zeros(len(owner), dtype=np.bool_), np.zeros(len(owner), dtype=np.bool_)
    theirs = np.full(len(owner), _UNCLAIMED, dtype=np.int32)
    mine = np.full(len(owner), _UNCLAIMED, dtype=np.int32)
    np.maximum.at(theirs, flats[other], group.claim_generation[claimant[other]])
    claimed: BoolArray = theirs != _UNCLAIMED
    own = claimed[flats] & ~other
    mine[flats[own]] = group.claim_generation[claimant[own]]
    taken: BoolArray = claimed & (mine <= theirs) & (owner != NOBODY)
    return taken, claimed


def _name(
    cluster: ClusterView,
    wrong: BoolArray,
    text: str,
    group: GroupView | None = None,
    owner: IntArray | None = None,
) -> Iterator[str]:
    flats: LongArray = wrong.nonzero()[0]
    for flat in flats[:MAX_FINDINGS].tolist():
        topic, partition = cluster.name(flat)
        member = group.members[owner[flat]].member_id if group is not None and owner is not None else ""
        yield text.format(tp=f"{topic}-{partition}", member=member)
    if len(flats) > MAX_FINDINGS:
        yield f"and {len(flats) - MAX_FINDINGS} more like the last one"
