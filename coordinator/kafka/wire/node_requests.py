"""Requests other than those of a membership: each to one node, with its message for kafka-python and its answer as
plain values. Belongs to `transport`."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.admin.transactions import ListTransactionsRequest
from kafka.protocol.consumer.group import LeaveGroupRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from bellwether_kafka.coordinator.membership import Node
from bellwether_kafka.protocol.primitives import possible_topics

BATCH_FROM = 3  # members of LeaveGroup: KIP-345, Kafka 2.4; reasons since version 5
REASON_LENGTH_MAX = 255
ALL_TOPICS_FROM = 2  # versions of OffsetFetch
NAMES_UP_TO = 9  # later versions of OffsetFetch name topics by id
NAMED_BY_ID_FROM = 12  # versions of Metadata
NO_OFFSET = -1

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
        return fetched(committed_of(response.groups[0] if response.API_VERSION >= 8 else response), self.topics)


@dataclass(frozen=True, slots=True)
class CommittedOfTopic:
    """An OffsetFetch answer for one topic, as columns with one entry for each partition."""

    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    errors: Sequence[int]


@dataclass(frozen=True, slots=True)
class CommittedOfGroup:
    """An OffsetFetch answer for one group. `error` is the group's."""

    group_id: str
    error: int
    topics: Sequence[CommittedOfTopic]


def committed_of(group: Any) -> CommittedOfGroup:
    """Converts the library's answer. In old versions the response itself is the group and has no error."""
    topics = [
        CommittedOfTopic(
            topic.name,
            [p.partition_index for p in topic.partitions],
            [p.committed_offset for p in topic.partitions],
            [p.error_code for p in topic.partitions],
        )
        for topic in group.topics
    ]
    return CommittedOfGroup(getattr(group, "group_id", ""), getattr(group, "error_code", 0) or 0, topics)


def fetched(group: CommittedOfGroup, topics: Mapping[str, int]) -> FetchedOffsets:
    """Returns the offsets of the requested partitions. Stops at the first error, which becomes that of the result."""
    offsets = {topic: [NO_OFFSET] * count for topic, count in topics.items()}
    if group.error:
        return FetchedOffsets(offsets, group.error)
    for topic in group.topics:
        committed = offsets.get(topic.topic, [])
        for partition, offset, error in zip(topic.partitions, topic.offsets, topic.errors, strict=True):
            if error:
                return FetchedOffsets(offsets, error, f"{topic.topic}-{partition}")
            if 0 <= partition < len(committed) and offset > NO_OFFSET:
                committed[partition] = offset
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
