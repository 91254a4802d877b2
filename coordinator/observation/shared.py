"""Requests shared by refreshes of many groups: all requests within LINGER_S are sent to each node as one.

`SharedGroups` replaces the transport, `SharedOffsets` the offset reader. Errors are per group: one group or topic that
fails does not affect other groups.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.kafka.client import NO_END, ClusterUnreachableError, Counts, Ends, OffsetsError
from bellwether_kafka.coordinator.kafka.wire import (
    BrokerGroup,
    BrokerProtocol,
    FetchedOffsets,
    LogPlace,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, Failure, Node
from bellwether_kafka.protocol.primitives import TopicPartition

LINGER_S = 0.02
GROUPS_MAX = 50  # in one request
PARTITIONS_MAX = 10_000  # in one request, whose answer is then a third of a megabyte
FINDS_AT_ONCE = 16
TIMEOUT_MS = 5_000
SEVERAL_GROUPS_FROM = (3, 0)  # OffsetFetch (KIP-709)
MOVED = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})
WHY = {
    3: "the topic does not exist any more",
    5: "no broker leads the partition",
    6: "its leader has moved",
    29: "Bellwether may not describe the topic",
}
SILENT = "no broker leads the partition, or its leader does not answer"

A = TypeVar("A")
R = TypeVar("R")


Give = Callable[[int, R | Exception], None]


class Together(Generic[A, R]):
    """Collects requests for `linger_s` seconds and answers them together. `answer` receives the whole batch, and gives
    the answer or error of each request, by its position, when it is known: a silent broker delays those that need
    it, and no others."""

    def __init__(self, answer: Callable[[Sequence[A], Give[R]], Awaitable[None]], linger_s: float = LINGER_S) -> None:
        self._answer = answer
        self._linger_s = linger_s
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: A) -> R:
        """Returns the answer to one request of the batch. Raises the error that `answer` gave for it."""
        outcome: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, outcome))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._after_a_moment())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await outcome

    async def _after_a_moment(self) -> None:
        await asyncio.sleep(self._linger_s)
        asked, self._waiting = self._waiting, []

        def give(position: int, answer: R | Exception) -> None:
            _, outcome = asked[position]
            if outcome.done():
                return
            if isinstance(answer, Exception):
                outcome.set_exception(answer)
            else:
                outcome.set_result(answer)

        left: Exception = AssertionError("a request of a batch has no answer")
        try:
            await self._answer([question for question, _ in asked], give)
        except Exception as error:  # noqa: BLE001 - the callers handle it
            left = error
        for position in range(len(asked)):
            give(position, left)


class SharedGroups:
    """Reads groups from their coordinator nodes. A group's node is cached until a request fails or shows another."""

    def __init__(self, transport: wire.Transport) -> None:
        self._transport = transport
        self._nodes: dict[str, Node] = {}
        self._several = True  # brokers take several groups in one OffsetFetch
        self._finding = asyncio.Semaphore(FINDS_AT_ONCE)
        self._classic: Together[str, DescribeAnswer] = Together(self._describe)
        self._by_broker: dict[BrokerProtocol, Together[str, BrokerGroup]] = {}
        self._offsets: Together[tuple[str, Counts], FetchedOffsets] = Together(self._fetch)

    def learn(self, node: Node, group_ids: Iterable[str]) -> None:
        """Caches `node` as the coordinator node of the groups that it lists."""
        self._nodes.update(dict.fromkeys(group_ids, node))

    def forget(self, group_id: str) -> None:
        self._nodes.pop(group_id, None)

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        """Does the same as `Transport.describe_group`."""
        return await self._classic.ask(group_id)

    async def describe_by_broker(self, group_id: str, protocol: BrokerProtocol) -> BrokerGroup:
        """Does the same as `Transport.describe_by_broker`."""
        if protocol not in self._by_broker:
            self._by_broker[protocol] = Together(partial(self._describe_by_broker, protocol))
        return await self._by_broker[protocol].ask(group_id)

    async def committed(self, group_id: str, topics: Counts, timeout_ms: int = TIMEOUT_MS) -> FetchedOffsets:
        """Does the same as `Transport.committed`, but ignores `timeout_ms`: shared requests have TIMEOUT_MS."""
        del timeout_ms
        return await self._offsets.ask((group_id, topics))

    async def _describe(self, group_ids: Sequence[str], give: Give[DescribeAnswer]) -> None:
        def request(node: Node, ids: Sequence[str]) -> Any:
            return wire.DescribeMany(node, ids, TIMEOUT_MS)

        def received(position: int, answer: Any) -> None:
            give(position, DescribeAnswer(0, answer) if isinstance(answer, int) else answer)

        await self._at_their_nodes(group_ids, request, received)

    async def _describe_by_broker(
        self, protocol: BrokerProtocol, group_ids: Sequence[str], give: Give[BrokerGroup]
    ) -> None:
        def request(node: Node, ids: Sequence[str]) -> Any:
            return wire.DescribeManyByBroker(node, ids, protocol, TIMEOUT_MS)

        def received(position: int, answer: Any) -> None:
            error = isinstance(answer, int)
            give(position, BrokerGroup(group_ids[position], protocol, answer) if error else answer)

        await self._at_their_nodes(group_ids, request, received)

    async def _fetch(self, asked: Sequence[tuple[str, Counts]], give: Give[FetchedOffsets]) -> None:
        """Fetches committed offsets. If a group is in the batch twice, its topics are merged into one request."""
        topics: dict[str, dict[str, int]] = defaultdict(dict)
        for group_id, counts in asked:
            for topic, count in counts.items():
                topics[group_id][topic] = max(count, topics[group_id].get(topic, 0))
        if not self._several or self._transport.broker_version < SEVERAL_GROUPS_FROM:
            await self._fetch_one_by_one(dict(enumerate(asked)), give)
            return
        refused: dict[int, tuple[str, Counts]] = {}

        def request(node: Node, ids: Sequence[str]) -> Any:
            return wire.FetchOffsetsOfMany(node, {group: topics[group] for group in ids}, TIMEOUT_MS)

        def weight(group: str) -> int:
            return sum(topics[group].values())

        def received(position: int, answer: Any) -> None:
            if isinstance(answer, TransportError) and answer.failure is Failure.UNSUPPORTED:
                refused[position] = asked[position]
            else:
                _, counts = asked[position]
                give(position, FetchedOffsets({}, answer) if isinstance(answer, int) else _cut(answer, counts))

        await self._at_their_nodes([group for group, _ in asked], request, received, weight)
        if refused:
            # Some brokers support other requests of Kafka 3.0 but not this: Redpanda's OffsetFetch ends at version 7.
            self._several = False
            await self._fetch_one_by_one(refused, give)

    async def _fetch_one_by_one(self, asked: Mapping[int, tuple[str, Counts]], give: Give[FetchedOffsets]) -> None:
        async def fetch(position: int, group_id: str, topics: Counts) -> None:
            try:
                async with self._finding:
                    give(position, await self._transport.committed(group_id, topics, TIMEOUT_MS))
            except TransportError as error:
                give(position, error)

        await asyncio.gather(*(fetch(position, *each) for position, each in asked.items()))

    async def _at_their_nodes(
        self,
        group_ids: Sequence[str],
        request: Callable[[Node, Sequence[str]], Any],
        give: Callable[[int, Any], None],
        weight: Callable[[str], int] = lambda _: 1,
    ) -> None:
        """Sends requests to the groups' coordinator nodes. Gives for each group an answer, the error code of the search
        for its node, or a TransportError."""
        positions: dict[str, list[int]] = defaultdict(list)
        for position, group_id in enumerate(group_ids):
            positions[group_id].append(position)

        def received(group_id: str, answer: Any) -> None:
            if isinstance(answer, TransportError) or getattr(answer, "error", 0) in MOVED:
                self.forget(group_id)
            for position in positions[group_id]:
                give(position, answer)

        async def ask(node: Node, chunk: Sequence[str]) -> None:
            for group_id, answer in (await self._ask(node, chunk, request)).items():
                received(group_id, answer)

        async def ask_all(groups: Sequence[str]) -> None:
            at: dict[Node, list[str]] = defaultdict(list)
            for group_id, node in zip(groups, await asyncio.gather(*map(self._node_of, groups)), strict=True):
                if isinstance(node, Node):
                    at[node].append(group_id)
                else:
                    received(group_id, node)
            chunks = [(node, chunk) for node, ids in at.items() for chunk in _chunks(ids, weight)]
            await asyncio.gather(*(ask(node, chunk) for node, chunk in chunks))

        known = [group_id for group_id in positions if group_id in self._nodes]
        others = [group_id for group_id in positions if group_id not in self._nodes]
        await asyncio.gather(ask_all(known), ask_all(others))

    async def _ask(
        self, node: Node, ids: Sequence[str], request: Callable[[Node, Sequence[str]], Any]
    ) -> dict[str, Any]:
        """Sends one request. If its answer is malformed, sends one per group, so that one group cannot fail others."""
        try:
            answers = await self._transport.ask(request(node, ids))
        except TransportError as error:
            if len(ids) > 1 and error.failure is Failure.MALFORMED:
                return {k: v for group in ids for k, v in (await self._ask(node, [group], request)).items()}
            return dict.fromkeys(ids, error)
        left_out = TransportError(Failure.MALFORMED, "the broker's answer leaves the group out")
        return {group: answers.get(group, left_out) for group in ids}

    async def _node_of(self, group_id: str) -> Node | int | TransportError:
        if group_id in self._nodes:
            return self._nodes[group_id]
        async with self._finding:
            answer = await self._transport.request(membership.FindCoordinator(0, group_id, TIMEOUT_MS))
        if isinstance(answer, membership.RequestFailed):
            return TransportError(answer.failure, answer.reason)
        if not isinstance(answer, membership.CoordinatorAnswer) or answer.node is None:
            return answer.error
        self._nodes[group_id] = answer.node
        return answer.node


class SharedOffsets(client.OffsetReader):
    """An offset reader that lists log ends and other log offsets by shared requests to the partition leaders, and
    reads committed offsets through `SharedGroups`."""

    def __init__(self, reader: client.SharedReader, transport: wire.Transport, groups: SharedGroups) -> None:
        super().__init__(reader.admin, groups)
        self._reader = reader
        self._transport = transport
        self._nodes: dict[int, Node] = {}
        self._together: dict[LogPlace, Together[Counts, Ends]] = {p: Together(partial(self._ends, p)) for p in LogPlace}

    async def listed(self, topics: Counts, place: LogPlace, limit_s: float) -> Ends:
        if not topics:
            return Ends({})
        try:
            async with asyncio.timeout(limit_s):
                return await self._together[place].ask(topics)
        except TimeoutError as error:
            raise OffsetsError("offsets: no answer in time") from error

    async def _ends(self, place: LogPlace, asked: Sequence[Counts], give: Give[Ends]) -> None:
        wanted: dict[str, int] = {}
        for counts in asked:
            for topic, count in counts.items():
                wanted[topic] = max(count, wanted.get(topic, 0))
        try:
            requests = await self._requests(wanted, place)
        except (ClusterUnreachableError, TransportError) as error:
            for position in range(len(asked)):
                give(position, OffsetsError(f"end offsets: {error}"))
            return
        answers: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        asking: dict[str, list[asyncio.Task[None]]] = defaultdict(list)
        for request in requests:
            task = asyncio.create_task(self._read_ends(request, answers))
            for topic in request.partitions:
                asking[topic].append(task)
        ends: dict[str, tuple[LongArray, dict[TopicPartition, str]]] = {}

        async def among(position: int, counts: Counts) -> None:
            await asyncio.gather(*{task for topic in counts for task in asking[topic]})
            for topic in counts.keys() - ends.keys():
                ends[topic] = ends_of_topic(topic, answers.get(topic, {}), wanted[topic])
            self._reader.expire(topic for topic in counts if ends[topic][1])
            give(position, _among(ends, counts))

        await asyncio.gather(*(among(*each) for each in enumerate(asked)))

    async def _requests(self, topics: Counts, place: LogPlace) -> list[wire.LatestOffsets]:
        """Returns the requests to the partition leaders."""
        read = await self._reader.read(topics)
        if not self._nodes.keys() >= read.online:
            self._nodes = {node.node_id: node for node in await self._reader.nodes()}
        at: dict[Node, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic, codes in read.codes_of.items():
            leaders = np.array([read.placements[code][0] for code in codes[: topics[topic]].tolist()])
            for leader in set(leaders.tolist()):
                if leader in self._nodes:
                    at[self._nodes[leader]][topic] += np.flatnonzero(leaders == leader).tolist()
        return [
            wire.LatestOffsets(node, chunk, TIMEOUT_MS, place)
            for node, partitions in at.items()
            for chunk in _chunks_of_partitions(partitions)
        ]

    async def _read_ends(self, request: wire.LatestOffsets, answers: dict[str, dict[int, tuple[int, int]]]) -> None:
        """Adds (error, offset) by topic and partition, as a partition leader answers. Without an answer they remain
        unknown."""
        try:
            answer = await self._transport.ask(request)
        except TransportError:
            self._nodes = {}  # a broker that was replaced has its number, but another address
            return
        for topic, partitions in answer.items():
            answers[topic].update(partitions)


def ends_of_topic(
    topic: str, answers: Mapping[int, tuple[int, int]], count: int
) -> tuple[LongArray, dict[TopicPartition, str]]:
    """Returns the ends of partitions 0..n-1, NO_END if unknown, and the reason for each unknown one. `answers` are
    (error, offset) by partition."""
    ends, unknown = np.full(count, NO_END, dtype=np.int64), {}
    for partition in range(count):
        error, offset = answers.get(partition, (None, NO_END))
        if error == 0 and offset >= 0:
            ends[partition] = offset
        else:
            why = WHY.get(error) or membership.name_of(error) if error else SILENT
            unknown[TopicPartition(topic, partition)] = why
    return ends, unknown


def _among(ends: Mapping[str, tuple[LongArray, Mapping[TopicPartition, str]]], topics: Counts) -> Ends:
    """Returns one group's part of the ends that were read for all groups."""
    own = {
        partition: why
        for topic, count in topics.items()
        for partition, why in ends[topic][1].items()
        if partition.partition < count
    }
    return Ends({topic: ends[topic][0][:count] for topic, count in topics.items()}, own)


def _cut(answer: Any, topics: Counts) -> Any:
    """Reduces an answer of merged requests to the given topics and partitions."""
    if not isinstance(answer, FetchedOffsets) or answer.error:
        return answer
    return FetchedOffsets({topic: answer.offsets[topic][:count] for topic, count in topics.items()})


def _chunks(ids: Sequence[str], weight: Callable[[str], int]) -> Iterable[list[str]]:
    chunk: list[str] = []
    weighs = 0
    for each in ids:
        if chunk and (len(chunk) == GROUPS_MAX or weighs + weight(each) > PARTITIONS_MAX):
            yield chunk
            chunk, weighs = [], 0
        chunk.append(each)
        weighs += weight(each)
    if chunk:
        yield chunk


def _chunks_of_partitions(topics: Mapping[str, Sequence[int]]) -> Iterable[dict[str, Sequence[int]]]:
    chunk: dict[str, Sequence[int]] = {}
    size = 0
    for topic, partitions in topics.items():
        for begin in range(0, len(partitions), PARTITIONS_MAX):
            part = partitions[begin : begin + PARTITIONS_MAX]
            if chunk and size + len(part) > PARTITIONS_MAX:
                yield chunk
                chunk, size = {}, 0
            chunk[topic] = part
            size += len(part)
            if begin + PARTITIONS_MAX < len(partitions):
                yield chunk
                chunk, size = {}, 0
    if chunk:
        yield chunk
