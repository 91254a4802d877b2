"""Reads offsets of logs by shared requests to the leaders of their partitions, and committed offsets, in limited time.
One leader that is silent hides the offsets of no other.

Plans need the end offsets of changelogs, dated and nearly current. The observation of progress also needs those of
source topics.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client.cluster import ClusterReader, ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import (
    FetchedOffsets,
    Give,
    LatestOffsets,
    LogPlace,
    NodeRequest,
    Together,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Node, name_of
from bellwether_kafka.protocol.primitives import TopicPartition

NO_END = -1
PARTITIONS_MAX = 10_000  # in one request, whose answer is then a third of a megabyte
TIMEOUT_MS = 5_000
LEADERS_AGE_MS = 30_000
RESULT_SLACK_S = 0.5  # so that partial results come first
AGAIN_S = (0.1, 0.4)  # pauses before partitions are asked again whose leader has moved
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER = 3, 5, 6
LATE = "no answer in time"
SILENT = "no broker leads the partition, or its leader does not answer"
WHY = {
    UNKNOWN_TOPIC: "the topic does not exist any more",
    LEADER_NOT_AVAILABLE: "no broker leads the partition",
    NOT_LEADER: "its leader has moved",
    29: "Bellwether may not describe the topic",
}

_PASSING = frozenset({SILENT, WHY[LEADER_NOT_AVAILABLE], WHY[NOT_LEADER]})

T = TypeVar("T")
Counts = Mapping[str, int]
Offsets = dict[str, LongArray]
Answers = Mapping[int, tuple[int, int]]  # (error, offset) by partition


class OffsetsError(Exception):
    """Offsets were not read in time, or not all of them. The message names the first partition without one."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The log ends, or another place, of partitions 0..n-1 of each topic. `offsets` has NO_END where it is unknown, and
    `unknown` a phrase on the reason. An unknown partition does not hide the others."""

    offsets: Offsets
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)

    def whole(self) -> Offsets:
        """Returns the offsets. Raises OffsetsError, which names the first partition without one."""
        for (topic, partition), why in self.unknown.items():
            raise OffsetsError(f"end offset of {topic}-{partition}: {why}")
        return self.offsets


class Requests(Protocol):
    """The part of `wire.Transport` that a reader uses."""

    async def ask(self, request: NodeRequest[T]) -> T: ...


class GroupOffsets(Protocol):
    """Reads committed offsets."""

    async def committed(self, group_id: str, topics: Counts, timeout_ms: int = 5_000) -> FetchedOffsets: ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The offsets that one caller waits for `until` (monotonic seconds)."""

    topics: Counts
    until: float


class OffsetReader:
    """Reads offsets. For one event loop. `wall_clock` is epoch seconds. `reader` finds the leaders."""

    def __init__(
        self,
        reader: ClusterReader,
        transport: Requests,
        groups: GroupOffsets,
        *,
        wall_clock: Callable[[], float] = clocks.wall,
    ) -> None:
        self._reader = reader
        self._transport = transport
        self._groups = groups
        self._wall_clock = wall_clock
        self._nodes: dict[int, Node] = {}
        self._together: dict[LogPlace, Together[_Wanted, Ends]] = {
            place: Together(partial(self._ends, place)) for place in LogPlace
        }

    async def end_offsets(self, group_id: str, latest: Counts, committed: Counts, limit_s: float) -> EndOffsets:
        """Returns the ends of changelogs: of `latest` topics their log ends (read uncommitted), of `committed` ones,
        which are source topics, the group's committed offsets. Never raises; a failure is a value.

        Nothing is cached. With older ends, members that have just joined could be beyond the end, which would mean a
        restore from scratch, or seem to have caught up when they have not.
        """
        began_ms = int(self._wall_clock() * 1000)
        try:
            ends, own = await asyncio.gather(self.ends(latest, limit_s), self.committed(group_id, committed, limit_s))
        except OffsetsError as error:
            return EndOffsets.failed(str(error))
        return EndOffsets({**ends, **{t: np.maximum(offsets, 0) for t, offsets in own.items()}}, began_ms)

    async def known_ends(self, topics: Counts, limit_s: float) -> Ends:
        """Returns the known log ends of partitions 0..n-1 of each topic. Raises OffsetsError if no broker answers."""
        return await self.listed(topics, LogPlace.END, limit_s)

    async def ends(self, topics: Counts, limit_s: float) -> Offsets:
        """Returns the log ends of partitions 0..n-1 of each topic. Raises OffsetsError if a single one is unknown."""
        return (await self.known_ends(topics, limit_s)).whole()

    async def known_starts(self, topics: Counts, limit_s: float) -> Ends:
        """Returns the log starts, like `known_ends`."""
        return await self.listed(topics, LogPlace.START, limit_s)

    async def known_stable_ends(self, topics: Counts, limit_s: float) -> Ends:
        """Returns the last stable offsets, like `known_ends`. Consumers with read_committed read only up to there."""
        return await self.listed(topics, LogPlace.STABLE_END, limit_s)

    async def starts(self, topics: Counts, limit_s: float) -> Offsets:
        """Returns the log starts of partitions 0..n-1 of each topic. Raises OffsetsError."""
        return (await self.known_starts(topics, limit_s)).whole()

    async def committed(self, group_id: str, topics: Counts, limit_s: float) -> Offsets:
        """Returns the group's committed offsets, MISSING (-1) if there is none. Raises OffsetsError."""
        if not topics:
            return {}
        at = f"committed offsets of {group_id}"
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._groups.committed(group_id, topics, int(limit_s * 1000))
        except TimeoutError as error:
            raise OffsetsError(f"{at}: no answer in time") from error
        except TransportError as error:
            raise OffsetsError(f"{at}: {error}") from error
        if answer.error:
            partition = f" for {answer.at}" if answer.at else ""
            raise OffsetsError(f"{at}: {name_of(answer.error)}{partition}")
        return {topic: np.array(offsets, dtype=np.int64) for topic, offsets in answer.offsets.items()}

    async def listed(self, topics: Counts, place: LogPlace, limit_s: float) -> Ends:
        """Returns one place in the logs of partitions 0..n-1 of each topic. Raises OffsetsError without an answer."""
        if not any(topics.values()):
            return Ends({topic: np.zeros(0, dtype=np.int64) for topic in topics})
        until = clocks.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s + RESULT_SLACK_S):
                read = await self._together[place].ask(_Wanted(topics, until))
                for pause_s in AGAIN_S:
                    left = {partition.topic for partition, why in read.unknown.items() if why in _PASSING}
                    if not left or clocks.monotonic() + pause_s > until:
                        break
                    await asyncio.sleep(pause_s)
                    again = {topic: count for topic, count in topics.items() if topic in left}
                    read = _with(read, await self._together[place].ask(_Wanted(again, until)))
                return read
        except TimeoutError as error:
            raise OffsetsError(f"offsets: {LATE}") from error

    async def _ends(self, place: LogPlace, asked: Sequence[_Wanted], give: Give[Ends]) -> None:
        wanted: dict[str, int] = {}
        for each in asked:
            for topic, count in each.topics.items():
                wanted[topic] = max(count, wanted.get(topic, 0))
        try:
            requests, absent = await self._requests(wanted, place)
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
        whole: dict[str, tuple[LongArray, dict[TopicPartition, str]]] = {}

        async def among(position: int, topics: Counts, until: float) -> None:
            tasks = {task for topic in topics for task in asking[topic]}
            pending = set[asyncio.Task[None]]()
            if tasks:
                _, pending = await asyncio.wait(tasks, timeout=max(0.0, until - clocks.monotonic()))
            own = {}
            for topic in topics:
                if topic in whole:
                    own[topic] = whole[topic]
                    continue
                late = not pending.isdisjoint(asking[topic])
                silent = LATE if late else WHY[UNKNOWN_TOPIC] if topic in absent else SILENT
                own[topic] = ends_of_topic(topic, answers.get(topic, {}), wanted[topic], silent)
                if not late:
                    whole[topic] = own[topic]
            self._reader.expire(topic for topic in topics if own[topic][1])
            give(position, _among(own, topics))

        await asyncio.gather(*(among(position, each.topics, each.until) for position, each in enumerate(asked)))

    async def _requests(self, topics: Counts, place: LogPlace) -> tuple[list[LatestOffsets], frozenset[str]]:
        """Returns the requests to the partition leaders, and the topics that do not exist."""
        read = await self._reader.read(topics, LEADERS_AGE_MS)
        if not self._nodes.keys() >= read.online:
            self._nodes = {node.node_id: node for node in await self._reader.nodes()}
        at: dict[Node, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic, codes in read.codes_of.items():
            leaders = np.array([read.placements[code][0] for code in codes[: topics[topic]].tolist()])
            for leader in set(leaders.tolist()):
                if leader in self._nodes:
                    at[self._nodes[leader]][topic] += np.flatnonzero(leaders == leader).tolist()
        return [
            LatestOffsets(node, chunk, TIMEOUT_MS, place)
            for node, partitions in at.items()
            for chunk in _chunks_of_partitions(partitions)
        ], read.absent

    async def _read_ends(self, request: LatestOffsets, answers: dict[str, dict[int, tuple[int, int]]]) -> None:
        """Adds (error, offset) by topic and partition, as a partition leader answers. Without an answer they remain
        unknown."""
        try:
            answer = await self._transport.ask(request)
        except TransportError:
            self._nodes = {}  # a broker that was replaced has its number, but another address
            return
        for topic, partitions in answer.items():
            answers[topic].update(partitions)

    def close(self) -> None:
        """Owns nothing."""


def ends_of_topic(
    topic: str, answers: Answers, count: int, silent: str = SILENT
) -> tuple[LongArray, dict[TopicPartition, str]]:
    """Returns the ends of partitions 0..n-1, NO_END if unknown, and why, for each unknown one: `silent` without
    an answer."""
    ends, unknown = np.full(count, NO_END, dtype=np.int64), {}
    for partition in range(count):
        error, offset = answers.get(partition, (None, NO_END))
        if error == 0 and offset >= 0:
            ends[partition] = offset
        else:
            why = WHY.get(error) or name_of(error) if error else silent
            unknown[TopicPartition(topic, partition)] = why
    return ends, unknown


def _with(read: Ends, again: Ends) -> Ends:
    """Returns what was read, with the topics that were read again."""
    kept = {partition: why for partition, why in read.unknown.items() if partition.topic not in again.offsets}
    return Ends({**read.offsets, **again.offsets}, {**kept, **again.unknown})


def _among(ends: Mapping[str, tuple[LongArray, Mapping[TopicPartition, str]]], topics: Counts) -> Ends:
    """Returns one group's part of the ends that were read for all groups."""
    own = {
        partition: why
        for topic, count in topics.items()
        for partition, why in ends[topic][1].items()
        if partition.partition < count
    }
    return Ends({topic: ends[topic][0][:count] for topic, count in topics.items()}, own)


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
