"""Requests about many groups or partitions at once, each to one node: what looks at a fleet of groups share. Belongs to
`transport`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.describe_groups import (
    BrokerGroup,
    BrokerProtocol,
    ConsumerGroupDescribeRequest,
    ListedGroup,
    StreamsGroupDescribeRequest,
    described_by_broker,
    listed,
)
from bellwether_kafka.coordinator.kafka.group_messages import described
from bellwether_kafka.coordinator.kafka.node_requests import NAMES_UP_TO, FetchedOffsets, fetched
from bellwether_kafka.coordinator.membership import Node

GROUPS_FROM = 8  # versions of OffsetFetch: several groups (KIP-709, Kafka 3.0)
LATEST = -1  # a timestamp of ListOffsets
NO_REPLICA, NO_EPOCH, READ_UNCOMMITTED = -1, -1, 0
LIST_OFFSETS_FROM, LIST_OFFSETS_UP_TO = 1, 10
KNOWN_PARTITIONS = 1_024

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of one node. With an error they may not be all."""

    error: int
    groups: tuple[ListedGroup, ...]


@dataclass(frozen=True, slots=True)
class ListAllGroups:
    """ListGroups, with the error code: brokers that have just started list what they have loaded so far."""

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
    """The Describe call of one of the two protocols in which brokers assign."""

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
    """OffsetFetch for partitions 0..n-1 of each topic of each group. Brokers before 3.0 do not know it."""

    node: Node
    groups: Mapping[str, Counts]
    timeout_ms: int

    def message(self) -> Any:
        group, topic = OffsetFetchRequest.OffsetFetchRequestGroup, _topics_of_offset_fetch()
        return OffsetFetchRequest(
            groups=[
                group(
                    group_id=group_id,
                    topics=[topic(name=name, partition_indexes=list(range(count))) for name, count in topics.items()],
                )
                for group_id, topics in self.groups.items()
            ],
            require_stable=False,
            min_version=GROUPS_FROM,
            max_version=NAMES_UP_TO,
        )

    def answer(self, response: Any) -> dict[str, FetchedOffsets]:
        wanted = self.groups
        return {g.group_id: fetched(g, wanted[g.group_id]) for g in response.groups if g.group_id in wanted}


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """ListOffsets: the log ends of partitions that one node leads, read uncommitted. Answers (error, offset) by
    partition of each topic."""

    node: Node
    partitions: Mapping[str, Sequence[int]]
    timeout_ms: int

    def message(self) -> Any:
        topic = ListOffsetsRequest.ListOffsetsTopic
        return ListOffsetsRequest(
            replica_id=NO_REPLICA,
            isolation_level=READ_UNCOMMITTED,
            topics=[
                topic(name=name, partitions=[_latest(partition) for partition in partitions])
                for name, partitions in self.partitions.items()
            ],
            timeout_ms=self.timeout_ms,
            min_version=LIST_OFFSETS_FROM,
            max_version=LIST_OFFSETS_UP_TO,
        )

    def answer(self, response: Any) -> dict[str, dict[int, tuple[int, int]]]:
        return {
            topic.name: {p.partition_index: (p.error_code, p.offset) for p in topic.partitions}
            for topic in response.topics
        }


@lru_cache(KNOWN_PARTITIONS)
def _latest(partition: int) -> Any:
    """The same for every topic; making them anew takes as long as encoding them."""
    entry = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    return entry(partition_index=partition, current_leader_epoch=NO_EPOCH, timestamp=LATEST)


def _topics_of_offset_fetch() -> Any:
    return OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
