"""Computes how many bytes a record of each partition has on disk, from the growth of logs. Pure.

Between two samples a log grows by the records that were written, unless its broker deleted something. Retention deletes
segments and moves the log's start. Compaction leaves the start and shrinks the log. The end of a recreated topic went
back. Such an interval shows nothing, and what earlier ones showed remains. A size that no broker reports is unknown,
never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, FloatArray, LongArray

UNKNOWN = -1
# Of so many intervals the median counts. It hides those in which compaction removed less than was written.
INTERVALS_KEPT = 5


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LogSample:
    """The logs of partitions 0..n-1 of one topic: bytes on disk, first offset and end, UNKNOWN where not read."""

    size: LongArray
    start: LongArray
    end: LongArray

    @property
    def complete(self) -> BoolArray:
        """Returns where all three are known."""
        return (self.size >= 0) & (self.start >= 0) & (self.end >= 0)


@dataclass(frozen=True, slots=True, eq=False)
class RecordSizes:
    """The sizes of records of one topic. `newest` has the last complete sample of each partition. `measured` has a row
    of bytes per record for each of the last intervals, NaN where one showed nothing."""

    newest: LogSample
    measured: FloatArray

    @classmethod
    def of(cls, sample: LogSample) -> "RecordSizes":
        return cls(sample, np.empty((0, len(sample.end))))

    def plus(self, sample: LogSample) -> "RecordSizes":
        """Returns the sizes after one more sample. New partitions begin without a past, and so does a topic whose
        partitions have become fewer."""
        before, measured = self.newest, self.measured
        added = len(sample.end) - len(before.end)
        if added < 0:
            return RecordSizes.of(sample)
        if added:
            before = LogSample(
                size=_longer(before.size, added), start=_longer(before.start, added), end=_longer(before.end, added)
            )
            measured = np.hstack([measured, np.full((len(measured), added), np.nan)])
        recreated = (sample.end >= 0) & (sample.end < before.end)
        measured = np.where(recreated, np.nan, measured)
        row = bytes_per_record(before, sample)
        if not np.isnan(row).all():
            measured = np.vstack([measured, row])[-INTERVALS_KEPT:]
        new = sample.complete | recreated
        newest = LogSample(
            size=np.where(new, sample.size, before.size),
            start=np.where(new, sample.start, before.start),
            end=np.where(new, sample.end, before.end),
        )
        return RecordSizes(newest, measured)

    def typical(self) -> FloatArray:
        """Returns the bytes per record of each partition: the median of its intervals, where none showed any that of
        the topic's other partitions, and NaN if there is none either."""
        own = _median(self.measured)
        shown = ~np.isnan(own)
        return np.where(shown, own, np.median(own[shown])) if shown.any() else own

    def relative_error(self) -> FloatArray:
        """Returns the standard error of each partition's bytes per record, relative to them; NaN with fewer than two
        intervals."""
        count = (~np.isnan(self.measured)).sum(axis=0)
        mean = np.nansum(self.measured, axis=0) / np.maximum(count, 1)
        squares = np.nansum((self.measured - mean) ** 2, axis=0) / np.maximum(count - 1, 1)
        error = np.sqrt(squares / np.maximum(count, 1)) / np.where(mean > 0, mean, 1.0)
        return np.where(count > 1, error, np.nan)


@dataclass(frozen=True, slots=True)
class SizesOfTopics:
    """The sizes of records by topic. `missing` is a phrase on why none are known, "" if they are not wanted or were
    read."""

    of: Mapping[str, RecordSizes] = field(default_factory=dict)
    missing: str = ""

    def columns(self, counts: Mapping[str, int]) -> tuple[FloatArray, FloatArray]:
        """Returns the bytes per record and their relative error, topic after topic as in `counts`; NaN where
        they are unknown."""
        typical, errors = [np.empty(0)], [np.empty(0)]
        for topic, count in counts.items():
            sizes = self.of.get(topic)
            fits = sizes is not None and len(sizes.newest.end) == count
            typical.append(sizes.typical() if sizes is not None and fits else np.full(count, np.nan))
            errors.append(sizes.relative_error() if sizes is not None and fits else np.full(count, np.nan))
        return np.concatenate(typical), np.concatenate(errors)


def bytes_per_record(before: LogSample, now: LogSample) -> FloatArray:
    """Returns the bytes per record that were written between two samples of a topic, NaN where these do not show it."""
    records, grown = now.end - before.end, now.size - before.size
    shown = before.complete & now.complete & (now.start == before.start) & (records > 0) & (grown > 0)
    return np.where(shown, grown / np.maximum(records, 1), np.nan)


def _longer(values: LongArray, added: int) -> LongArray:
    return np.append(values, np.full(added, UNKNOWN, dtype=np.int64))


def _median(rows: FloatArray) -> FloatArray:
    """Returns the median of each column without NaN, NaN for columns of nothing else."""
    if not len(rows):
        return np.full(rows.shape[1], np.nan)
    ordered, columns = np.sort(rows, axis=0), np.arange(rows.shape[1])  # NaN comes last
    count = (~np.isnan(rows)).sum(axis=0)
    lower = ordered[np.maximum(count - 1, 0) // 2, columns]
    upper = ordered[np.minimum(count // 2, len(rows) - 1), columns]
    median: FloatArray = (lower + upper) / 2
    return median
