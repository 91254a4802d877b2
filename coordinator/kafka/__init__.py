"""Everything that talks to brokers: group requests, metadata, offsets, logins and ACLs."""

from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.on_demand import on_demand

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.kafka.acls import (
        DENIED,
        IRRELEVANT_TO_READERS,
        NO_TOPIC,
        SILENCE,
        grant,
        with_remedy,
    )
    from bellwether_kafka.coordinator.kafka.broker_configs import (
        SettingOfBroker,
        oldest_release,
        read_broker_config,
        read_size_limit,
        read_supported,
    )
    from bellwether_kafka.coordinator.kafka.certificates import Renewed
    from bellwether_kafka.coordinator.kafka.client_properties import (
        ClientConfigError,
        check_kerberos,
        client_config,
        librdkafka_properties,
    )
    from bellwether_kafka.coordinator.kafka.cluster import (
        ClusterReader,
        ClusterUnreachableError,
        MetadataWatch,
        SharedReader,
        any_node,
        compacted_topics,
        follower_fetching,
        in_sync_replicas,
    )
    from bellwether_kafka.coordinator.kafka.describe_groups import (
        BROKER_PROTOCOLS,
        OWN_ASSIGNORS,
        AssignedPartitions,
        BrokerGroup,
        BrokerMember,
        BrokerProtocol,
        BrokerSubtopology,
        DescribeByBroker,
        ListedGroup,
        RemoveStreamsMember,
        SentTopology,
        asks_bellwether,
        policy_in,
    )
    from bellwether_kafka.coordinator.kafka.librdkafka_clients import LoginError, librdkafka_client
    from bellwether_kafka.coordinator.kafka.log_requests import (
        FindLeader,
        ReadRecords,
    )
    from bellwether_kafka.coordinator.kafka.many_groups import (
        Batches,
        DescribeMany,
        DescribeManyByBroker,
        FetchOffsetsOfMany,
        GroupList,
        LatestOffsets,
        ListAllGroups,
    )
    from bellwether_kafka.coordinator.kafka.metadata import MetadataRead
    from bellwether_kafka.coordinator.kafka.node_requests import (
        AnyCommitted,
        FetchedOffsets,
        NodeRequest,
        RemovedMembers,
        RemoveMembers,
        TopicIds,
        TransactionalIds,
    )
    from bellwether_kafka.coordinator.kafka.offset_messages import LogPlace
    from bellwether_kafka.coordinator.kafka.offset_reader import (
        NO_END,
        Counts,
        Ends,
        OffsetReader,
        Offsets,
        OffsetsError,
    )
    from bellwether_kafka.coordinator.kafka.producer_requests import (
        DescribeTransaction,
        FenceProducer,
        FindTransactionCoordinator,
    )
    from bellwether_kafka.coordinator.kafka.properties import (
        KAFKA_PREFIX,
        environment_tables,
        flattened,
        is_secret,
        process_properties,
        properties_in,
        service_links,
        shown_name,
    )
    from bellwether_kafka.coordinator.kafka.record_batches import Limits, Unread
    from bellwether_kafka.coordinator.kafka.temporary_members import (
        OTHER_TOPOLOGY,
        TEMPORARY_MEMBER,
        TEMPORARY_TOPIC,
        possible_topologies,
    )
    from bellwether_kafka.coordinator.kafka.topic_log import OFFSET_OUT_OF_RANGE, TopicLog, TopicLogError
    from bellwether_kafka.coordinator.kafka.transport import Transport, TransportError, UnreachableError
else:
    _HOMES = {
        "acls": ("DENIED", "IRRELEVANT_TO_READERS", "NO_TOPIC", "SILENCE", "grant", "with_remedy"),
        "certificates": ("Renewed",),
        "client_properties": ("ClientConfigError", "check_kerberos", "client_config", "librdkafka_properties"),
        "cluster": (
            *("ClusterReader", "ClusterUnreachableError", "MetadataWatch", "SharedReader"),
            *("any_node", "compacted_topics", "follower_fetching", "in_sync_replicas"),
        ),
        "describe_groups": (
            "BROKER_PROTOCOLS",
            "AssignedPartitions",
            "BrokerGroup",
            "BrokerMember",
            "BrokerProtocol",
            "BrokerSubtopology",
            "DescribeByBroker",
            "ListedGroup",
            "OWN_ASSIGNORS",
            "RemoveStreamsMember",
            "SentTopology",
            "asks_bellwether",
            "policy_in",
        ),
        "librdkafka_clients": ("LoginError", "librdkafka_client"),
        "log_requests": ("FindLeader", "ReadRecords"),
        "many_groups": (
            *("Batches", "DescribeMany", "DescribeManyByBroker", "FetchOffsetsOfMany", "GroupList", "LatestOffsets"),
            "ListAllGroups",
        ),
        "metadata": ("MetadataRead",),
        "node_requests": (
            "AnyCommitted",
            "FetchedOffsets",
            "NodeRequest",
            "RemoveMembers",
            "RemovedMembers",
            "TopicIds",
            "TransactionalIds",
        ),
        "offset_messages": ("LogPlace",),
        "offset_reader": ("NO_END", "Counts", "Ends", "OffsetReader", "Offsets", "OffsetsError"),
        "producer_requests": ("DescribeTransaction", "FenceProducer", "FindTransactionCoordinator"),
        "properties": (
            *("KAFKA_PREFIX", "environment_tables", "flattened", "is_secret", "process_properties", "properties_in"),
            *("service_links", "shown_name"),
        ),
        "record_batches": ("Limits", "Unread"),
        "broker_configs": (
            *("SettingOfBroker", "oldest_release", "read_broker_config", "read_size_limit"),
            "read_supported",
        ),
        "temporary_members": (
            "OTHER_TOPOLOGY",
            "TEMPORARY_MEMBER",
            "TEMPORARY_TOPIC",
            "possible_topologies",
        ),
        "topic_log": ("OFFSET_OUT_OF_RANGE", "TopicLog", "TopicLogError"),
        "transport": ("Transport", "TransportError", "UnreachableError"),
    }
    __getattr__ = on_demand(__name__, _HOMES)
