"""Groups in every condition, on embedded brokers."""

from collections.abc import Sequence
from typing import Any

from bellwether_kafka.coordinator import kafka
from bellwether_kafka.coordinator.kafka import BrokerGroup, BrokerMember, GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Node
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.support.embedded_transport import EmbeddedTransport

SUBSCRIPTION = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode()
ASSIGNMENT = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in range(3))).encode()
MISSING = DescribeAnswer(0, 69)
GROUPS = {
    "stable": DescribeAnswer(
        0, 0, "Stable", "consumer", "range", (DescribedMember("m1", None, SUBSCRIPTION, ASSIGNMENT, "app", "/h"),)
    ),
    "rebalancing": DescribeAnswer(
        0, 0, "PreparingRebalance", "consumer", "", (DescribedMember("m1", None, client_id="app", client_host="/h"),)
    ),
    "missing": MISSING,
    "converted": DescribeAnswer(0, 0, "Dead"),
}
CONVERTED = BrokerGroup(
    "converted",
    "consumer",
    0,
    state="Stable",
    epoch=3,
    assignor="uniform",
    members=(BrokerMember("m1", None, "az1", "app", "/h", ("orders",), (("orders", (0, 1, 2)),)),),
)


class Described(EmbeddedTransport):
    """Answers of DescribeGroups and ListGroups, which embedded brokers do not have."""

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return GROUPS[group_id]

    async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        return {group_id: await self.describe_group(group_id) for group_id in group_ids}

    async def ask(self, request: Any) -> Any:
        """What several groups share one request for."""
        if isinstance(request, kafka.DescribeMany):
            return await self.describe_groups(request.node, request.group_ids)
        if isinstance(request, kafka.DescribeManyByBroker):
            return {
                group_id: await self.describe_by_broker(group_id, request.protocol) for group_id in request.group_ids
            }
        return await super().ask(request)

    async def describe_by_broker(self, group_id: str, protocol: kafka.BrokerProtocol) -> BrokerGroup:
        exists = group_id == "converted" and protocol == "consumer"
        return CONVERTED if exists else BrokerGroup(group_id, protocol, 69)

    async def list_groups(self, _node: Node) -> GroupList:
        listed = (
            ListedGroup(name, "consumer", answer.state, "consumer" if name == "converted" else "classic")
            for name, answer in GROUPS.items()
            if answer is not MISSING
        )
        return GroupList(0, tuple(listed))
