"""Decides which claims of members to believe. The views of all kinds of groups contain only claims that passed here.

A false claim would withhold partitions from other members for as long as it is repeated, because a partition that a
member still consumes stays pending for its new owner. So claims are checked against the group's generation and against
what the leader delivered (docs/internals/assignors.md#claims-that-are-not-believed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, IntArray, LongArray, distinct
from bellwether_kafka.assignors.shared.dense_views import NO_GENERATION, NOBODY, ClusterView, Refused
from bellwether_kafka.assignors.shared.memory import Memory

# A consumer reports a generation as its own from its JoinGroup on. If the next rebalance begins before it receives that
# generation's plan, it joins again with the partitions it had before. A member may repeat a claim to a partition that
# it was to give up this many times before the claim is refused.
REPEATS_MAX = 2

AHEAD = "claims partitions in a generation that the group has not reached"
UNGIVEN = "claims partitions that it was never given, or was to give up"
IGNORED = "claims partitions, which members under this protocol revoke before they join"


class ClaimKind(Enum):
    """What a member's claims mean under a protocol."""

    CONSUMED = "what the member consumes now"
    HISTORY = "what it consumed before it revoked everything"
    NOTHING = "nothing: no leader reads it"


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Claims as members sent them. `member` (row) and `flat` are parallel arrays with one entry per claim. `generation`
    has one entry per member, NO_GENERATION if the member names none."""

    member: LongArray
    flat: LongArray
    generation: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Delivered:
    """What the leader remembers of its last plan, in the coordinates of this rebalance.

    `took_part` marks the members that were in that generation. Per flat partition, `given` is the member that the plan
    gave it to, `holder` is another member that still had it then, and `asked` is how many plans in a row asked the
    holder to give it up. `topic_existed` marks partitions of topics that existed when the plan was made; if a topic was
    deleted and created again, members may still have partitions of it that the plan did not contain.
    """

    generation: int
    took_part: BoolArray
    given: IntArray
    holder: IntArray
    asked: IntArray
    topic_existed: BoolArray

    @classmethod
    def of(cls, memory: Memory, cluster: ClusterView, keys: Sequence[str], given: IntArray) -> "Delivered":
        """Converts memory to the coordinates of this rebalance. `given` is `memory.owner_in(cluster, keys)`."""
        took_part = np.array([key in memory.index for key in keys], dtype=np.bool_)
        return cls(
            generation=memory.generation,
            took_part=took_part,
            given=given,
            holder=memory.holder_in(cluster, keys),
            asked=memory.asked_in(cluster),
            topic_existed=memory.topic_existed_in(cluster),
        )


@dataclass(frozen=True, slots=True, eq=False)
class CheckedClaims:
    """The result of checking claims. `kept` and `asked` are parallel to the claims: whether each is believed, and how
    many plans in a row will have asked for the partition if this plan asks too. `generation` has one entry per member,
    NO_GENERATION in place of an impossible generation."""

    kept: BoolArray
    asked: IntArray
    generation: IntArray
    refused: Refused


def check_claims(
    claims: Claims, delivered: Delivered, kind: ClaimKind, *, generation: int, resting: bool
) -> CheckedClaims:
    """Checks claims that came with the JoinGroups of this generation. In a `resting` group no member has joined again,
    so a claim may also name the present generation."""
    limit = generation + resting
    member, flat = claims.member, claims.flat
    age = claims.generation[member]
    if kind is ClaimKind.NOTHING:
        kept = np.zeros(len(member), dtype=np.bool_)
        dateless = np.full_like(claims.generation, NO_GENERATION)
        refused = Refused(member, flat, _named(member, ~kept, IGNORED))
        return CheckedClaims(kept, np.zeros(len(member), dtype=np.int32), dateless, refused)
    possible = age < limit
    if delivered.generation >= limit:
        kept = _counted_anew(member, flat, age, possible, delivered, kind)
    else:
        kept = _in_sequence(member, flat, age, possible, delivered, kind, limit)
    # Without memory, impossible generations are kept: no possible claim contests a believed claim with one, and such
    # claims still compare with one another.
    true = (claims.generation < limit) | (delivered.generation < 0)
    dated = np.where(true, claims.generation, NO_GENERATION).astype(np.int32)
    again = delivered.holder[flat] == member
    asked = np.where(again, delivered.asked[flat], 0).astype(np.int32) + np.int32(1)
    reasons = _named(member, ~kept & possible, UNGIVEN) | _named(member, ~kept & ~possible, AHEAD)
    return CheckedClaims(kept, asked, dated, Refused(member[~kept], flat[~kept], reasons))


def _counted_anew(
    member: LongArray, flat: LongArray, age: IntArray, possible: BoolArray, delivered: Delivered, kind: ClaimKind
) -> BoolArray:
    """Marks the claims to keep after the broker lost the group and restarted its generations at 1. Memory is of the
    former count: it cannot contradict claims of the new count, which are kept, and claims of the former count are kept
    as far as it confirms them."""
    former = ~possible & (age <= delivered.generation)
    if kind is ClaimKind.CONSUMED:
        former &= _confirmed(member, flat, delivered)
    return possible | former


def _in_sequence(
    member: LongArray,
    flat: LongArray,
    age: IntArray,
    possible: BoolArray,
    delivered: Delivered,
    kind: ClaimKind,
    limit: int,
) -> BoolArray:
    given = delivered.given[flat]
    last = delivered.generation
    if kind is ClaimKind.HISTORY:
        # A list of an older generation was true at its time; for its own generation the leader knows what it delivered.
        of_last = (age == last) & (age >= 0)
        false = of_last & delivered.took_part[member] & (given != member) & delivered.topic_existed[flat]
    else:
        # A member without a generation may have been in a generation that another leader led, unless there was none
        # since.
        covered = np.where(age >= 0, age <= last, last == limit - 1)
        false = covered & ~_confirmed(member, flat, delivered)
    if possible.all():
        return np.asarray(~false)
    # An impossible generation says nothing about age. Without memory the group may have restarted its count; then a
    # claim is harmless as long as no other member claims the partition with a possible generation.
    contested = np.zeros(len(delivered.given), dtype=np.bool_)
    contested[flat[possible]] = True
    unclear = (last < 0) & (given == NOBODY) & ~contested[flat]
    kept: BoolArray = np.where(possible, ~false, (given == member) | unclear)
    return kept


def _confirmed(member: LongArray, flat: LongArray, delivered: Delivered) -> BoolArray:
    """Marks claims to partitions that the member was given, or still had without having been asked too often, or that
    the last plan did not contain."""
    holds = (delivered.holder[flat] == member) & (delivered.asked[flat] <= REPEATS_MAX)
    return np.asarray((delivered.given[flat] == member) | holds | ~delivered.topic_existed[flat])


def _named(member: LongArray, which: BoolArray, reason: str) -> dict[int, str]:
    return dict.fromkeys(distinct(member[which]).tolist(), reason) if which.any() else {}
