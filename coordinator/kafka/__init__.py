"""Everything that talks to brokers: group requests, metadata, offsets, logins and rights."""

from bellwether_kafka.coordinator.kafka.acls import DENIED, IRRELEVANT_TO_READERS, grant, with_remedy
from bellwether_kafka.coordinator.kafka.certificates import CertificateFiles, Renewed
from bellwether_kafka.coordinator.kafka.client_config import (
    ClientConfigError,
    check_kerberos,
    client_config,
    librdkafka_properties,
)
from bellwether_kafka.coordinator.kafka.cluster import (
    ClusterReader,
    ClusterUnreachableError,
    MetadataWatch,
    follower_fetching,
)
from bellwether_kafka.coordinator.kafka.describe_groups import BrokerGroup, BrokerMember, BrokerProtocol, ListedGroup
from bellwether_kafka.coordinator.kafka.node_requests import AnyCommitted, RemovedMembers, RemoveMembers
from bellwether_kafka.coordinator.kafka.offset_reader import Counts, GroupOffsets, OffsetReader, Offsets, OffsetsError
from bellwether_kafka.coordinator.kafka.transport import Transport, TransportError, UnreachableError
