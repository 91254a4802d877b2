"""Log start offsets and last stable offsets. They are read rarely, and only for topics in which a group is behind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.coordinator.kafka import NO_END, OffsetReader, Offsets, OffsetsError
from bellwether_kafka.coordinator.observation.lag import VERDICTS, GroupLag, LagVerdict
from bellwether_kafka.coordinator.observation.offset_history import OffsetSample

AGAIN_MS = 300_000  # as often as retention deletes records (log.retention.check.interval.ms)
STABLE_AGAIN_MS = 60_000
NAMED_MAX = 5  # partitions in sentences
HELD_BACK = "{}-{}: an open transaction that begins at {} holds back consumers that read committed records only"


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
