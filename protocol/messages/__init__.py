"""One class per embedded message, for all its versions. They are the readable form, with which tests compare."""

from bellwether_kafka.protocol.messages.consumer import (
    CONSUMER_VERSION_MAX,
    NO_GENERATION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from bellwether_kafka.protocol.messages.process_ids import process_in_client_id, reported_process
from bellwether_kafka.protocol.messages.stateful import (
    PROTOCOL,
    STANDBY,
    UNKNOWN,
    WARMUP,
    Copy,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    Task,
)
from bellwether_kafka.protocol.messages.sticky import (
    RACK_AFFINITY,
    STICKY,
    encode_sticky_user_data,
    read_generation,
    read_rack_affinity,
)
from bellwether_kafka.protocol.messages.streams_assignment import NEVER_MS, STREAMS_VERSION_MAX, AssignmentInfo
from bellwether_kafka.protocol.messages.streams_subscription import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, SubscriptionInfo
