"""Where logs begin: read seldom, and only of topics in which a group is behind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.coordinator.kafka import NO_END, OffsetReader, Offsets, OffsetsError
from bellwether_kafka.coordinator.observation.offset_history import OffsetSample

AGAIN_MS = 300_000  # retention looks for what to delete as often (log.retention.check.interval.ms)


@dataclass(slots=True)
class _Start:
    """Of one topic: when it was asked for, log starts, NO_END where they are not known, and the newest ends."""

    at_ms: int
    starts: LongArray
    ends: LongArray


class LogStarts:
    """Of the topics of one group."""

    def __init__(self) -> None:
        self._of: dict[str, _Start] = {}

    async def beside(self, offsets: OffsetReader, sample: OffsetSample, limit_s: float) -> OffsetSample:
        """The sample with the log starts that are known; where brokers do not say them, without."""
        self._forget(sample)
        due = {topic: len(ends) for topic, ends in sample.ends.items() if self._due(topic, sample)}
        read = await _read(offsets, due, limit_s) if due else {}
        for topic, count in due.items():
            before = self._of.get(topic)
            starts = read.get(topic, np.full(count, NO_END, dtype=np.int64))
            known = starts if before is None else np.maximum(starts, before.starts)
            self._of[topic] = _Start(sample.at_ms, known, sample.ends[topic])
        return replace(sample, starts={topic: of.starts for topic, of in self._of.items()})

    def _due(self, topic: str, sample: OffsetSample) -> bool:
        known = self._of.get(topic)
        if known is not None and 0 <= sample.at_ms - known.at_ms < AGAIN_MS:
            return False
        committed, ends = sample.committed.get(topic), sample.ends[topic]
        return committed is not None and bool(((committed >= 0) & (committed < ends)).any())

    def _forget(self, sample: OffsetSample) -> None:
        """A log whose end went back is another one, with a start of its own."""
        for topic, known in list(self._of.items()):
            ends = sample.ends.get(topic)
            if ends is None or len(ends) != len(known.ends) or ((ends != NO_END) & (ends < known.ends)).any():
                del self._of[topic]
            else:
                known.ends = np.maximum(ends, known.ends)


async def _read(offsets: OffsetReader, topics: Mapping[str, int], limit_s: float) -> Offsets:
    try:
        return (await offsets.known_starts(topics, limit_s)).offsets
    except OffsetsError:
        return {}
