"""Which members a take-over has to remove, and how large the broker's table of members has to be for it. Pure.

In Java's table no new member id comes before a member of the first bucket
(docs/reference/broker-behaviour.md#leader-succession). Such members would lead once the leader is gone, so they have to
be removed with it. The larger the table, the fewer they are, and a table never shrinks: temporary members of
Bellwether's own, which leave before the rebalance ends, make it large enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import BUCKETS_MIN, HashOrder, Table, grown, unavoidable

# Each needs a connection for as long as it is in the rebalance. 97 members make a table of 256 buckets.
TEMPORARY_MAX = 97
JAVA = HashOrder.JAVA
# Bellwether and the id that opens the next rebalance: the table must not grow once more when they come.
OWN_MEMBERS = 2


@dataclass(frozen=True, slots=True)
class Growth:
    """So many `temporary` members, 0 for none, make the broker's table one of `tables`. `ahead` would lead there before
    Bellwether, whatever its member id, the leader among them where it is one of these."""

    temporary: int
    tables: tuple[Table, ...]
    ahead: tuple[str, ...]

    def besides(self, leader: str) -> tuple[str, ...]:
        """The members to remove with the leader; "" for one that is not known."""
        return tuple(member_id for member_id in self.ahead if member_id != leader)


def growths(members: Sequence[str], possible: Iterable[Table], size_max: int | None) -> Iterator[Growth]:
    """What can be reached, the smallest table first. `possible` are the tables that list the members as the broker
    does; `size_max` is the brokers' group.max.size. A group must never become so full that the broker refuses its
    members, so nothing grows where that is not known (None)."""
    possible, size = tuple(possible), len(members)
    now = _growth(members, 0, grown(possible, size + 1))
    yield now
    buckets = BUCKETS_MIN
    while size_max is not None:
        buckets *= 2
        temporary = 3 * buckets // 8 + 1 - size
        if temporary > TEMPORARY_MAX or size + max(temporary, OWN_MEMBERS) + OWN_MEMBERS > size_max:
            return
        after = grown(possible, size + max(temporary, OWN_MEMBERS))
        if temporary > 0 and after != now.tables:
            now = _growth(members, max(temporary, OWN_MEMBERS), after)
            yield now


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a take-over of these members would come to. `leader` is "" where it is not known, which is so until
    Bellwether has joined; `allowed`: so many members may be removed."""

    members: tuple[str, ...]
    leader: str
    growths: tuple[Growth, ...]
    allowed: int

    @property
    def chosen(self) -> Growth:
        """The growth after which the fewest members have to be removed, and of those the smallest."""
        return min(self.growths, key=lambda growth: len(growth.besides(self.leader)))

    @property
    def with_leader(self) -> tuple[str, ...]:
        """The members that are removed with the leader; one of them may be the leader where that is not known."""
        return self.chosen.besides(self.leader)

    @property
    def begins(self) -> bool:
        return len(self.with_leader) < self.allowed

    def first_slots(self) -> dict[int, tuple[str, ...]]:
        """By size: the members in the first slot of each table that the broker may have or come to have."""
        sizes = sorted({table.buckets for growth in self.growths for table in growth.tables if table.order is JAVA})
        return {size: unavoidable(self.members, Table(JAVA, size)) for size in sizes}


def forecast(
    members: Sequence[str], possible: Iterable[Table], leader: str, evictions_max: int, size_max: int | None
) -> Forecast:
    """`possible` as for `growths`. A member that is alone leads."""
    known = members[0] if len(members) == 1 else leader if leader in members else ""
    allowed = removals_allowed(len(members), evictions_max)
    return Forecast(tuple(members), known, tuple(growths(members, possible, size_max)), allowed)


def removals_allowed(members: int, evictions_max: int) -> int:
    """How many of so many members a take-over may remove: the leader always, others only where fewer than half of the
    group are removed."""
    return max(1, min(evictions_max, (members - 1) // 2))


def _growth(members: Sequence[str], temporary: int, tables: tuple[Table, ...]) -> Growth:
    ahead = max((unavoidable(members, table) for table in tables), key=len, default=())
    return Growth(temporary, tables, ahead)
