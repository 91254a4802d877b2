"""A cluster with a group of consumers and an application, as its brokers describe them."""

from collections.abc import Sequence

from bellwether_kafka.coordinator.kafka.wire import GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Node
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import EmbeddedTransport
from tests.kit.streams import Thread


def consumer(name: str, rack: str, *owned: int) -> DescribedMember:
    message = ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode()
    has = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in owned)).encode()
    return DescribedMember(name, None, message, has, "app", "/h")


def groups() -> dict[str, DescribeAnswer]:
    """Consumers that read from each other's racks, and an application whose leader has assigned nothing yet."""
    crossed = (consumer("m1", "az1", 1), consumer("m2", "az2", 2), consumer("m3", "az3", 0))
    thread = Thread("shop-1-StreamThread-1").raw
    member = DescribedMember(thread.member_id, None, thread.metadata, b"", "shop-1-StreamThread-1-consumer", "/h")
    return {
        "billing": DescribeAnswer(0, 0, "Stable", "consumer", "range", crossed),
        "shop": DescribeAnswer(0, 0, "Stable", "consumer", "stream", (member,)),
    }


class TwoGroups(EmbeddedTransport):
    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return groups()[group_id]

    async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        return {group_id: groups()[group_id] for group_id in group_ids}

    async def list_groups(self, _node: Node) -> GroupList:
        listed = (ListedGroup(name, "consumer", answer.state, "classic") for name, answer in groups().items())
        return GroupList(0, tuple(listed))
