"""A described group whose members have unequal work."""

from dataclasses import replace

from bellwether_kafka.coordinator.kafka import GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Node
from tests.support.own_bytes import own_subscription
from tests.unit.coordinator.cli.described import GROUPS, Described

FIRST, SECOND = "app-0af1c2d3-1111-4222-8333-444455556666", "app-0bc2c2d3-1111-4222-8333-444455556666"
INSTANCE = DescribedMember("bellwether-1", "bellwether", own_subscription("orders"), b"", "bellwether", "/h")
OTHERS = {
    "empty": DescribeAnswer(0, 0, "Empty", "consumer"),
    "led": DescribeAnswer(0, 0, "Stable", "consumer", "range", (*GROUPS["stable"].members, INSTANCE)),
    "connect": DescribeAnswer(0, 0, "Stable", "connect", "sessioned"),
}


class AllKinds(Described):
    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return OTHERS[group_id] if group_id in OTHERS else await super().describe_group(group_id)

    async def list_groups(self, node: Node) -> GroupList:
        others = (ListedGroup(name, group.protocol_type, group.state, "classic") for name, group in OTHERS.items())
        return GroupList(0, (*(await super().list_groups(node)).groups, *others))


class Uneven(AllKinds):
    """A group whose first member has everything, and whose second one has just come."""

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        (first,) = GROUPS["stable"].members
        named = replace(first, member_id=FIRST)
        return replace(GROUPS["stable"], members=(named, replace(named, member_id=SECOND, assignment=b"")))
