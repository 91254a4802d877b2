"""Computes the weights of a group's partitions from its offsets alone, for groups without a topic of weights. Pure.

A partition weighs as many records per second as are written to it, and what it takes to work off within LAG_S the lag
that stays. A lag that comes and goes, as between two commits, has no effect.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, FloatArray, LongArray
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.protocol.primitives import TopicPartition

WEIGHT_WINDOW_MS = 600_000  # of the offsets to use
LAG_S = 600.0
SPAN_MS_MIN = 20_000  # rates over a shorter span are not used
STEP_MS_MIN = 15_000  # shorter steps do not count for the error
STEPS_MIN = 4  # fewer do not show how much rates vary


@dataclass(frozen=True, slots=True, eq=False)
class OffsetRows:
    """A group's offsets at the times `at_ms`, the oldest first. `committed` and `ends` have a row for each time and
    a column for each partition, topic after topic as in `counts`; -1 where nothing is known. `starts` are the newest
    log starts."""

    counts: Mapping[str, int]
    at_ms: LongArray
    committed: LongArray
    ends: LongArray
    starts: LongArray

    def weights(self) -> Weights:
        """Returns the loads that are known. Without any there are no weights, and counts are balanced."""
        if not len(self.at_ms):
            return Weights()
        load = self.loads()
        names = (TopicPartition(topic, p) for topic, count in self.counts.items() for p in range(count))
        kept = {name: value for name, value in zip(names, load.tolist(), strict=True) if not math.isnan(value)}
        return Weights(kept, error=self._relative_error(self.ends >= 0))

    def loads(self) -> FloatArray:
        """Returns the load of each partition in records per second, NaN if its ends have not been known for
        SPAN_MS_MIN. An end that is not known now, as while a partition has no leader, is that of the last row that has
        one. There must be a row."""
        seen = self.ends >= 0
        columns, rows = np.arange(seen.shape[1]), len(self.at_ms)
        first, last = np.argmax(seen, axis=0), rows - 1 - np.argmax(seen[::-1], axis=0)
        span_ms = self.at_ms[last] - self.at_ms[first]
        usable = seen.any(axis=0) & (span_ms >= SPAN_MS_MIN)
        written = self.ends[last, columns] - self.ends[first, columns]
        load = written * 1000 / np.maximum(span_ms, 1) + self._lag_that_stays(seen) / LAG_S
        return np.where(usable, load, np.nan)

    def _lag_that_stays(self, seen: BoolArray) -> LongArray:
        """Returns the least lag of each partition. It is 0 where none is known."""
        both = seen & (self.committed >= 0)
        unread = np.maximum(0, self.ends - np.maximum(self.committed, self.starts))
        lag = np.where(both, unread, np.iinfo(np.int64).max)
        return np.where(both.any(axis=0), lag.min(axis=0), 0)

    def _relative_error(self, seen: BoolArray) -> float | None:
        """Returns the standard error of partitions' shares of all that is written, added up as of independent values.
        A rate that varies in all partitions alike changes no share. None if there are too few steps."""
        rows = seen.all(axis=1)
        apart = np.diff(self.at_ms[rows]) >= STEP_MS_MIN
        steps = np.diff(self.ends[rows], axis=0)[apart]
        total = steps.sum(axis=1)
        shares = steps[total > 0] / total[total > 0][:, None]
        if len(shares) < STEPS_MIN:
            return None
        return float(np.sqrt(shares.var(axis=0, ddof=1).sum() / len(shares)))
