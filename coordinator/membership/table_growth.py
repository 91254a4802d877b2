"""Which members a take-over has to remove, and how large the broker's table of members has to be for it. Pure.

In Java's table no new member id comes before a member of the first bucket
(docs/reference/broker-behaviour.md#leader-succession). Such members would lead once the leader is gone, so they have to
be removed with it. The larger the table, the fewer they are, and a table never shrinks: temporary members of
Bellwether's own, which leave before the rebalance ends, make it large enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import (
    BUCKETS_MIN,
    HashOrder,
    MemberTable,
    chance,
    grown,
    passable,
    unavoidable,
)

# Each needs a connection for as long as it is in the rebalance. 97 members make a table of 256 buckets.
TEMPORARY_MAX = 97
JAVA = HashOrder.JAVA
# Bellwether and the id that opens the next rebalance: the table must not grow once more when they come.
OWN_MEMBERS = 2
# For so much of the time for a member id only one that sorts first will do. Later one will do behind which the members
# are few enough to be removed with the leader: of a large group that is found much sooner.
CHOOSY = 0.5
# Where it is likelier than this that no id is found in time, nobody is disturbed. Of 1,500 random groups of 2 to 50
# members 98 in 100 are below it, and one in 1,600 is then disturbed in vain.
FAILS_MAX = 0.02
SELDOM = 0.001  # what is less likely is not foretold


@dataclass(frozen=True, slots=True)
class Chance:
    """In one of the tables that the broker's may be: the chance of a random id that no other member sorts before it,
    and that only members do that may be removed besides. How `likely` the table is: one that is twice as large half as
    much, because few groups were ever much larger than they are."""

    likely: float
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Growth:
    """So many `temporary` members, 0 for none, make the broker's table one of `tables`. `ahead` would lead there before
    Bellwether, whatever its member id, the leader among them where it is one of these. `next` are those that
    may have to be removed besides, where no id that sorts first is found in time."""

    temporary: int
    tables: tuple[MemberTable, ...]
    ahead: tuple[str, ...]
    chances: tuple[Chance, ...]
    next: tuple[str, ...]

    def besides(self, leader: str) -> tuple[str, ...]:
        """The members to remove with the leader; "" for one that is not known."""
        return tuple(member_id for member_id in self.ahead if member_id != leader)


def growths(
    members: Sequence[str], possible: Iterable[MemberTable], size_max: int | None, allowed: int = 1
) -> Iterator[Growth]:
    """What can be reached, the smallest table first. `possible` are the tables that list the members as the broker
    does; `size_max` is the brokers' group.max.size; `allowed`: so many members may be removed. A group must never
    become so full that the broker refuses its members, so nothing grows where that is not known (None)."""
    possible, size = tuple(possible), len(members)
    now = _growth(members, 0, grown(possible, size + 1), allowed)
    yield now
    buckets = BUCKETS_MIN
    while size_max is not None:
        buckets *= 2
        temporary = 3 * buckets // 8 + 1 - size
        if temporary > TEMPORARY_MAX or size + max(temporary, OWN_MEMBERS) + OWN_MEMBERS > size_max:
            return
        after = grown(possible, size + max(temporary, OWN_MEMBERS))
        if temporary > 0 and after != now.tables:
            now = _growth(members, max(temporary, OWN_MEMBERS), after, allowed)
            yield now


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a take-over of these members would come to. `leader` is "" where it is not known, which is so until
    Bellwether has joined; `allowed`: so many members may be removed; `tries`: so many member ids can be tried while
    members wait, None where they do not."""

    members: tuple[str, ...]
    leader: str
    growths: tuple[Growth, ...]
    allowed: int
    tries: int | None

    @property
    def chosen(self) -> Growth:
        """Of the growths that suffice, the one after which the fewest members have to be removed, and of these one that
        hardly ever fails, and the smallest."""

        def cost(growth: Growth) -> tuple[bool, int, bool, bool, int]:
            besides, risky = growth.besides(self.leader), self._fails(growth) > SELDOM
            return not self._suffices(growth), len(besides), risky, bool(self._perhaps(growth)), growth.temporary

        return min(self.growths, key=cost)

    @property
    def with_leader(self) -> tuple[str, ...]:
        """The members that are removed with the leader; one of them may be the leader where that is not known."""
        return self.chosen.besides(self.leader)

    @property
    def perhaps(self) -> tuple[str, ...]:
        """The members of which one more may have to be removed, where no id is found in time that sorts first."""
        return self._perhaps(self.chosen)

    @property
    def fails(self) -> float:
        """The probability that no suitable id is found in time."""
        return self._fails(self.chosen)

    @property
    def begins(self) -> bool:
        return self._suffices(self.chosen)

    def _suffices(self, growth: Growth) -> bool:
        return len(growth.besides(self.leader)) < self.allowed and self._fails(growth) <= FAILS_MAX

    def _perhaps(self, growth: Growth) -> tuple[str, ...]:
        if self._finds_none(growth, later=0) < SELDOM:
            return ()
        return tuple(member_id for member_id in growth.next if member_id != self.leader)

    def _fails(self, growth: Growth) -> float:
        return self._finds_none(growth, later=1 - CHOOSY)

    def _finds_none(self, growth: Growth, later: float) -> float:
        """The probability that no id is found in the time in which only one that sorts first will do, and in so much
        of the time after that."""
        if self.tries is None:
            return 0.0
        first, second = self.tries * CHOOSY, self.tries * later
        return float(sum(one.likely * (1 - one.first) ** first * (1 - one.second) ** second for one in growth.chances))

    def first_slots(self) -> dict[int, tuple[str, ...]]:
        """By size: the members in the first slot of each table that the broker may have or come to have."""
        sizes = sorted({table.buckets for growth in self.growths for table in growth.tables if table.order is JAVA})
        return {size: unavoidable(self.members, MemberTable(JAVA, size)) for size in sizes}


def forecast(
    members: Sequence[str],
    possible: Iterable[MemberTable],
    leader: str,
    evictions_max: int,
    size_max: int | None,
    tries: int | None = None,
) -> Forecast:
    """`possible` as for `growths`. A member that is alone leads."""
    known = members[0] if len(members) == 1 else leader if leader in members else ""
    allowed = removals_allowed(len(members), evictions_max)
    return Forecast(tuple(members), known, tuple(growths(members, possible, size_max, allowed)), allowed, tries)


def removals_allowed(members: int, evictions_max: int) -> int:
    """How many of so many members a take-over may remove: the leader always, others only where fewer than half of the
    group are removed."""
    return max(1, min(evictions_max, (members - 1) // 2))


def _growth(members: Sequence[str], temporary: int, tables: tuple[MemberTable, ...], allowed: int) -> Growth:
    ahead = max((unavoidable(members, table) for table in tables), key=len, default=())
    behind = max(0, allowed - 1 - len(ahead))
    # An id has to be good when Bellwether has come, and in a cooperative group when the opener has come as well. Which
    # of the tables is the broker's shows in the first few ids, so each counts by itself.
    each = {table: dict.fromkeys((table, *grown([table], len(members) + OWN_MEMBERS))) for table in tables}
    total = sum(1 / table.buckets for table in each)
    chances = (
        Chance(1 / table.buckets / total, chance(members, known, 0), chance(members, known, behind))
        for table, known in each.items()
    )
    after = (m for known in each.values() for table in known for m in passable(members, table)[:behind])
    return Growth(temporary, tables, ahead, tuple(chances), tuple(dict.fromkeys(after)))
