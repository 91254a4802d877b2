"""One class per embedded message, for all its versions. They are the readable form, with which tests compare."""

from bellwether_kafka.protocol.messages.consumer import (
    CONSUMER_VERSION_MAX,
    NO_GENERATION,
    RACK_AFFINITY,
    STICKY,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_sticky_user_data,
    read_generation,
    read_rack_affinity,
)
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
    process_in_client_id,
    reported_process,
)
from bellwether_kafka.protocol.messages.streams import (
    LATEST_OFFSET,
    NEVER_MS,
    STREAMS_VERSION_MAX,
    UNKNOWN_OFFSET_SUM,
    AssignmentInfo,
    PackedSums,
    SubscriptionInfo,
)
