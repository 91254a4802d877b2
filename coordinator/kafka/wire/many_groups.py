"""Requests about many groups or partitions, each to one node, for observers of many groups; they belong to `transport`.
`Batches` sends the requests of many groups for topics together: hundreds that need metadata at once would otherwise
wait for one another until their plans are late."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest

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
from bellwether_kafka.coordinator.kafka.wire.node_requests import FetchedOffsets, committed_of, fetched
from bellwether_kafka.coordinator.kafka.wire.offset_messages import (
    CommittedOffsets,
    CommittedOffsetsRequest,
    LogEnds,
    LogEndsRequest,
    LogPlace,
)
from bellwether_kafka.coordinator.membership import Node
from bellwether_kafka.protocol.primitives import possible_topics

Counts = Mapping[str, int]


WAIT_S = 0.2  # of a batch for the one before it

A = TypeVar("A")


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
        return CommittedOffsetsRequest({group: possible_topics(topics) for group, topics in self.groups.items()})

    def answer(self, response: Any) -> dict[str, FetchedOffsets]:
        wanted = self.groups
        read = isinstance(response, CommittedOffsets)
        groups = response.groups if read else map(committed_of, response.groups)
        return {group.group_id: fetched(group, wanted[group.group_id]) for group in groups if group.group_id in wanted}


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """ListOffsets: the log ends, or another place, of partitions that one node leads. The answer has (error, offset) by
    partition of each topic."""

    node: Node
    partitions: Mapping[str, Sequence[int]]
    timeout_ms: int
    place: LogPlace = LogPlace.END

    def message(self) -> Any:
        return LogEndsRequest(possible_topics(self.partitions), self.timeout_ms, self.place)

    def answer(self, response: Any) -> Mapping[str, Mapping[int, tuple[int, int]]]:
        if isinstance(response, LogEnds):
            return response.of
        return {
            topic.name: {p.partition_index: (p.error_code, p.offset) for p in topic.partitions}
            for topic in response.topics
        }


class Batches(Generic[A]):
    """Callers that come while a request is on its way share the next one. That begins when the one before has ended, at
    most WAIT_S after its first caller came: a request that hangs holds up no other. For one event loop."""

    def __init__(self, request: Callable[[list[str]], Awaitable[A]]) -> None:
        self._request = request
        self._topics: set[str] = set()  # of the next request
        self._next: asyncio.Task[A] | None = None
        self._sent: asyncio.Task[A] | None = None

    async def ask(self, topics: Iterable[str]) -> A:
        """Returns the answer to a request for these topics and perhaps others, which begins after this call. It goes on
        for the others if this call is cancelled."""
        if self._next is None or self._next.done():
            self._topics = set()
            self._next = asyncio.create_task(self._send(self._sent))
            self._next.add_done_callback(_retrieved)
        self._topics.update(topics)
        return await asyncio.shield(self._next)

    async def _send(self, before: "asyncio.Task[A] | None") -> A:
        if before is not None and not before.done():
            await asyncio.wait([before], timeout=WAIT_S)
        self._sent, self._next = self._next, None
        return await self._request(sorted(self._topics))


def _retrieved(task: "asyncio.Task[A]") -> None:
    """An error is for the callers, and there may be none left."""
    if not task.cancelled():
        task.exception()
