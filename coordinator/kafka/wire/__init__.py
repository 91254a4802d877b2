"""A Kafka client for the requests of groups, logs and nodes, with its logins. It imports neither librdkafka nor numpy:
a guard beside an application is made of it."""

from bellwether_kafka.coordinator.kafka.wire.client_properties import (
    CALLBACK,
    ClientConfigError,
    check_kerberos,
    client_config,
    librdkafka_properties,
)
from bellwether_kafka.coordinator.kafka.wire.connection import release_of
from bellwether_kafka.coordinator.kafka.wire.describe_groups import (
    BROKER_PROTOCOLS,
    OWN_ASSIGNORS,
    AssignedPartitions,
    BrokerGroup,
    BrokerMember,
    BrokerProtocol,
    BrokerSubtopology,
    ListedGroup,
    RemoveStreamsMember,
    SentTopology,
    asks_bellwether,
    policy_in,
)
from bellwether_kafka.coordinator.kafka.wire.node_requests import (
    AnyCommitted,
    DescribeMany,
    DescribeManyByBroker,
    FetchedOffsets,
    FetchOffsets,
    FetchOffsetsOfMany,
    GroupList,
    InSync,
    LatestOffsets,
    ListAllGroups,
    LogPlace,
    NodeRequest,
    RemovedMembers,
    RemoveMembers,
    TopicIds,
    TransactionalIds,
    grant,
)
from bellwether_kafka.coordinator.kafka.wire.outside_calls import GRACE_S, DaemonThreads
from bellwether_kafka.coordinator.kafka.wire.producer_requests import (
    DescribeTransaction,
    FenceProducer,
    FindTransactionCoordinator,
)
from bellwether_kafka.coordinator.kafka.wire.record_batches import Limits, Unread
from bellwether_kafka.coordinator.kafka.wire.temporary_members import (
    OTHER_TOPOLOGY,
    TEMPORARY_MEMBER,
    TEMPORARY_TOPIC,
    possible_topologies,
)
from bellwether_kafka.coordinator.kafka.wire.together import Give, Together
from bellwether_kafka.coordinator.kafka.wire.tokens import TokenError
from bellwether_kafka.coordinator.kafka.wire.topic_log import (
    OFFSET_OUT_OF_RANGE,
    FindLeader,
    ReadRecords,
    TopicLog,
    TopicLogError,
)
from bellwether_kafka.coordinator.kafka.wire.transport import Transport, TransportError, UnreachableError
