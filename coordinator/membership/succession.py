"""Whether Bellwether can win the lead by joining a rebalance before dead members are removed from it. Pure.

When the leader is removed, the broker elects the first member in the order of its table, whether it has rejoined or not
(docs/internals/broker-behaviour.md#leader-succession). A member that joins later has to wait until that leader goes. So
Bellwether joins with an id that sorts first, waits until it is listed in the group, and only then are the dead members
removed. The group loses the time of the search for the id, while it waits for live members anyway.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import grown, tables, unavoidable
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, GroupState

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
