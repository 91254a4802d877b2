"""Readers and writers of Kafka's primitive types, the value types that messages share, and the two kinds of errors."""

from bellwether_kafka.protocol.primitives.codec import (
    LocalProtocolError,
    ProtocolError,
    Reader,
    RemoteProtocolError,
    Writer,
)
from bellwether_kafka.protocol.primitives.java import (
    computed_map_order,
    hash_map_order,
    hash_order,
    java_sorted,
    spread,
    string_code,
    string_hash,
    task_hash,
    task_set_order,
    uuid_hash,
)
from bellwether_kafka.protocol.primitives.types import (
    HostInfo,
    ProcessId,
    TaskId,
    TopicPartition,
    is_topic_name,
    possible_topics,
    whole_number,
)
