"""The history of a group's offsets, kept in memory and thinned out as it ages. Pure.

All times are by the clock of this process, in milliseconds since 1970. The timestamps of records, which depend on the
clocks of producers, are not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, LongArray
from bellwether_kafka.coordinator.kafka.client import Offsets
from bellwether_kafka.protocol.primitives import TopicPartition

UNKNOWN = -1
SPACING_MS = 30_000  # at least between two rows that are kept, except before the newest
AGE_PER_SPACING = 16  # older rows are a sixteenth to a seventh of their age apart
AGE_MS_MAX = 86_400_000
WAITS_KEPT = 16  # of refreshes that saw commits; enough that one outage does not distort the rhythm
PARTITIONS_MAX = 20_000  # of one group: 80 rows of these are 26 MB


@dataclass(frozen=True, slots=True, eq=False)
class OffsetSample:
    """Offsets of partitions 0..n-1 by topic, from one refresh; UNKNOWN where nothing is committed or known. `ends` were
    read first, and again where a commit was beyond them. `unknown` has the reasons for unknown ends. `starts` are the
    log starts that were read, perhaps earlier: starts only grow, so an older one is a lower bound."""

    at_ms: int
    committed: Offsets
    ends: Offsets
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    starts: Offsets = field(default_factory=dict)


def _none() -> LongArray:
    return np.empty((0, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class OffsetHistory:
    """The samples of a group, the oldest first. `committed` and `ends` have a row for each time in `at_ms` and a column
    for each partition, topic after topic as in `counts`; UNKNOWN where nothing is known, or was forgotten. `empty` has
    the same shape and is true where the log had no record. `starts` are the log starts of the newest row.

    `active_ms` is when each partition last had a new commit or was read to its end, UNKNOWN if never. `waits_ms` has
    one value for each of the last refreshes that saw commits: a lower bound of the longest time one was awaited.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    at_ms: LongArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    committed: LongArray = field(default_factory=_none)
    ends: LongArray = field(default_factory=_none)
    empty: BoolArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    starts: LongArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    active_ms: LongArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    waits_ms: tuple[int, ...] = ()

    def plus(self, sample: OffsetSample) -> "OffsetHistory":
        """Returns the history with this sample added and outdated rows forgotten: all rows if Bellwether's clock went
        back or the group has more than PARTITIONS_MAX partitions; all values of a partition whose end went back; and
        the committed offsets of one whose committed offset went back."""
        counts = {topic: len(ends) for topic, ends in sample.ends.items()}
        committed, ends, starts = (_row(counts, of) for of in (sample.committed, sample.ends, sample.starts))
        back = len(self.at_ms) > 0 and sample.at_ms <= self.at_ms[-1]
        before = OffsetHistory(waits_ms=self.waits_ms) if back or len(ends) > PARTITIONS_MAX else self
        before = _without_what_went_back(_among(before, counts), committed, ends)
        empty = (starts >= 0) & (starts >= ends) & (ends >= 0)
        active_ms, waits_ms = _rhythm(before, sample.at_ms, committed, committed == ends)
        whole = OffsetHistory(
            counts,
            np.append(before.at_ms, sample.at_ms),
            np.vstack([before.committed, committed]),
            np.vstack([before.ends, ends]),
            np.vstack([before.empty, empty]),
            starts,
            active_ms,
            waits_ms,
        )
        return _thinned(whole)

    def since(self, span_ms: int) -> "OffsetHistory":
        """Returns the rows of the last `span_ms`, and the row before them, if there is one."""
        newest = int(self.at_ms[-1]) if len(self.at_ms) else 0
        first = max(0, int(np.searchsorted(self.at_ms, newest - span_ms, side="right")) - 1)
        return _rows(self, np.arange(len(self.at_ms)) >= first)


def _among(history: OffsetHistory, counts: Mapping[str, int]) -> OffsetHistory:
    """Returns the same history with columns for these topics. Columns of new partitions are UNKNOWN."""
    if history.counts == counts:
        return history
    shape = len(history.at_ms), sum(counts.values())
    committed, ends = (np.full(shape, UNKNOWN, dtype=np.int64) for _ in range(2))
    empty, active_ms = np.zeros(shape, dtype=np.bool_), np.full(shape[1], UNKNOWN, dtype=np.int64)
    at, starts = 0, dict(zip(history.counts, np.cumsum([0, *history.counts.values()]).tolist(), strict=False))
    for topic, count in counts.items():
        same = min(count, history.counts.get(topic, 0))
        if same:
            here, there = slice(at, at + same), slice(starts[topic], starts[topic] + same)
            committed[:, here], ends[:, here] = history.committed[:, there], history.ends[:, there]
            empty[:, here], active_ms[here] = history.empty[:, there], history.active_ms[there]
        at += count
    return replace(history, counts=counts, committed=committed, ends=ends, empty=empty, active_ms=active_ms)


def _without_what_went_back(history: OffsetHistory, committed: LongArray, ends: LongArray) -> OffsetHistory:
    if not len(history.at_ms):
        return history
    # An end that no broker gives at present, as between two leaders of a partition, has not gone back.
    new_log = (ends >= 0) & (ends < history.ends.max(axis=0))
    other_place = new_log | (committed < history.committed[-1])
    if not other_place.any():
        return history
    kept = np.where(other_place, UNKNOWN, history.committed)
    return replace(
        history,
        committed=kept,
        ends=np.where(new_log, UNKNOWN, history.ends),
        empty=history.empty & ~other_place,
        active_ms=np.where(other_place, UNKNOWN, history.active_ms),
    )


def _rhythm(
    before: OffsetHistory, at_ms: int, committed: LongArray, all_read: BoolArray
) -> tuple[LongArray, tuple[int, ...]]:
    """Returns `active_ms` and `waits_ms` after one more refresh. A commit may have come at any time since the refresh
    before, so its wait is counted only up to that one."""
    if not len(before.at_ms):
        return np.where((committed >= 0) & all_read, at_ms, UNKNOWN), before.waits_ms
    last_ms, last = int(before.at_ms[-1]), before.committed[-1]
    moved = (committed > last) & (last >= 0)
    awaited = moved & (before.active_ms >= 0)
    longest = (int(last_ms - before.active_ms[awaited].min()),) if awaited.any() else ()
    active = moved | ((committed >= 0) & all_read)
    return np.where(active, at_ms, before.active_ms), (*before.waits_ms, *longest)[-WAITS_KEPT:]


def _thinned(history: OffsetHistory) -> OffsetHistory:
    times = history.at_ms.tolist()
    newest, keep, last = times[-1], np.zeros(len(times), dtype=np.bool_), None
    for row, at_ms in enumerate(times):
        age_ms = newest - at_ms
        if age_ms > AGE_MS_MAX:
            continue
        if row == len(times) - 1 or last is None or at_ms - last >= max(SPACING_MS, age_ms // AGE_PER_SPACING):
            keep[row], last = True, at_ms
    return _rows(history, keep)


def _rows(history: OffsetHistory, keep: BoolArray) -> OffsetHistory:
    if keep.all():
        return history
    return replace(
        history,
        at_ms=history.at_ms[keep],
        committed=history.committed[keep],
        ends=history.ends[keep],
        empty=history.empty[keep],
    )


def _row(counts: Mapping[str, int], offsets: Offsets) -> LongArray:
    row = np.full(sum(counts.values()), UNKNOWN, dtype=np.int64)
    at = 0
    for topic, count in counts.items():
        column = offsets.get(topic, row[:0])[:count]
        row[at : at + len(column)] = column
        at += count
    return row
