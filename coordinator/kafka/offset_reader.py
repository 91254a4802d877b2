"""Reads of end offsets through confluent-kafka's admin client and of committed offsets through the transport of group
requests, in limited time. Owns its threads.

Plans need the ends of changelogs, dated and at most a moment old; the watch over progress needs source topics as well.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ListedPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.coordinator.kafka.node_requests import FetchedOffsets
from bellwether_kafka.coordinator.kafka.offset_messages import LogPlace
from bellwether_kafka.coordinator.kafka.transport import TransportError
from bellwether_kafka.coordinator.membership import name_of
from bellwether_kafka.protocol.primitives import TopicPartition, possible_topics

THREADS = 1
RESULT_SLACK_S = 0.5  # the client's own timeout should be the one that speaks

NO_END = -1

SPECS = {
    LogPlace.END: (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    LogPlace.START: (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    LogPlace.STABLE_END: (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}

Counts = Mapping[str, int]
Offsets = dict[str, LongArray]


class OffsetsError(Exception):
    """No offsets in time, or not all of them; the message names the first partition without one."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The log ends of partitions 0..n-1 of each topic, or another place. `offsets` has NO_END where it is not known,
    and `unknown` says of each of those why, as a part of a sentence. One partition that nobody answers for hides no
    other."""

    offsets: Offsets
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)

    def whole(self) -> Offsets:
        """All of them. Raises OffsetsError, which names the first partition whose end is not known."""
        for (topic, partition), why in self.unknown.items():
            raise OffsetsError(f"end offset of {topic}-{partition}: {why}")
        return self.offsets


class GroupOffsets(Protocol):
    """What `transport.Transport` is here."""

    async def committed(self, group_id: str, topics: Counts, timeout_ms: int = 5_000) -> FetchedOffsets: ...


class OffsetReader:
    """For one event loop; requests run in threads. `clock` is in seconds, monotonic; `wall_clock` in seconds, epoch."""

    def __init__(
        self,
        admin: AdminClient,
        groups: GroupOffsets,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._admin = admin
        self._groups = groups
        self._clock = clock
        self._wall_clock = wall_clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="offset-reader")

    async def end_offsets(self, group_id: str, latest: Counts, committed: Counts, limit_s: float) -> EndOffsets:
        """The ends of changelogs: `latest` topics by their log ends (read uncommitted), `committed` ones, which are
        source topics, by the group's committed offsets. Never raises; a failure is a value.

        Nothing is kept: beside older ends, members that have just joined are beyond the end, which means a store to be
        restored from scratch, or seem to have caught up where they have not.
        """
        began_ms = int(self._wall_clock() * 1000)
        try:
            ends, own = await asyncio.gather(self.ends(latest, limit_s), self.committed(group_id, committed, limit_s))
        except OffsetsError as error:
            return EndOffsets.failed(str(error))
        return EndOffsets({**ends, **{t: np.maximum(offsets, 0) for t, offsets in own.items()}}, began_ms)

    async def known_ends(self, topics: Counts, limit_s: float) -> Ends:
        """The log ends of partitions 0..n-1 of each topic, as far as brokers say. Raises OffsetsError where none
        does."""
        return await self.listed(topics, LogPlace.END, limit_s)

    async def ends(self, topics: Counts, limit_s: float) -> Offsets:
        """The same where all of them are needed. Raises OffsetsError for a single one that is not known."""
        return (await self.known_ends(topics, limit_s)).whole()

    async def known_starts(self, topics: Counts, limit_s: float) -> Ends:
        """As `known_ends`, of log starts."""
        return await self.listed(topics, LogPlace.START, limit_s)

    async def known_stable_ends(self, topics: Counts, limit_s: float) -> Ends:
        """As `known_ends`, of last stable offsets: consumers that read committed records only read up to there."""
        return await self.listed(topics, LogPlace.STABLE_END, limit_s)

    async def starts(self, topics: Counts, limit_s: float) -> Offsets:
        """The log starts of partitions 0..n-1 of each topic. Raises OffsetsError."""
        return (await self.known_starts(topics, limit_s)).whole()

    async def committed(self, group_id: str, topics: Counts, limit_s: float) -> Offsets:
        """The group's committed offsets, MISSING where there is none. Raises OffsetsError."""
        if not topics:
            return {}
        at = f"committed offsets of {group_id}"
        try:
            async with asyncio.timeout(limit_s):
                found = await self._groups.committed(group_id, topics, int(limit_s * 1000))
        except TimeoutError as error:
            raise OffsetsError(f"{at}: no answer in time") from error
        except TransportError as error:
            raise OffsetsError(f"{at}: {error}") from error
        if found.error:
            raise OffsetsError(f"{at}: {name_of(found.error)}{' for ' * bool(found.at)}{found.at}")
        return {topic: np.array(offsets, dtype=np.int64) for topic, offsets in found.offsets.items()}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def listed(self, topics: Counts, place: LogPlace, limit_s: float) -> Ends:
        """One place in the logs of partitions 0..n-1 of each topic. Raises OffsetsError where nobody answers."""
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._list, dict(topics), place, limit_s)
        try:
            return await asyncio.wait_for(work, limit_s + 2 * RESULT_SLACK_S)
        except TimeoutError as error:
            raise OffsetsError("offsets: no answer in time") from error

    def _list(self, topics: dict[str, int], place: LogPlace, limit_s: float) -> Ends:
        spec, level = SPECS[place]
        wanted = {ListedPartition(t, p): spec for t, n in possible_topics(topics).items() for p in range(n)}
        offsets = {t: np.full(n, NO_END, dtype=np.int64) for t, n in topics.items()}
        if not wanted:
            return Ends(offsets)
        deadline = self._clock() + limit_s + RESULT_SLACK_S
        try:
            asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=limit_s)
        except (KafkaException, ValueError) as error:
            raise OffsetsError(f"end offsets: {_text(error)}") from error
        unknown: dict[TopicPartition, str] = {}
        for partition, answer in asked.items():
            offset, why = self._result(answer, deadline)
            if why:
                unknown[TopicPartition(partition.topic, partition.partition)] = why
            else:
                offsets[partition.topic][partition.partition] = offset
        return Ends(offsets, unknown)

    def _result(self, answer: "Future[Any]", deadline: float) -> tuple[int, str]:
        """The offset, or why it is not known. Where a partition has no leader, librdkafka gives a number below 0 for
        it (-1001) and no error."""
        try:
            offset = int(answer.result(max(0.0, deadline - self._clock())).offset)
        except KafkaException as error:
            return NO_END, _text(error)
        except TimeoutError:
            return NO_END, "no answer in time"
        return (offset, "") if offset >= 0 else (NO_END, "no broker leads the partition, or its leader does not answer")


def _text(error: Exception) -> str:
    return str(error.args[0].str()) if isinstance(error, KafkaException) else str(error)
