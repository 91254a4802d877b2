"""Members as the watch of owners sees them."""

from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition


def member(subscribed: str, owned: str = "", member_id: str = "a") -> DescribedMember:
    """`member("t u", "t")` subscribes to both, and has partition 0 of `t`."""
    metadata = ConsumerProtocolSubscription(3, tuple(subscribed.split()), None, (), -1, None).encode()
    partitions = tuple(TopicPartition(topic, 0) for topic in owned.split())
    return DescribedMember(member_id, member_id, metadata, ConsumerProtocolAssignment(3, partitions).encode())
