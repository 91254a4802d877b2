"""Requests other than those of a membership: each to one node, with its message for kafka-python and its answer as
plain values. Belongs to `transport`."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import ListTransactionsRequest
from kafka.protocol.consumer.group import LeaveGroupRequest, OffsetFetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.wire.describe_groups import (
    BrokerGroup,
    BrokerProtocol,
    ConsumerGroupDescribeRequest,
    ListedGroup,
    StreamsGroupDescribeRequest,
    described_by_broker,
    listed,
)
from bellwether_kafka.coordinator.kafka.wire.group_messages import described
from bellwether_kafka.coordinator.membership import Node
from bellwether_kafka.protocol.primitives import possible_topics

BATCH_FROM = 3  # members of LeaveGroup: KIP-345, Kafka 2.4; reasons since version 5
REASON_LENGTH_MAX = 255
ALL_TOPICS_FROM = 2  # versions of OffsetFetch
NAMES_UP_TO = 9  # later versions of OffsetFetch name topics by id
NAMED_BY_ID_FROM = 12  # versions of Metadata
NO_OFFSET = -1
SEVERAL_GROUPS_FROM = 8  # versions of OffsetFetch (KIP-709, Kafka 3.0)
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
ANY_CONSUMER, NO_EPOCH = -1, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LIST_OFFSETS_FROM, LIST_OFFSETS_UP_TO = 1, 10
WANTED_MAX = 10_000

Counts = Mapping[str, int]

T_co = TypeVar("T_co", covariant=True)
InSync = dict[Node, set[tuple[str, int]]]  # brokers, each with the partitions of its in-sync replicas


def grant(operations: str, resource: str, name: str) -> str:
    """Returns the remedy for a missing ACL. `operations` is for example "READ", `resource` "Group" or "Topic"."""
    return f"grant Bellwether's principal the ACL {operations} on {resource} '{name}'"


class NodeRequest(Protocol[T_co]):
    """A request that `Transport` can send without a membership. `node` None: any broker may answer."""

    @property
    def node(self) -> Node | None: ...

    @property
    def timeout_ms(self) -> int: ...

    def message(self) -> Any: ...

    def answer(self, response: Any) -> T_co: ...


@dataclass(frozen=True, slots=True)
class LogSizes:
    """DescribeLogDirs for partitions 0..n-1 of each topic, on one broker: sizes on disk. The answer is empty without
    the ACL DESCRIBE on the cluster. (confluent-kafka has no such request.)"""

    node: Node
    topics: Mapping[str, int]
    timeout_ms: int

    def message(self) -> Any:
        topic, counts = DescribeLogDirsRequest.DescribableLogDirTopic, possible_topics(self.topics)
        return DescribeLogDirsRequest(
            topics=[topic(topic=name, partitions=list(range(count))) for name, count in counts.items()]
        )

    def answer(self, response: Any) -> dict[tuple[str, int], int]:
        """Returns the bytes of the replicas that this broker has. Directories with an error are left out."""
        readable = (directory for directory in response.results if not directory.error_code)
        replicas = ((topic.name, p) for directory in readable for topic in directory.topics for p in topic.partitions)
        return {(topic, p.partition_index): int(p.partition_size) for topic, p in replicas if not p.is_future_key}


@dataclass(frozen=True, slots=True)
class TransactionalIds:
    """ListTransactions of one broker: the transactional ids that it coordinates and that Bellwether may describe. (The
    ACL is DESCRIBE on the TransactionalId; others are left out. confluent-kafka has no such request.)"""

    node: Node
    timeout_ms: int

    def message(self) -> Any:
        return ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], duration_filter=-1, transactional_id_pattern=None
        )

    def answer(self, response: Any) -> frozenset[str]:
        return frozenset(state.transactional_id for state in response.transaction_states)


@dataclass(frozen=True, slots=True)
class TopicIds:
    """Metadata of topics by id and of others by name. The answer has the names of existing topics by id.
    (confluent-kafka can only query by name.)"""

    node: Node
    ids: Sequence[bytes]
    names: Sequence[str]
    timeout_ms: int

    def message(self) -> Any:
        topic = MetadataRequest.MetadataRequestTopic
        by_id = [topic(topic_id=uuid.UUID(bytes=topic_id), name=None) for topic_id in self.ids]
        by_name = [topic(name=name) for name in possible_topics(dict.fromkeys(self.names, 0))]
        return MetadataRequest(
            topics=[*by_id, *by_name],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            min_version=NAMED_BY_ID_FROM,
        )

    def answer(self, response: Any) -> dict[bytes, str]:
        return {topic.topic_id.bytes: topic.name for topic in response.topics if topic.name and not topic.error_code}


@dataclass(frozen=True, slots=True)
class RemovedMembers:
    """`error` is Kafka's code of the request. `errors` has Kafka's code by member id, 0 if removed."""

    error: int
    errors: dict[str, int]


@dataclass(frozen=True, slots=True)
class RemoveMembers:
    """LeaveGroup on behalf of other members: removes these, static ones too, each with a reason for the broker's log.

    Brokers require only READ on the group (docs/internals/broker-behaviour.md#leavegroup), so Bellwether removes
    members only with proof.
    """

    node: Node
    group_id: str
    members: tuple[tuple[str, str], ...]  # member id, reason
    timeout_ms: int

    def message(self) -> Any:
        entry = LeaveGroupRequest.MemberIdentity
        members = [
            entry(member_id=member_id, group_instance_id=None, reason=reason[:REASON_LENGTH_MAX])
            for member_id, reason in self.members
        ]
        return LeaveGroupRequest(group_id=self.group_id, members=members, min_version=BATCH_FROM)

    def answer(self, response: Any) -> RemovedMembers:
        return RemovedMembers(response.error_code, {m.member_id: m.error_code for m in response.members or ()})


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """`offsets` has an entry for each requested partition, NO_OFFSET if nothing is committed. `error` is Kafka's code;
    `at` is the partition with the error, "" if it is the group's."""

    offsets: Mapping[str, list[int]]
    error: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """OffsetFetch for partitions 0..n-1 of each topic. It does not wait for pending transactions.

    librdkafka's admin client has the same request, but if a connection drops while it waits for a coordinator node, an
    assertion ends the whole process (confluentinc/librdkafka issue 4605, open as of 2.16).
    """

    node: Node
    group_id: str
    topics: Mapping[str, int]
    timeout_ms: int

    def message(self) -> Any:
        plain, group = OffsetFetchRequest.OffsetFetchRequestTopic, OffsetFetchRequest.OffsetFetchRequestGroup
        names = possible_topics(self.topics)
        wanted = [{"name": topic, "partition_indexes": list(range(count))} for topic, count in names.items()]
        of_group = [group.OffsetFetchRequestTopics(**topic) for topic in wanted]
        return OffsetFetchRequest(
            group_id=self.group_id,
            topics=[plain(**topic) for topic in wanted],
            groups=[group(group_id=self.group_id, topics=of_group)],
            require_stable=False,
            max_version=NAMES_UP_TO,
        )

    def answer(self, response: Any) -> FetchedOffsets:
        return fetched(response.groups[0] if response.API_VERSION >= 8 else response, self.topics)


def fetched(group: Any, topics: Mapping[str, int]) -> FetchedOffsets:
    """Returns the offsets of the requested partitions. Stops at the first error, which becomes that of the result. In
    old versions the response itself is the group and has no error."""
    offsets = {topic: [NO_OFFSET] * count for topic, count in topics.items()}
    if error := getattr(group, "error_code", 0) or 0:
        return FetchedOffsets(offsets, error)
    for topic in group.topics:
        committed = offsets.get(topic.name, [])
        for p in topic.partitions:
            if p.error_code:
                return FetchedOffsets(offsets, p.error_code, f"{topic.name}-{p.partition_index}")
            if 0 <= p.partition_index < len(committed) and p.committed_offset > NO_OFFSET:
                committed[p.partition_index] = p.committed_offset
    return FetchedOffsets(offsets)


@dataclass(frozen=True, slots=True)
class AnyCommitted:
    """Whether a group has committed any offset. `error` is Kafka's code for the group. `topics` are those with an
    offset. `offsets` has partitions 0..n-1 of each of them, NO_OFFSET if nothing is committed."""

    committed: bool
    error: int = 0
    topics: tuple[str, ...] = ()
    offsets: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FindAnyOffset:
    """OffsetFetch for all topics: whether and where the group has committed offsets. Topics that Bellwether may not
    describe are missing from the answer."""

    node: Node
    group_id: str
    timeout_ms: int

    def message(self) -> Any:
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group_id, topics=None)
        return OffsetFetchRequest(
            group_id=self.group_id,
            topics=None,
            groups=[group],
            require_stable=False,
            min_version=ALL_TOPICS_FROM,
            max_version=NAMES_UP_TO,
        )

    def answer(self, response: Any) -> AnyCommitted:
        group = response.groups[0] if response.API_VERSION >= 8 else response
        offsets: dict[str, Sequence[int]] = {}
        for topic in group.topics or ():
            read = {p.partition_index: p.committed_offset for p in topic.partitions if not p.error_code}
            committed = {partition: offset for partition, offset in read.items() if offset > NO_OFFSET}
            if committed:
                offsets[topic.name] = [committed.get(partition, NO_OFFSET) for partition in range(max(committed) + 1)]
        return AnyCommitted(bool(offsets), group.error_code or 0, tuple(sorted(offsets)), offsets)


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of one node. With an error the list may be incomplete."""

    error: int
    groups: tuple[ListedGroup, ...]


@dataclass(frozen=True, slots=True)
class ListAllGroups:
    """ListGroups, with its error code: a broker that has just started lists only what it has loaded so far."""

    node: Node
    timeout_ms: int

    def message(self) -> Any:
        return ListGroupsRequest(states_filter=[], types_filter=[])

    def answer(self, response: Any) -> GroupList:
        return GroupList(response.error_code, listed(response))


@dataclass(frozen=True, slots=True)
class DescribeMany:
    """DescribeGroups of classic groups that one node coordinates."""

    node: Node
    group_ids: Sequence[str]
    timeout_ms: int

    def message(self) -> Any:
        return DescribeGroupsRequest(groups=list(self.group_ids), include_authorized_operations=False)

    def answer(self, response: Any) -> dict[str, membership.DescribeAnswer]:
        return {group.group_id: described(group, 0) for group in response.groups}


@dataclass(frozen=True, slots=True)
class DescribeManyByBroker:
    """The Describe call for several groups of one of the two protocols in which brokers assign."""

    node: Node
    group_ids: Sequence[str]
    protocol: BrokerProtocol
    timeout_ms: int

    def message(self) -> Any:
        kind = ConsumerGroupDescribeRequest if self.protocol == "consumer" else StreamsGroupDescribeRequest
        return kind(group_ids=list(self.group_ids), include_authorized_operations=False)

    def answer(self, response: Any) -> dict[str, BrokerGroup]:
        return {group.group_id: described_by_broker(group, self.protocol) for group in response.groups}


@dataclass(frozen=True, slots=True)
class FetchOffsetsOfMany:
    """OffsetFetch for partitions 0..n-1 of each topic of each group. Needs brokers since 3.0."""

    node: Node
    groups: Mapping[str, Counts]
    timeout_ms: int

    def message(self) -> Any:
        of_group = OffsetFetchRequest.OffsetFetchRequestGroup
        groups = [
            of_group(
                group_id=group,
                topics=[
                    of_group.OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(count)))
                    for topic, count in possible_topics(topics).items()
                ],
            )
            for group, topics in self.groups.items()
        ]
        return OffsetFetchRequest(
            groups=groups, require_stable=False, min_version=SEVERAL_GROUPS_FROM, max_version=NAMES_UP_TO
        )

    def answer(self, response: Any) -> dict[str, FetchedOffsets]:
        wanted, groups = self.groups, response.groups
        return {group.group_id: fetched(group, wanted[group.group_id]) for group in groups if group.group_id in wanted}


class LogPlace(Enum):
    """Places in a log that ListOffsets finds, as a timestamp and an isolation level."""

    END = (LATEST, READ_UNCOMMITTED)
    START = (EARLIEST, READ_UNCOMMITTED)
    STABLE_END = (LATEST, READ_COMMITTED)  # the last stable offset: the first one of the oldest open transaction


@lru_cache(WANTED_MAX)
def _wanted(partition: int, timestamp: int) -> Any:
    """Returns a partition of a ListOffsets request. Kept, because making them takes longer than encoding them."""
    entry = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    return entry(partition_index=partition, current_leader_epoch=NO_EPOCH, timestamp=timestamp)


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """ListOffsets: the log ends, or another place, of partitions that one node leads. The answer has (error, offset) by
    partition of each topic."""

    node: Node
    partitions: Mapping[str, Sequence[int]]
    timeout_ms: int
    place: LogPlace = LogPlace.END

    def message(self) -> Any:
        timestamp, isolation_level = self.place.value
        topic, partitions = ListOffsetsRequest.ListOffsetsTopic, possible_topics(self.partitions)
        return ListOffsetsRequest(
            replica_id=ANY_CONSUMER,
            isolation_level=isolation_level,
            topics=[
                topic(name=name, partitions=[_wanted(p, timestamp) for p in numbers])
                for name, numbers in partitions.items()
            ],
            timeout_ms=self.timeout_ms,
            min_version=LIST_OFFSETS_FROM,
            max_version=LIST_OFFSETS_UP_TO,
        )

    def answer(self, response: Any) -> Mapping[str, Mapping[int, tuple[int, int]]]:
        return {
            topic.name: {p.partition_index: (p.error_code, p.offset) for p in topic.partitions}
            for topic in response.topics
        }
