"""Log start offsets, last stable offsets and sizes of records. They are read rarely: the first two only for topics in
which a group is behind, the sizes only for a group whose weights they change."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import LogSample, LongArray, RecordSizes, SizesOfTopics
from bellwether_kafka.coordinator.kafka.client import (
    NO_END,
    Counts,
    OffsetReader,
    Offsets,
    OffsetsError,
    in_sync_replicas,
)
from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError
from bellwether_kafka.coordinator.membership import Failure
from bellwether_kafka.coordinator.observation.lag import VERDICTS, GroupLag, LagVerdict
from bellwether_kafka.coordinator.observation.offset_history import OffsetSample

AGAIN_MS = 300_000  # as often as retention deletes records (log.retention.check.interval.ms)
STABLE_AGAIN_MS = 60_000
SIZES_SOON_MS, SIZES_AGAIN_MS = 20_000, 300_000  # the first few samples follow one another soon
SIZES_SOON = 6  # samples
SIZES_OLD_MS = 3_600_000  # sizes are forgotten if none could be read for so long
NO_RIGHT = "no broker reports log sizes, which needs the ACL DESCRIBE on Cluster"
NODES_LIMIT_S = 5.0
NO_ANSWER = "brokers did not report log sizes in time"
NO_REQUEST = "not every broker has the request DescribeLogDirs"
NAMED_MAX = 5  # partitions in sentences
HELD_BACK = "{}-{}: an open transaction that begins at {} holds back consumers that read committed records only"


LogBytes = Mapping[tuple[str, int], int]
# Returns the bytes on disk of partitions 0..n-1 of each topic; those without an in-sync replica on a
# broker that answers are left out. Raises one of UNREAD if no broker answers.
ReadLogs = Callable[[Counts], Awaitable[LogBytes]]
UNREAD = (KafkaException, TransportError, TimeoutError)


@dataclass(slots=True)
class _Start:
    """The log starts of one topic, NO_END where unknown, the time of the request, and the newest ends."""

    at_ms: int
    starts: LongArray
    ends: LongArray


class LogStarts:
    """Log starts of the topics of one group."""

    def __init__(self) -> None:
        self._of: dict[str, _Start] = {}

    async def beside(self, offsets: OffsetReader, sample: OffsetSample, limit_s: float) -> OffsetSample:
        """Returns the sample with the known log starts. Brokers are asked only where these are due."""
        self._forget(sample)
        due = {topic: len(ends) for topic, ends in sample.ends.items() if self._due(topic, sample)}
        read = await _read(offsets, due, limit_s) if due else {}
        for topic, count in due.items():
            before = self._of.get(topic)
            starts = read.get(topic, np.full(count, NO_END, dtype=np.int64))
            newest = starts if before is None else np.maximum(starts, before.starts)
            self._of[topic] = _Start(sample.at_ms, newest, sample.ends[topic])
        return replace(sample, starts={topic: of.starts for topic, of in self._of.items()})

    def _due(self, topic: str, sample: OffsetSample) -> bool:
        cached = self._of.get(topic)
        if cached is not None and 0 <= sample.at_ms - cached.at_ms < AGAIN_MS:
            return False
        committed, ends = sample.committed.get(topic), sample.ends[topic]
        return committed is not None and bool(((committed >= 0) & (committed < ends)).any())

    def _forget(self, sample: OffsetSample) -> None:
        """Forgets topics in which an end went back: their logs were created anew and have other starts."""
        for topic, cached in list(self._of.items()):
            ends = sample.ends.get(topic)
            if ends is None or len(ends) != len(cached.ends) or ((ends != NO_END) & (ends < cached.ends)).any():
                del self._of[topic]
            else:
                cached.ends = np.maximum(ends, cached.ends)


class LogSamples:
    """The sizes of records of the topics of one group, from samples of their logs."""

    def __init__(self) -> None:
        self.sizes = SizesOfTopics()
        self._counts: Counts = {}
        self._sampled_ms: int | None = None
        self._read_ms = 0  # when a size was read
        self._samples = 0  # of these topics, with sizes
        self._failures = 0  # since the last one with sizes

    async def refresh(self, offsets: OffsetReader, read: ReadLogs, counts: Counts, now_ms: int, limit_s: float) -> None:
        """Adds a sample if one is due. Brokers that do not answer in time leave what is known."""
        if counts != self._counts:
            self._counts, self._samples, self._failures = dict(counts), 0, 0
        if not self._due(now_ms):
            return
        self._sampled_ms = now_ms
        try:
            async with asyncio.timeout(limit_s):
                log_bytes, ends = await asyncio.gather(read(counts), offsets.known_ends(counts, limit_s))
                starts = await offsets.known_starts(counts, limit_s)
        except (OffsetsError, *UNREAD) as error:
            self._missing(why_unread(error), now_ms)
            return
        if not log_bytes:
            self._missing(NO_RIGHT, now_ms)
            return
        self._read_ms, self._samples, self._failures = now_ms, self._samples + 1, 0
        samples = {topic: _log_sample(topic, log_bytes, starts.offsets, ends.offsets[topic]) for topic in counts}
        before = self.sizes.of
        self.sizes = SizesOfTopics(
            {t: before[t].plus(s) if t in before else RecordSizes.of(s) for t, s in samples.items()}
        )

    def _due(self, now_ms: int) -> bool:
        soon = max(self._samples, self._failures) < SIZES_SOON
        interval_ms = SIZES_SOON_MS if soon else SIZES_AGAIN_MS
        return self._sampled_ms is None or not 0 <= now_ms - self._sampled_ms < interval_ms

    def _missing(self, reason: str, now_ms: int) -> None:
        self._failures += 1
        recent = now_ms - self._read_ms < SIZES_OLD_MS
        self.sizes = SizesOfTopics(self.sizes.of if recent else {}, reason)


async def read_logs(transport: Transport, admin: AdminClient, counts: Counts) -> LogBytes:
    """Returns the bytes on disk by partition, as `ReadLogs` does."""
    in_sync = await asyncio.to_thread(in_sync_replicas, admin, counts, NODES_LIMIT_S)
    return await transport.largest_logs(in_sync, counts, in_sync)


def why_unread(error: Exception) -> str:
    """Returns a phrase on why log sizes could not be read, from one of UNREAD or an OffsetsError."""
    unsupported = isinstance(error, TransportError) and error.failure is Failure.UNSUPPORTED
    return NO_REQUEST if unsupported else NO_ANSWER


def _log_sample(topic: str, log_bytes: LogBytes, starts: Offsets, ends: LongArray) -> LogSample:
    size = np.array([log_bytes.get((topic, p), NO_END) for p in range(len(ends))], dtype=np.int64)
    return LogSample(size=size, start=starts.get(topic, np.full_like(ends, NO_END)), end=ends)


async def _read(offsets: OffsetReader, topics: Mapping[str, int], limit_s: float) -> Offsets:
    try:
        return (await offsets.known_starts(topics, limit_s)).offsets
    except OffsetsError:
        return {}


class StableEnds:
    """Last stable offsets of those topics of one group that have a stalled partition."""

    def __init__(self) -> None:
        self._at_ms = 0
        self._of: Offsets = {}

    async def held_back(self, offsets: OffsetReader, lag: GroupLag, limit_s: float) -> tuple[str, ...]:
        """Returns sentences on stalled partitions in which the group has read everything up to an open transaction."""
        stalled = _by_topic(lag, lag.verdict == VERDICTS.index(LagVerdict.STALLED))
        topics = {topic: count for topic, count in lag.counts.items() if stalled[topic].any()}
        if not topics:
            self._of = {}
            return ()
        if topics.keys() - self._of.keys() or not 0 <= lag.at_ms - self._at_ms < STABLE_AGAIN_MS:
            self._at_ms, self._of = lag.at_ms, await self._read(offsets, topics, limit_s)
        committed, ends = _by_topic(lag, lag.committed), _by_topic(lag, lag.end)
        sentences = (
            HELD_BACK.format(topic, partition, stable[partition])
            for topic, stable in self._of.items()
            if topic in topics and len(stable) == topics[topic]
            for partition in np.flatnonzero(
                stalled[topic] & (stable >= 0) & (committed[topic] >= stable) & (stable < ends[topic])
            ).tolist()
        )
        return tuple(islice(sentences, NAMED_MAX))

    async def _read(self, offsets: OffsetReader, topics: Mapping[str, int], limit_s: float) -> Offsets:
        unknown = {topic: np.full(count, NO_END, dtype=np.int64) for topic, count in topics.items()}
        try:
            return unknown | (await offsets.known_stable_ends(topics, limit_s)).offsets
        except OffsetsError:
            return unknown


def _by_topic(lag: GroupLag, column: Any) -> dict[str, Any]:
    firsts = np.cumsum([*lag.counts.values()])[:-1]
    return dict(zip(lag.counts, np.split(column, firsts), strict=False))
