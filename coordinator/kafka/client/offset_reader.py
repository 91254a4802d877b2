"""Reads end offsets through confluent-kafka's admin client, and committed offsets through the transport of group
requests, in limited time. Its thread never waits for a broker: one that is silent must not hide the offsets of others.

Plans need the end offsets of changelogs, dated and nearly current. The observation of progress also needs those of
source topics.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ListedPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.wire import FetchedOffsets, LogPlace, TransportError
from bellwether_kafka.coordinator.membership import name_of
from bellwether_kafka.protocol.primitives import TopicPartition, possible_topics

THREADS = 1
RESULT_SLACK_S = 0.5  # so that the client's own timeout comes first

NO_END = -1

SPECS = {
    LogPlace.END: (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    LogPlace.START: (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    LogPlace.STABLE_END: (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}

Counts = Mapping[str, int]
Offsets = dict[str, LongArray]


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


class GroupOffsets(Protocol):
    """The part of `transport.Transport` that a reader uses."""

    async def committed(self, group_id: str, topics: Counts, timeout_ms: int = 5_000) -> FetchedOffsets: ...


class OffsetReader:
    """Reads offsets. For one event loop; requests are made and answers read in a thread. `wall_clock` is epoch
    seconds."""

    def __init__(
        self,
        admin: AdminClient,
        groups: GroupOffsets,
        *,
        wall_clock: Callable[[], float] = clocks.wall,
    ) -> None:
        self._admin = admin
        self._groups = groups
        self._wall_clock = wall_clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="offset-reader")

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

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def listed(self, topics: Counts, place: LogPlace, limit_s: float) -> Ends:
        """Returns one place in the logs of partitions 0..n-1 of each topic. Raises OffsetsError without an answer."""
        if not any(topics.values()):
            return Ends({topic: np.zeros(0, dtype=np.int64) for topic in topics})
        run, counts = asyncio.get_running_loop().run_in_executor, dict(topics)
        answers = await run(self._threads, self._ask, counts, place, limit_s)
        await _answered(answers.values(), limit_s + RESULT_SLACK_S)
        return await run(self._threads, _ends, counts, answers)

    def _ask(self, topics: dict[str, int], place: LogPlace, limit_s: float) -> "Answers":
        spec, level = SPECS[place]
        wanted = {ListedPartition(t, p): spec for t, n in possible_topics(topics).items() for p in range(n)}
        if not wanted:
            return {}
        try:
            return dict(self._admin.list_offsets(wanted, isolation_level=level, request_timeout=limit_s))
        except (KafkaException, ValueError) as error:
            raise OffsetsError(f"end offsets: {_text(error)}") from error


Answers = Mapping[ListedPartition, "Future[Any]"]


async def _answered(answers: "Iterable[Future[Any]]", limit_s: float) -> None:
    """Waits until all are answered, at most this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            for answer in answers:
                if not answer.done():
                    with suppress(Exception):  # it is read later
                        await asyncio.shield(asyncio.wrap_future(answer))


def _ends(topics: dict[str, int], answers: Answers) -> Ends:
    offsets = {t: np.full(n, NO_END, dtype=np.int64) for t, n in topics.items()}
    unknown: dict[TopicPartition, str] = {}
    for partition, answer in answers.items():
        offset, why = _result(answer)
        if why:
            unknown[TopicPartition(partition.topic, partition.partition)] = why
        else:
            offsets[partition.topic][partition.partition] = offset
    return Ends(offsets, unknown)


def _result(answer: "Future[Any]") -> tuple[int, str]:
    """Returns (offset, reason): the reason is "" if the offset is known. If a partition has no leader, librdkafka
    returns a negative offset (-1001) without an error."""
    if not answer.done():
        return NO_END, "no answer in time"
    try:
        offset = int(answer.result().offset)
    except KafkaException as error:
        return NO_END, _text(error)
    return (offset, "") if offset >= 0 else (NO_END, "no broker leads the partition, or its leader does not answer")


def _text(error: Exception) -> str:
    return str(error.args[0].str()) if isinstance(error, KafkaException) else str(error)
