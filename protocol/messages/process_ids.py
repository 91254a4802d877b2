"""Which process a member belongs to, as its subscription says."""

from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from bellwether_kafka.protocol.messages.stateful import PROTOCOL, StatefulSubscription
from bellwether_kafka.protocol.messages.streams_subscription import SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError

_NO_PROCESS = SubscriptionInfo().process_id


def reported_process(metadata: bytes, protocol: str = "") -> str | None:
    """The process id in the subscription of a Kafka Streams thread, or of a stateful member where the group's protocol
    is theirs; None in every other, and in one that cannot be read."""
    try:
        user_data = ConsumerProtocolSubscription.decode(metadata).user_data if metadata else None
        if not user_data:
            return None
        if protocol == PROTOCOL:
            return _named(StatefulSubscription.decode(user_data))
        info = SubscriptionInfo.decode(user_data)
    except RemoteProtocolError:
        return None
    return None if info.future else _named(info)


def _named(subscription: SubscriptionInfo | StatefulSubscription) -> str | None:
    return None if subscription.process_id == _NO_PROCESS else str(subscription.process_id)
