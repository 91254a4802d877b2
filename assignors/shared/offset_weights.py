"""Computes the weights of a group's partitions from its offsets alone, for groups without a topic of weights. Pure.

A partition weighs as many records per second as are written to it, and what it takes to work off within LAG_S the lag
that stays. A lag that comes and goes, as between two commits, has no effect.

Where the sizes of records are known, half of a weight follows the records and half their bytes, because what a record
costs a consumer is partly the same for all and partly grows with its size. Of members that are even by such weights
none has more than twice the mean, neither of records nor of bytes. A record whose size is not known counts as one of
mean size.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, FloatArray, LongArray
from bellwether_kafka.assignors.shared.record_sizes import SizesOfTopics
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.protocol.primitives import TopicPartition

WEIGHT_WINDOW_MS = 600_000  # of the offsets to use
LAG_S = 600.0
SPAN_MS_MIN = 20_000  # rates over a shorter span are not used
STEP_MS_MIN = 15_000  # shorter steps do not count for the error
STEPS_MIN = 4  # fewer do not show how much rates vary
BYTES_SHARE = 0.5  # of a weight that follows the bytes of records
RECORDS, RECORDS_AND_BYTES = "records", "records and bytes"


@dataclass(frozen=True, slots=True, eq=False)
class OffsetRows:
    """A group's offsets at the times `at_ms`, the oldest first. `committed` and `ends` have a row for each time and
    a column for each partition, topic after topic as in `counts`; -1 where nothing is known. `starts` are the newest
    log starts, `sizes` those of records."""

    counts: Mapping[str, int]
    at_ms: LongArray
    committed: LongArray
    ends: LongArray
    starts: LongArray
    sizes: SizesOfTopics = field(default_factory=SizesOfTopics)

    def weights(self) -> Weights:
        """Returns the loads that are known. Without any there are no weights, and counts are balanced."""
        if not len(self.at_ms):
            return Weights()
        load = self.loads()
        names = (TopicPartition(topic, p) for topic, count in self.counts.items() for p in range(count))
        kept = {name: value for name, value in zip(names, load.tolist(), strict=True) if not math.isnan(value)}
        if not kept:
            return Weights()
        return Weights(kept, error=self.error(), source=self._source())

    def loads(self) -> FloatArray:
        """Returns the load of each partition in records per second, of mean size where sizes are known; NaN if its ends
        have not been known for SPAN_MS_MIN. There must be a row."""
        return self._records() * self._cost_of_record()

    def _records(self) -> FloatArray:
        """Returns the loads by records alone. An end that is not known now, as while a partition has no leader, is that
        of the last row that has one."""
        seen = self.ends >= 0
        columns, rows = np.arange(seen.shape[1]), len(self.at_ms)
        first, last = np.argmax(seen, axis=0), rows - 1 - np.argmax(seen[::-1], axis=0)
        span_ms = self.at_ms[last] - self.at_ms[first]
        usable = seen.any(axis=0) & (span_ms >= SPAN_MS_MIN)
        written = self.ends[last, columns] - self.ends[first, columns]
        load = written * 1000 / np.maximum(span_ms, 1) + self._lag_that_stays(seen) / LAG_S
        return np.where(usable, load, np.nan)

    def _cost_of_record(self) -> FloatArray:
        """Returns what a record of each partition counts for: 1 for one of mean size."""
        size, records = self.sizes.columns(self.counts)[0], self._records()
        sized = ~np.isnan(size) & ~np.isnan(records)
        total = float(records[sized].sum())
        if total <= 0:
            return np.ones(len(size))
        mean = float((records * size)[sized].sum()) / total
        return np.where(sized, 1 - BYTES_SHARE + BYTES_SHARE * size / mean, 1.0)

    def _source(self) -> str:
        sized = ~np.isnan(self.sizes.columns(self.counts)[0])
        if sized.all():
            return RECORDS_AND_BYTES
        if sized.any():
            return f"{RECORDS_AND_BYTES}; sizes of {int(sized.sum())} of {len(sized)} partitions are known"
        return f"{RECORDS}; {self.sizes.missing}" if self.sizes.missing else RECORDS

    def _lag_that_stays(self, seen: BoolArray) -> LongArray:
        """Returns the least lag of each partition. It is 0 where none is known."""
        both = seen & (self.committed >= 0)
        unread = np.maximum(0, self.ends - np.maximum(self.committed, self.starts))
        lag = np.where(both, unread, np.iinfo(np.int64).max)
        return np.where(both.any(axis=0), lag.min(axis=0), 0)

    def error(self) -> float | None:
        """Returns the standard error of partitions' shares of the load, added up as of independent values. A rate that
        varies in all partitions alike changes no share. None if there are too few steps. A size whose error is not
        known, as after one interval, may be wrong by all of it."""
        rows = (self.ends >= 0).all(axis=1)
        apart = np.diff(self.at_ms[rows]) >= STEP_MS_MIN
        cost = self._cost_of_record()
        steps = (np.diff(self.ends[rows], axis=0) * cost)[apart]
        total = steps.sum(axis=1)
        shares = steps[total > 0] / total[total > 0][:, None]
        if len(shares) < STEPS_MIN:
            return None
        size, error = self.sizes.columns(self.counts)
        error = np.where(np.isnan(error) & ~np.isnan(size), 1.0, np.nan_to_num(error))
        of_sizes = error * (1 - (1 - BYTES_SHARE) / cost)
        return float(np.sqrt((shares.var(axis=0, ddof=1) / len(shares) + (shares.mean(axis=0) * of_sizes) ** 2).sum()))
