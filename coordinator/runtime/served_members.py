"""Describes groups that brokers assign by plans of Bellwether for the watch over absences."""

from collections.abc import Awaitable, Callable

from bellwether_kafka.coordinator.kafka import Transport
from bellwether_kafka.coordinator.membership import DescribeAnswer
from bellwether_kafka.coordinator.observation import described_by_broker
from bellwether_kafka.coordinator.planning import classic_view


def served_members(transport: Transport) -> Callable[[str], Awaitable[DescribeAnswer | None]]:
    """Returns a function that describes such a group as if a member led it, and returns None if its state is unknown
    or it has members of the classic protocol, as during a conversion."""

    async def described(group_id: str) -> DescribeAnswer | None:
        group = await described_by_broker(transport, group_id)
        if group is None or isinstance(group, int) or any(member.classic for member in group.members):
            return None
        return classic_view(group)

    return described
