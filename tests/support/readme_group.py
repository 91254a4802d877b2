"""The group that the README shows."""

from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.support.own_bytes import own_subscription


def orders_member(letter: str, rack: str, partitions: range) -> DescribedMember:
    sent = ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode()
    has = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in partitions)).encode()
    member_id = f"checkout-{letter}-{letter}f0c2b7e-5d14-4c0a-9b57-2f1f6c1f8a3d"
    return DescribedMember(member_id, None, sent, has, f"checkout-{letter}", "/10.0.0.7")


MEMBERS = (orders_member("a", "az1", range(3)), orders_member("b", "az2", range(3, 6)))
INSTANCE = DescribedMember("bellwether-1", "bellwether", own_subscription("orders"), b"", "bellwether", "/10.0.0.9")
SHOWN = {
    "billing": DescribeAnswer(0, 0, "Empty", "consumer"),
    "orders": DescribeAnswer(0, 0, "Stable", "consumer", "range", MEMBERS),
    "shipping": DescribeAnswer(0, 0, "Stable", "consumer", "range", (*MEMBERS, INSTANCE)),
}
