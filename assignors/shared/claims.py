"""Which claims of members are believed: the only door through which claims reach the views of any kind of group.

A claim that cannot be true keeps partitions from everybody else for as long as it is repeated, because what a member
still consumes is pending for others. So claims are compared with the group's generation and with what the leader has
delivered (docs/reference/assignors.md#claims-that-are-not-believed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, IntArray, LongArray, distinct
from bellwether_kafka.assignors.shared.memory import Memory
from bellwether_kafka.assignors.shared.model import NO_GENERATION, NOBODY, ClusterView, Refused

# A consumer counts itself to a generation from its JoinGroup on. Where the next rebalance begins before it gets that
# plan, it joins again with what it had before. So often it may say so before it is taken for a member that keeps what
# it was to give up.
REPEATS_MAX = 2

AHEAD = "claims partitions in a generation that the group has not reached"
UNGIVEN = "claims partitions that it was never given, or was to give up"
IGNORED = "claims partitions, which members under this protocol revoke before they join"


class ClaimKind(Enum):
    """What a claim under a protocol says."""

    CONSUMED = "what the member consumes now"
    HISTORY = "what it consumed before it revoked everything"
    NOTHING = "nothing: no leader reads it"


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What members say: `member` (row) and `flat` run in parallel, `generation` is per member; NO_GENERATION where it
    names none."""

    member: LongArray
    flat: LongArray
    generation: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Delivered:
    """What the leader remembers, in the coordinates of this rebalance. `took_part` marks the members of that
    generation. Per flat partition: `given` is the member that the plan gave it to, `holder` another one that still had
    it then, `asked` the plans in a row that asked that one to give it up. Of topics that are not `known` the plan
    knew nothing: of one that was deleted and made again a member may still have partitions."""

    generation: int
    took_part: BoolArray
    given: IntArray
    holder: IntArray
    asked: IntArray
    known: BoolArray

    @classmethod
    def of(cls, memory: Memory, cluster: ClusterView, keys: Sequence[str], given: IntArray) -> "Delivered":
        """`given` is `memory.owner_in(cluster, keys)`."""
        took_part = np.array([key in memory.index for key in keys], dtype=np.bool_)
        return cls(
            generation=memory.generation,
            took_part=took_part,
            given=given,
            holder=memory.holder_in(cluster, keys),
            asked=memory.asked_in(cluster),
            known=memory.known_in(cluster),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Believed:
    """`kept` and `asked` are parallel to the claims: which are believed, and the plans in a row that will have asked
    for the partition if this plan does. `generation` is per member, NO_GENERATION in place of what cannot be true."""

    kept: BoolArray
    asked: IntArray
    generation: IntArray
    refused: Refused


def believe(claims: Claims, delivered: Delivered, kind: ClaimKind, *, generation: int, resting: bool) -> Believed:
    """Judges claims that came in the JoinGroups of this generation. In a resting group members may have joined in the
    present one."""
    limit = generation + resting
    member, flat = claims.member, claims.flat
    age = claims.generation[member]
    if kind is ClaimKind.NOTHING:
        kept = np.zeros(len(member), dtype=np.bool_)
        dateless = np.full_like(claims.generation, NO_GENERATION)
        refused = Refused(member, flat, _named(member, ~kept, IGNORED))
        return Believed(kept, np.zeros(len(member), dtype=np.int32), dateless, refused)
    possible = age < limit
    if delivered.generation >= limit:
        kept = _counted_anew(member, flat, age, possible, delivered, kind)
    else:
        kept = _in_sequence(member, flat, age, possible, delivered, kind, limit)
    # Without memory nobody else has what is believed of these, and they still compare with one another.
    true = (claims.generation < limit) | (delivered.generation < 0)
    dated = np.where(true, claims.generation, NO_GENERATION).astype(np.int32)
    again = delivered.holder[flat] == member
    asked = np.where(again, delivered.asked[flat], 0).astype(np.int32) + np.int32(1)
    reasons = _named(member, ~kept & possible, UNGIVEN) | _named(member, ~kept & ~possible, AHEAD)
    return Believed(kept, asked, dated, Refused(member[~kept], flat[~kept], reasons))


def _counted_anew(
    member: LongArray, flat: LongArray, age: IntArray, possible: BoolArray, delivered: Delivered, kind: ClaimKind
) -> BoolArray:
    """The broker has lost the group and counts from 1 again: memory is of its former life. What members say of the new
    one is not in it; what they say of the former one is."""
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
        # Lists of older generations are true of their time; the leader knows its own.
        false = delivered.took_part[member] & (age == last) & (age >= 0) & (given != member) & delivered.known[flat]
    else:
        # A member that names no generation may have joined one that another led, unless there was none.
        covered = np.where(age >= 0, age <= last, last == limit - 1)
        false = covered & ~_confirmed(member, flat, delivered)
    if possible.all():
        return np.asarray(~false)
    # A number that cannot be is no number. Without memory it may be the group's that counts anew: then a claim harms
    # nobody as long as no other member has the partition.
    contested = np.zeros(len(delivered.given), dtype=np.bool_)
    contested[flat[possible]] = True
    unclear = (last < 0) & (given == NOBODY) & ~contested[flat]
    kept: BoolArray = np.where(possible, ~false, (given == member) | unclear)
    return kept


def _confirmed(member: LongArray, flat: LongArray, delivered: Delivered) -> BoolArray:
    """Claims of what the member was given, or had and was not asked for too often, or the plan did not know."""
    holds = (delivered.holder[flat] == member) & (delivered.asked[flat] <= REPEATS_MAX)
    return np.asarray((delivered.given[flat] == member) | holds | ~delivered.known[flat])


def _named(member: LongArray, which: BoolArray, reason: str) -> dict[int, str]:
    return dict.fromkeys(distinct(member[which]).tolist(), reason) if which.any() else {}
