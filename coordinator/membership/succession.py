"""Whether the lead can be had by being in a rebalance before dead members are removed from it. Pure.

The broker elects when the leader is removed: the first in the order of its table, whether it has joined again or not
(docs/reference/broker-behaviour.md#leader-succession). Who comes after that has to wait for the next leader to go. So
Bellwether comes with an id that sorts first, is seen in the group, and only then the dead are removed. That costs the
group what the search for the id takes, while it waits for live members anyway.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import grown, tables, unavoidable
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, GroupState

# Elsewhere a rebalance has just ended, and its leader plans: who would come then would open the next one.
OPEN_TO_NEWCOMERS = frozenset({GroupState.PREPARING, GroupState.STABLE})


@dataclass(frozen=True, slots=True)
class Deaths:
    """Members of a described group that are proven to be dead, and are about to be removed."""

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
        """Whether the leader may be among the dead. `leader`: the member that an answer has named, "" where none has,
        or one that has gone since."""
        return bool(self.dead) and self.seen.state in OPEN_TO_NEWCOMERS and leader not in self.survivors

    @property
    def in_the_way(self) -> tuple[str, ...]:
        """Those that live on and sort before every new id: if the leader is removed, the first of them leads."""
        return first_bucket(self.member_ids, self.survivors)


def first_bucket(member_ids: Sequence[str], among: Collection[str]) -> tuple[str, ...]:
    """Those of `among` before which no new id can come in a table that lists the members so, Bellwether among them; in
    the listed order."""
    possible = grown(tables(member_ids), len(member_ids) + 1)
    first = {member_id for table in possible for member_id in unavoidable(member_ids, table)}
    return tuple(member_id for member_id in member_ids if member_id in first and member_id in among)
