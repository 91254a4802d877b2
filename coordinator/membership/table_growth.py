"""Which members a take-over has to remove, and how large the broker's table of members has to be for it. Pure.

In Java's table no new member id sorts before a member of the first bucket
(docs/internals/broker-behaviour.md#leader-succession). Such a member would lead once the leader is gone, so it has to
be removed as well. The larger the table, the fewer such members, and a table never shrinks. So temporary members of
Bellwether's, which leave before the rebalance ends, make it large enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.coordinator.membership.broker_order import (
    BUCKETS_MIN,
    HashOrder,
    MemberTable,
    chance,
    grown,
    passable,
    unavoidable,
)

# Each needs its own connection while it is in the rebalance. 97 members make a table of 256 buckets.
TEMPORARY_MAX = 97
JAVA = HashOrder.JAVA
# Bellwether and the opener of the next rebalance: the table must not grow again when they join.
OWN_MEMBERS = 2
# For this share of the search time only an id that sorts first is accepted; later also an id behind so few members that
# they can be removed with the leader, which is found much sooner in a large group.
SORTS_FIRST_SHARE = 0.5
# A take-over is not begun if the probability of finding no id in time is higher. Of 1,500 random groups of 2 to 50
# members, 98 in 100 are below it, and one in 1,600 is then disturbed in vain.
FAILS_MAX = 0.02
NEGLIGIBLE = 0.001  # forecasts leave out what is less likely


@dataclass(frozen=True, slots=True)
class Chance:
    """The odds of a random id in one of the tables that the broker may have. `first`: that no other member sorts before
    it. `second`: that only members sort before it which may also be removed. `likely`: the weight of this table; one
    twice as large has half the weight, because few groups were ever much larger than they are."""

    likely: float
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Growth:
    """One possible size of the broker's table. `temporary`: how many temporary members it takes, 0 for none. `tables`:
    what the broker's table may then be. `ahead`: members that would lead before Bellwether whatever its member id; may
    include the leader. `chances`: one entry per table. `next`: members that may also have to be removed if no id that
    sorts first is found in time."""

    temporary: int
    tables: tuple[MemberTable, ...]
    ahead: tuple[str, ...]
    chances: tuple[Chance, ...]
    next: tuple[str, ...]

    def besides(self, leader: str) -> tuple[str, ...]:
        """Returns the members to remove with the leader; `leader` is "" if it is not known."""
        return tuple(member_id for member_id in self.ahead if member_id != leader)


def growths(
    members: Sequence[str], possible: Iterable[MemberTable], size_max: int | None, allowed: int = 1
) -> Iterator[Growth]:
    """Yields every reachable growth, the smallest table first.

    `possible` are the tables consistent with the broker's listing; `size_max` is the brokers' group.max.size; `allowed`
    is how many members may be removed. A group must never become so full that the broker refuses its members, so no
    table grows if `size_max` is not known (None).
    """
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
    """What a take-over of these members would require. `leader` is "" if it is not known, as before Bellwether has
    joined. `allowed`: how many members may be removed. `tries`: how many member ids can be tried while members wait;
    None if they do not wait."""

    members: tuple[str, ...]
    leader: str
    growths: tuple[Growth, ...]
    allowed: int
    tries: int | None

    @property
    def chosen(self) -> Growth:
        """The best growth. In this order: it suffices, the fewest members have to be removed, it hardly ever fails, it
        needs no further removal, and the table is the smallest."""

        def cost(growth: Growth) -> tuple[bool, int, bool, bool, int]:
            besides, risky = growth.besides(self.leader), self._fails(growth) > NEGLIGIBLE
            return not self._suffices(growth), len(besides), risky, bool(self._perhaps(growth)), growth.temporary

        return min(self.growths, key=cost)

    @property
    def with_leader(self) -> tuple[str, ...]:
        """The members that are removed with the leader. One of them may be the leader if that is not known."""
        return self.chosen.besides(self.leader)

    @property
    def perhaps(self) -> tuple[str, ...]:
        """Members of which one more may have to be removed if no id that sorts first is found in time."""
        return self._perhaps(self.chosen)

    @property
    def fails(self) -> float:
        """The probability that no suitable id is found in time."""
        return self._fails(self.chosen)

    @property
    def fails_as_it_is(self) -> float:
        """The probability that no id that sorts first is found in time if nothing is removed and no table grows."""
        if self.tries is None:
            return 0.0
        return float(sum(odds.likely * (1 - odds.first) ** self.tries for odds in self.growths[0].chances))

    @property
    def begins(self) -> bool:
        return self._suffices(self.chosen)

    def paced(self, tries: int | None) -> "Forecast":
        """Returns the forecast for the growth that has been chosen, if so many ids can be tried."""
        return replace(self, growths=(self.chosen,), tries=tries)

    def _suffices(self, growth: Growth) -> bool:
        return len(growth.besides(self.leader)) < self.allowed and self._fails(growth) <= FAILS_MAX

    def _perhaps(self, growth: Growth) -> tuple[str, ...]:
        if self._finds_none(growth, later=0) < NEGLIGIBLE:
            return ()
        return tuple(member_id for member_id in growth.next if member_id != self.leader)

    def _fails(self, growth: Growth) -> float:
        return self._finds_none(growth, later=1 - SORTS_FIRST_SHARE)

    def _finds_none(self, growth: Growth, later: float) -> float:
        """Returns the probability that no id is found: neither in the time in which only one that sorts first is
        accepted, nor in the share `later` of the whole time after that."""
        if self.tries is None:
            return 0.0
        first, second = self.tries * SORTS_FIRST_SHARE, self.tries * later
        fails = (odds.likely * (1 - odds.first) ** first * (1 - odds.second) ** second for odds in growth.chances)
        return float(sum(fails))

    def first_slots(self) -> dict[int, tuple[str, ...]]:
        """Returns, by size, the members in the first slot of each Java table that the broker may have or get."""
        sizes = sorted({table.buckets for growth in self.growths for table in growth.tables if table.order is JAVA})
        return {size: unavoidable(self.members, MemberTable(JAVA, size)) for size in sizes}


@dataclass(slots=True)
class Forecasts:
    """Makes the forecasts of one group. Its growths depend on neither the leader nor the tries, so they are computed
    only when the members, the tables or a limit have changed: a group is described every second, in the thread of all
    heartbeats."""

    _asked: tuple[object, ...] = ()
    _growths: tuple[Growth, ...] = ()

    def forecast(
        self,
        members: Sequence[str],
        possible: Iterable[MemberTable],
        leader: str,
        evictions_max: int,
        size_max: int | None,
        tries: int | None = None,
    ) -> Forecast:
        """Returns the forecast. `possible` is as for `growths`. The only member of a group is its leader."""
        known_leader = members[0] if len(members) == 1 else leader if leader in members else ""
        allowed = removals_allowed(len(members), evictions_max)
        ids, reachable = tuple(members), tuple(possible)
        asked = (ids, reachable, size_max, allowed)
        if asked != self._asked:
            self._asked, self._growths = asked, tuple(growths(ids, reachable, size_max, allowed))
        return Forecast(ids, known_leader, self._growths, allowed, tries)


def removals_allowed(members: int, evictions_max: int) -> int:
    """Returns how many of `members` a take-over may remove: always the leader; more only if that is fewer than half of
    the group."""
    return max(1, min(evictions_max, (members - 1) // 2))


def _growth(members: Sequence[str], temporary: int, tables: tuple[MemberTable, ...], allowed: int) -> Growth:
    ahead = max((unavoidable(members, table) for table in tables), key=len, default=())
    behind = max(0, allowed - 1 - len(ahead))
    # An id has to be good once Bellwether has joined and, in a cooperative group, once the opener has joined too. The
    # first few ids show which of the tables the broker has, so the chances are computed for each table separately.
    by_table = {table: dict.fromkeys((table, *grown([table], len(members) + OWN_MEMBERS))) for table in tables}
    total = sum(1 / table.buckets for table in by_table)
    chances = (
        Chance(1 / table.buckets / total, chance(members, growing, 0), chance(members, growing, behind))
        for table, growing in by_table.items()
    )
    after = (m for growing in by_table.values() for table in growing for m in passable(members, table)[:behind])
    return Growth(temporary, tables, ahead, tuple(chances), tuple(dict.fromkeys(after)))
