"""What Bellwether itself sends as a member of a group."""

from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)


def own_subscription(*topics: str, streams: bool = False) -> bytes:
    return ConsumerProtocolSubscription(0, topics, SubscriptionInfo().encode() if streams else b"").encode()


def own_assignment(*, streams: bool = False) -> bytes:
    return ConsumerProtocolAssignment(user_data=AssignmentInfo().encode() if streams else None).encode()
