"""Finds the process of a member in its subscription or its client id."""

import re

from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from bellwether_kafka.protocol.messages.stateful import PROTOCOL, StatefulSubscription
from bellwether_kafka.protocol.messages.streams_subscription import SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError

_NO_PROCESS = SubscriptionInfo().process_id
_THREAD = re.compile(r".+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-StreamThread-\d+-consumer")


def reported_process(metadata: bytes, protocol: str = "") -> str | None:
    """Returns the process id in the subscription of a Kafka Streams thread, or of a stateful member if `protocol` is
    theirs; None for other members, and if the subscription cannot be read."""
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


def process_in_client_id(client_id: str) -> str | None:
    """Returns the process id in the client id of a Kafka Streams thread; None if the application sets `client.id`."""
    thread = _THREAD.fullmatch(client_id)
    return thread[1] if thread is not None else None


def _named(subscription: SubscriptionInfo | StatefulSubscription) -> str | None:
    return None if subscription.process_id == _NO_PROCESS else str(subscription.process_id)
