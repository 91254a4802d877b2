"""Predicts which member of a classic group leads when its leader goes: the first in the order of the broker's hash
table.

Two orders are known. `tests/interop/lead/test_succession.py` has tried both on real brokers:

JAVA   java.util.HashMap, the group coordinator of Kafka 4: by bucket, then by arrival. The table doubles above 3/4.
SCALA  scala.collection.mutable.HashMap, the coordinator of 3.9 and before: by bucket, then by the signed hash. The
       table doubles at 3/4.

Both begin with 16 buckets, never shrink, and use the low bits of h ^ h >>> 16 as the bucket, h being String.hashCode
(docs/internals/broker-behaviour.md#leader-succession). DescribeGroups lists members in the same order. So a listing
shows whether an order is possible, how large the table is, and which member is next.

Whether Bellwether can win the lead by joining a rebalance before dead members are removed from it follows from the same
order: when the leader is removed, the broker elects the first member of its table, whether it has rejoined or not. A
member that joins later has to wait until that leader goes. So Bellwether joins with an id that sorts first, waits until
it is listed in the group, and only then are the dead members removed. The group loses the time of the search for the
id, while it waits for live members anyway.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from math import inf

from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.protocol.primitives import string_code

BUCKETS_MIN = 16
DOUBLINGS_MAX = 6  # how often a table may have doubled beyond its present need
SIGN = 1 << 31


class HashOrder(Enum):
    JAVA = "java"
    SCALA = "scala"


@dataclass(frozen=True, slots=True)
class MemberTable:
    """A broker's table of members: its order and its number of buckets."""

    order: HashOrder
    buckets: int


@lru_cache(maxsize=16_384)
def spread_hash(member_id: str) -> int:
    """Returns h ^ h >>> 16 of String.hashCode, unsigned."""
    value = string_code(member_id)
    return value ^ value >> 16


def buckets_for(members: int, order: HashOrder) -> int:
    """Returns the number of buckets of a table that never held more than this many members."""
    buckets = BUCKETS_MIN
    while 4 * members > 3 * buckets or (order is HashOrder.SCALA and 4 * members == 3 * buckets):
        buckets *= 2
    return buckets


def grown(present: Iterable[MemberTable], members: int) -> tuple[MemberTable, ...]:
    """Returns these tables after they have come to hold this many members."""
    return tuple(MemberTable(table.order, max(table.buckets, buckets_for(members, table.order))) for table in present)


def on_the_way(present: Iterable[MemberTable], largest: Iterable[MemberTable]) -> tuple[MemberTable, ...]:
    """Returns what the `present` tables may be if it is not certain that they have grown as far as `largest`."""
    most = max((table.buckets for table in largest), default=0)
    doubled = (MemberTable(t.order, t.buckets << n) for t in present for n in range(DOUBLINGS_MAX + 1))
    return tuple(dict.fromkeys(table for table in doubled if table.buckets <= most or table in present))


def tables(listing: Sequence[str]) -> tuple[MemberTable, ...]:
    """Returns every table that lists these members in this order; empty if Bellwether does not know the broker's order.
    Few members prove little: two members are in ascending order in half of all cases."""
    hashes = [spread_hash(member_id) for member_id in listing]
    smallest = {order: buckets_for(len(listing), order) for order in HashOrder}
    larger = (MemberTable(order, buckets << n) for order, buckets in smallest.items() for n in range(DOUBLINGS_MAX + 1))
    return tuple(table for table in larger if _ascends(hashes, table))


def sorting_before(members: Iterable[str], own: str, table: MemberTable) -> tuple[str, ...]:
    """Returns the members that sort before `own`, an id that is new in this table."""
    mine = _key(spread_hash(own), table)
    return tuple(m for m in members if m != own and _key(spread_hash(m), table) <= mine)


def unavoidable(members: Iterable[str], table: MemberTable) -> tuple[str, ...]:
    """Returns the members that every new id sorts behind: in Java's table those of the first bucket, which came
    first."""
    if table.order is HashOrder.SCALA:
        return ()
    return tuple(m for m in members if spread_hash(m) & (table.buckets - 1) == 0)


def sorts_first(members: Iterable[str], own: str, possible: Iterable[MemberTable]) -> bool:
    """Returns whether no new id could do better than `own`: in each of these tables, only unavoidable members sort
    before it."""
    others = [m for m in members if m != own]
    return all(set(sorting_before(others, own, table)) <= set(unavoidable(others, table)) for table in possible)


def comes_behind(members: Iterable[str], own: str, possible: Iterable[MemberTable]) -> int:
    """Returns how many members sort before the new id `own`, in the least favourable of these tables."""
    others = [m for m in members if m != own]
    return max((len(sorting_before(others, own, table)) for table in possible), default=0)


def passable(members: Iterable[str], table: MemberTable) -> list[str]:
    """Returns the members that a new id can sort before, in the table's order."""
    avoidable = {*members}.difference(unavoidable(members, table))
    return sorted(avoidable, key=lambda m: _key(spread_hash(m), table))


def chance(members: Sequence[str], possible: Iterable[MemberTable], behind: int) -> float:
    """Returns the probability that, in each of these tables, at most `behind` of the members that a new id can pass
    sort before a random new id."""
    limits: dict[int, float] = {}
    for table in possible:
        limits[table.buckets] = min(limits.get(table.buckets, inf), _first_taken(members, table, behind))
    ascending = sorted(limits.items())
    size = ascending[-1][0] if ascending else 1
    return _good_below(size, ascending) / size


def _good_below(position: float, limits: Sequence[tuple[int, float]]) -> float:
    """Returns how many of the positions below this one are below the limit of each of these tables, the largest of
    which has it. A smaller table repeats itself in a larger one, because its buckets are the lower bits of those."""
    if not limits:
        return position
    *smaller, (_, limit) = limits
    below = min(position, limit)
    if not smaller:
        return below
    period = smaller[-1][0]
    periods, rest = divmod(below, period)
    return periods * _good_below(period, smaller) + _good_below(rest, smaller)


def _first_taken(members: Sequence[str], table: MemberTable, behind: int) -> float:
    """Returns the position in the table that a random new id must stay below; the fraction is by signed hash in a
    bucket."""
    others = passable(members, table)
    if behind >= len(others):
        return float(table.buckets)
    bucket, *signed = _key(spread_hash(others[behind]), table)
    return bucket + sum((value + SIGN) / (2 * SIGN) for value in signed)


@dataclass(slots=True)
class Listing:
    """A group's members as the broker lists them, the tables that are consistent with that order, and which member
    would lead next. `own` is Bellwether's id as far as it is known; under an instance id it changes."""

    members: tuple[DescribedMember, ...]
    tables: tuple[MemberTable, ...]
    instance_id: str | None
    own: str = ""

    def is_own(self, member: DescribedMember) -> bool:
        by_instance = self.instance_id is not None and member.instance_id == self.instance_id
        return member.member_id == self.own or by_instance

    def puts_first(self, member_id: str, coming: Sequence[int]) -> bool:
        """Returns whether `member_id` would sort first for Bellwether, after each of these numbers of new members."""
        return sorts_first(*self._with(member_id, coming))

    def puts_behind(self, member_id: str, coming: Sequence[int]) -> int:
        """Returns how many members would then sort before `member_id`."""
        return comes_behind(*self._with(member_id, coming))

    def _with(self, member_id: str, coming: Sequence[int]) -> tuple[list[str], str, list[MemberTable]]:
        others = [m.member_id for m in self.members if not self.is_own(m)]
        return others, member_id, [t for n in coming for t in grown(self.tables, len(others) + n)]

    def ahead(self, own: str, leader: str, *, another_comes: bool) -> tuple[str, ...]:
        """Returns the members that would lead before Bellwether once `leader` is gone. `another_comes`: one more member
        of Bellwether's joins, which may make the table grow."""
        ids = [m.member_id for m in self.members]
        grown_tables = grown(self.tables, len({*ids, own}) + another_comes)
        if own in ids and not (another_comes and grown_tables != self.tables):
            return tuple(m for m in ids[: ids.index(own)] if m != leader)
        before_by_table = (sorting_before([m for m in ids if m != leader], own, table) for table in grown_tables)
        return max(before_by_table, key=len, default=())

    def refresh(self, members: tuple[DescribedMember, ...], own: str) -> None:
        """Replaces the listing. Each new id of Bellwether narrows down the tables; if none is left, the table may have
        grown when Bellwether came."""
        self.members, self.own = members, own
        possible = tables([m.member_id for m in members])
        self.tables = tuple(table for table in self.tables if table in possible) or possible

    def are_back(self, removed: Iterable[str], members: tuple[DescribedMember, ...]) -> bool:
        """Returns whether every removed member has come back as a new member of the same client. For a member that was
        never described, any new member counts."""
        before = {m.member_id: m for m in self.members}
        new = Counter(client_of(m) for m in members if m.member_id not in before and not self.is_own(m))
        gone = Counter(client_of(before[member_id]) for member_id in removed if member_id in before)
        return new.total() > 0 and gone <= new


def client_of(member: DescribedMember) -> tuple[str, str, str | None]:
    """Returns what a client keeps when it comes back under another member id."""
    return (member.client_id, member.client_host, member.instance_id)


def _ascends(hashes: Sequence[int], table: MemberTable) -> bool:
    return all(_key(before, table) <= _key(after, table) for before, after in pairwise(hashes))


def _key(value: int, table: MemberTable) -> tuple[int, ...]:
    """Returns the key that a table sorts by. Members with equal keys are in order of arrival."""
    bucket = value & (table.buckets - 1)
    return (bucket,) if table.order is HashOrder.JAVA else (bucket, _signed(value))


def _signed(value: int) -> int:
    return value - 2 * SIGN if value & SIGN else value


# ---- succession -----------------------------------------------------------------------------------------------------

# In other states a rebalance has just ended and its leader plans: joining then would open the next rebalance.
OPEN_TO_NEWCOMERS = frozenset({GroupState.PREPARING, GroupState.STABLE})


@dataclass(frozen=True, slots=True)
class Deaths:
    """A described group, and its members that are proven dead and about to be removed."""

    seen: DescribeAnswer
    dead: tuple[str, ...]

    @property
    def member_ids(self) -> tuple[str, ...]:
        """All members, in the order of the broker's table."""
        return tuple(member.member_id for member in self.seen.members)

    @property
    def survivors(self) -> tuple[str, ...]:
        return tuple(member_id for member_id in self.member_ids if member_id not in self.dead)

    def may_pass_the_lead(self, leader: str) -> bool:
        """Returns whether the leader may be among the dead. `leader` is the member that an answer named, "" if none
        did; it may have left since."""
        return bool(self.dead) and self.seen.state in OPEN_TO_NEWCOMERS and leader not in self.survivors

    @property
    def in_the_way(self) -> tuple[str, ...]:
        """The survivors that sort before every new id: if the leader is removed, the first of them leads."""
        return first_bucket(self.member_ids, self.survivors)


def first_bucket(member_ids: Sequence[str], among: Collection[str]) -> tuple[str, ...]:
    """Returns the members of `among`, in the listed order, that every new id sorts behind, in a table that lists these
    members and Bellwether."""
    possible = grown(tables(member_ids), len(member_ids) + 1)
    first = {member_id for table in possible for member_id in unavoidable(member_ids, table)}
    return tuple(member_id for member_id in member_ids if member_id in first and member_id in among)
