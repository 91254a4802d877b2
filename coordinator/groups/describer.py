"""Describes groups and fetches their committed offsets for all that ask: one memory of coordinator nodes, and shared
requests.

A thousand groups are described several times a second by what watches them: one request for each would take the
brokers, and the loop, more time than there is. Errors are per group: one that fails affects no other, and a
silent node delays no group of another.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import (
    BrokerGroup,
    BrokerProtocol,
    FetchedOffsets,
    Give,
    NodeRequest,
    RemovedMembers,
    Together,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, Failure, Node

T = TypeVar("T")

GROUPS_MAX = 50  # in one request
PARTITIONS_MAX = 10_000  # in one request, whose answer is then a third of a megabyte
LARGE_BYTES = 100_000  # a group with so large a description is described alone
FINDS_AT_ONCE = 16
TIMEOUT_MS = 5_000
SEVERAL_GROUPS_FROM = (3, 0)  # OffsetFetch (KIP-709)
MOVED = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})

Counts = Mapping[str, int]


class Requests(Protocol):
    """The part of `wire.Transport` that a describer uses."""

    @property
    def broker_version(self) -> tuple[int, ...]: ...
    async def request(self, command: membership.Request) -> membership.Answer | membership.RequestFailed: ...
    async def ask(self, request: NodeRequest[T]) -> T: ...


class Describer:
    """Reads groups from their coordinator nodes. For one event loop. A group's node is kept until a request fails or
    shows another. Callers that ask a node while a request to it is on its way share the next one."""

    def __init__(self, transport: Requests, timeout_ms: int = TIMEOUT_MS) -> None:
        self._transport = transport
        self._timeout_ms = timeout_ms
        self._searches: dict[str, int] = {}  # that have failed in a row: each begins at another broker
        self._nodes: dict[str, Node] = {}
        self._alone: set[str] = set()  # groups with large or unreadable descriptions
        self._several = True  # brokers take several groups in one OffsetFetch
        self._finding = asyncio.Semaphore(FINDS_AT_ONCE)
        self._together: dict[tuple[str, Node], Together[tuple[str, Counts], Any]] = {}

    def learn(self, node: Node, group_ids: Iterable[str]) -> None:
        """Keeps `node` as the coordinator node of the groups that it lists."""
        self._nodes.update(dict.fromkeys(group_ids, node))

    def forget(self, group_id: str) -> None:
        self._nodes.pop(group_id, None)
        self._alone.discard(group_id)
        self._searches.pop(group_id, None)

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        """Returns state, protocol and members with metadata and assignment bytes (both empty unless Stable). Raises
        TransportError; an error code of the broker is in the answer."""
        answer = await self._shared("describe", group_id, {}, self._describe_many)
        if isinstance(answer, int):
            return DescribeAnswer(0, answer)
        assert isinstance(answer, DescribeAnswer)  # noqa: S101 - for mypy
        size = sum(len(m.metadata) + len(m.assignment) for m in answer.members)
        change = self._alone.add if size > LARGE_BYTES else self._alone.discard
        change(group_id)
        return answer

    async def describe_by_broker(self, group_id: str, protocol: BrokerProtocol) -> BrokerGroup:
        """Returns a group whose broker assigns. Raises TransportError; an error code of the broker is in the answer."""
        answer = await self._shared(protocol, group_id, {}, partial(self._describe_by_broker, protocol))
        return BrokerGroup(group_id, protocol, answer) if isinstance(answer, int) else answer

    async def committed(self, group_id: str, topics: Counts, timeout_ms: int = TIMEOUT_MS) -> FetchedOffsets:
        """Returns the committed offsets of partitions 0..n-1 of each topic. Raises TransportError; an error code of the
        broker is in the answer. Ignores `timeout_ms`, because requests are shared."""
        del timeout_ms
        if self._several and self._transport.broker_version >= SEVERAL_GROUPS_FROM:
            try:
                answer = await self._shared("offsets", group_id, topics, self._fetch_many)
            except TransportError as error:
                if error.failure is not Failure.UNSUPPORTED:
                    raise
                # Some brokers support other requests of Kafka 3.0 but not this: Redpanda's ends at version 7.
                self._several = False
            else:
                return FetchedOffsets({}, answer) if isinstance(answer, int) else _cut(answer, topics)

        def ask(node: Node) -> Awaitable[FetchedOffsets]:
            return self._transport.ask(wire.FetchOffsets(node, group_id, topics, self._timeout_ms))

        answer = await self._at_node(group_id, ask)
        return FetchedOffsets({}, answer) if isinstance(answer, int) else answer

    async def remove_from(self, group_id: str, reasons: Mapping[str, str]) -> RemovedMembers:
        """Sends LeaveGroup for other members, each with its reason. Raises TransportError; an error code of the broker
        is in the answer."""

        def ask(node: Node) -> Awaitable[RemovedMembers]:
            return self._transport.ask(wire.RemoveMembers(node, group_id, tuple(reasons.items()), self._timeout_ms))

        answer = await self._at_node(group_id, ask)
        return RemovedMembers(answer, {}) if isinstance(answer, int) else answer

    def _describe_many(self, node: Node, wanted: Mapping[str, Counts]) -> NodeRequest[Any]:
        return wire.DescribeMany(node, tuple(wanted), self._timeout_ms)

    def _describe_by_broker(
        self, protocol: BrokerProtocol, node: Node, wanted: Mapping[str, Counts]
    ) -> NodeRequest[Any]:
        return wire.DescribeManyByBroker(node, tuple(wanted), protocol, self._timeout_ms)

    def _fetch_many(self, node: Node, wanted: Mapping[str, Counts]) -> NodeRequest[Any]:
        return wire.FetchOffsetsOfMany(node, wanted, self._timeout_ms)

    async def _shared(
        self, kind: str, group_id: str, topics: Counts, request: Callable[[Node, Mapping[str, Counts]], Any]
    ) -> Any:
        """Asks together with others. Returns the group's answer, or the error code of the search for its node."""

        def ask(node: Node) -> Awaitable[Any]:
            if (kind, node) not in self._together:
                self._together[kind, node] = Together(partial(self._answer, partial(request, node)))
            return self._together[kind, node].ask((group_id, topics))

        return await self._at_node(group_id, ask)

    async def _at_node(self, group_id: str, ask: Callable[[Node], Awaitable[Any]]) -> Any:
        """Returns what `ask` does, or the error code of the search for the group's node. If that has moved since it was
        kept, the new one is asked."""
        kept = group_id in self._nodes
        node = await self.node_of(group_id)
        if isinstance(node, int):
            return node
        try:
            answer = await ask(node)
        except TransportError as error:
            self._nodes.pop(group_id, None)
            if error.failure is Failure.MALFORMED:
                self._alone.add(group_id)  # else all in its request would be asked alone each time
            if not kept or error.failure is not Failure.DISCONNECTED:
                raise
        else:
            if answer.error not in MOVED:
                return answer
            self._nodes.pop(group_id, None)
            if not kept:
                return answer
        node = await self.node_of(group_id)
        return node if isinstance(node, int) else await ask(node)

    async def _answer(
        self, request: Callable[[Mapping[str, Counts]], Any], asked: Sequence[tuple[str, Counts]], give: Give[Any]
    ) -> None:
        """Answers a batch of one node. If a group is in it twice, its topics are merged."""
        wanted: dict[str, dict[str, int]] = {}
        positions: dict[str, list[int]] = defaultdict(list)
        for position, (group_id, counts) in enumerate(asked):
            positions[group_id].append(position)
            topics = wanted.setdefault(group_id, {})
            for topic, count in counts.items():
                topics[topic] = max(count, topics.get(topic, 0))

        async def ask(part: Mapping[str, Counts]) -> None:
            for group_id, answer in (await self._ask(request, part)).items():
                for position in positions[group_id]:
                    give(position, answer)

        await asyncio.gather(*(ask(part) for part in self._parts(wanted)))

    async def _ask(
        self, request: Callable[[Mapping[str, Counts]], Any], wanted: Mapping[str, Counts]
    ) -> dict[str, Any]:
        """Sends one request. If its answer is malformed, sends one per group, so that one group cannot fail others."""
        try:
            answers = await self._transport.ask(request(wanted))
        except TransportError as error:
            if len(wanted) > 1 and error.failure is Failure.MALFORMED:
                return {k: v for group in wanted for k, v in (await self._ask(request, {group: wanted[group]})).items()}
            return dict.fromkeys(wanted, error)
        left_out = TransportError(Failure.MALFORMED, "the broker's answer leaves the group out")
        return {group: answers.get(group, left_out) for group in wanted}

    def _parts(self, wanted: Mapping[str, Counts]) -> Iterable[dict[str, Counts]]:
        part: dict[str, Counts] = {}
        weighs = 0
        for group_id, topics in wanted.items():
            weight = PARTITIONS_MAX if group_id in self._alone else max(1, sum(topics.values()))
            if part and (len(part) == GROUPS_MAX or weighs + weight > PARTITIONS_MAX):
                yield part
                part, weighs = {}, 0
            part[group_id] = topics
            weighs += weight
        if part:
            yield part

    async def node_of(self, group_id: str) -> Node | int:
        """Returns the group's coordinator node, or the broker's error code. Raises TransportError."""
        if group_id in self._nodes:
            return self._nodes[group_id]
        search = membership.FindCoordinator(0, group_id, self._timeout_ms, self._searches.get(group_id, 0))
        self._searches[group_id] = search.attempt + 1
        async with self._finding:
            answer = await self._transport.request(search)
        if isinstance(answer, membership.RequestFailed):
            raise TransportError(answer.failure, answer.reason or answer.failure.name.lower())
        if not isinstance(answer, membership.CoordinatorAnswer) or answer.node is None:
            return answer.error
        self._searches.pop(group_id, None)
        self._nodes[group_id] = answer.node
        return answer.node


def _cut(answer: FetchedOffsets, topics: Counts) -> FetchedOffsets:
    """Reduces an answer of merged requests to the given topics and partitions."""
    if answer.error:
        return answer
    return FetchedOffsets({topic: answer.offsets[topic][:count] for topic, count in topics.items()})
