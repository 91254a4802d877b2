"""What librdkafka reads: the cluster's metadata, offsets of logs, configurations, with the logins of `wire`."""

from bellwether_kafka.coordinator.kafka.client.broker_configs import (
    SettingOfBroker,
    oldest_release,
    read_broker_config,
    read_size_limit,
    read_supported,
)
from bellwether_kafka.coordinator.kafka.client.cluster import (
    ClusterReader,
    ClusterUnreachableError,
    SharedReader,
    any_node,
    compacted_topics,
    follower_fetching,
    in_sync_replicas,
)
from bellwether_kafka.coordinator.kafka.client.librdkafka import (
    DENIED,
    IRRELEVANT_TO_READERS,
    NO_TOPIC,
    SILENCE,
    LoginError,
    Renewed,
    librdkafka_client,
    with_remedy,
)
from bellwether_kafka.coordinator.kafka.client.metadata import MetadataRead
from bellwether_kafka.coordinator.kafka.client.metadata_watch import MetadataWatch
from bellwether_kafka.coordinator.kafka.client.offset_reader import (
    NO_END,
    Counts,
    Ends,
    OffsetReader,
    Offsets,
    OffsetsError,
)
