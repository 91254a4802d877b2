"""Computes a group's lag in records and in time, its rates, and whether it is stuck. Pure. docs/guides/lag.md has the
rules and their differences from Burrow's.

A lag in time is interpolated between the two samples whose log ends enclose the committed offset.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, LongArray
from bellwether_kafka.coordinator.observation.offset_history import UNKNOWN, OffsetHistory
from bellwether_kafka.protocol.primitives import TopicPartition

WINDOW_MS = 300_000  # the time span of a verdict, unless the group's commits are further apart
RHYTHM_UNKNOWN_MS = 4_500_000  # grace for the first commit in a partition that was read to its end: over an hour
RHYTHM_MS_MAX = 86_400_000
MARKER = "the last offset may be the marker of a transaction, which no consumer reads, or one record"
RATE_MS_MIN = 5_000  # no rate is computed over a shorter span


class LagVerdict(StrEnum):
    """The verdict on a partition, or the worst one of a group. The order is from harmless to worst."""

    OK = "ok"
    UNKNOWN = "unknown"
    FALLING_BEHIND = "falling_behind"
    STALLED = "stalled"
    STOPPED = "stopped"

    @property
    def words(self) -> str:
        """Returns the verdict as it is displayed, such as "falling behind"."""
        return self.value.replace("_", " ")


VERDICTS = tuple(LagVerdict)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of one partition. Unknown values are None.

    `lag` is the number of offsets between the committed offset, or the log start if that is later, and the end.
    `lag_ms_min` is a lower bound for `lag_ms`. Rates are in records per second. `catch_up_ms` is also None if the group
    does not catch up. `note` contains why the lag is unknown or what it does not show, else "".
    """

    topic: str
    partition: int
    member: str | None
    committed: int | None
    end: int | None
    lag: int | None
    lag_ms: int | None
    lag_ms_min: int | None
    written_per_s: float | None
    consumed_per_s: float | None
    catch_up_ms: int | None
    verdict: LagVerdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class LagSummary:
    """The lag of a whole group.

    `verdict` is the worst of the partitions that can be judged. `lag` and `lag_max` are over the known lags, None if
    there are none. `unknown` and `unknown_ms` count the partitions whose lag in records or in time is unknown. `lag_ms`
    is the largest; a partition with an unknown one counts with its lower bound. Rates are sums, None unless known for
    each partition with a known lag. `catch_up_ms` is None unless known for each partition. `verdicts` are the numbers
    of partitions by verdict. `self_assigned`: offsets move although the group has no member.
    """

    partitions: int
    verdict: LagVerdict
    lag: int | None
    lag_max: int | None
    unknown: int
    lag_ms: int | None
    unknown_ms: int
    written_per_s: float | None
    consumed_per_s: float | None
    catch_up_ms: int | None
    verdicts: Mapping[str, int]
    self_assigned: bool = False


@dataclass(frozen=True, slots=True)
class LagReport:
    """A group's lags as plain values. `truncated` is true if not every partition is listed."""

    at_ms: int
    summary: LagSummary
    partitions: tuple[PartitionLag, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, eq=False)
class GroupLag:
    """The lags of a group at `at_ms`. Each array has one entry per partition, topic after topic as in `counts`.

    Unknown integers are UNKNOWN and unknown floats NaN. `verdict` has indices into VERDICTS. `marker` is true where the
    rest may be only a transaction's marker. `notes` are sentences on what the numbers do not show. `unknown` has the
    reasons for partitions without a known end."""

    at_ms: int
    counts: Mapping[str, int]
    member: Sequence[str | None]
    committed: LongArray
    start: LongArray
    end: LongArray
    lag: LongArray
    lag_ms: LongArray
    lag_ms_min: LongArray
    written_per_s: Any
    consumed_per_s: Any
    catch_up_ms: LongArray
    verdict: LongArray
    marker: BoolArray
    notes: tuple[str, ...] = ()
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    self_assigned: bool = False

    def partitions(self, most: int | None = None) -> Iterator[PartitionLag]:
        """Yields the partitions in the order of the arrays, or only the `most` with the largest lag."""
        places = np.arange(len(self.lag))
        if most is not None and len(places) > most:
            places = np.sort(np.argsort(-self.lag, kind="stable")[:most])
        topics, firsts = list(self.counts), np.cumsum([0, *self.counts.values()])
        of = np.searchsorted(firsts, places, side="right") - 1
        whole = (self.committed, self.end, self.lag, self.lag_ms, self.lag_ms_min)
        rates = (self.written_per_s, self.consumed_per_s)
        columns = (
            *(map(_or_none, column[places].tolist()) for column in whole),
            *(map(_rate, column[places].tolist()) for column in rates),
            map(_or_none, self.catch_up_ms[places].tolist()),
            map(VERDICTS.__getitem__, self.verdict[places].tolist()),
        )
        names = zip(of.tolist(), (places - firsts[of]).tolist(), places.tolist(), strict=True)
        rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True)
        for (topic, partition, place), values in zip(names, rows, strict=True):
            committed, end, lag, lag_ms, lag_ms_min, written_per_s, consumed_per_s, catch_up_ms, verdict = values
            why = self.unknown.get(TopicPartition(topics[topic], partition), "")
            yield PartitionLag(
                topic=topics[topic],
                partition=partition,
                member=self.member[place],
                committed=committed,
                end=end,
                lag=lag,
                lag_ms=lag_ms,
                lag_ms_min=lag_ms_min,
                written_per_s=written_per_s,
                consumed_per_s=consumed_per_s,
                catch_up_ms=catch_up_ms,
                verdict=verdict,
                note=MARKER if self.marker[place] else _note(committed, int(self.start[place]), end, why, verdict),
            )

    def by_topic(self) -> dict[str, tuple[int | None, ...]]:
        """Returns the lags in records by topic, None where unknown."""
        values: list[int] = self.lag.tolist()
        lags = iter(map(_or_none, values) if UNKNOWN in values else values)
        return {topic: tuple(islice(lags, count)) for topic, count in self.counts.items()}

    def report(self, most: int | None = None) -> "LagReport":
        """Returns a report of all partitions, or only of the `most` with the largest lag."""
        listed = tuple(self.partitions(most))
        return LagReport(self.at_ms, self.summary(), listed, len(listed) < len(self.lag))

    def summary(self) -> LagSummary:
        lag_known, timed = self.lag != UNKNOWN, self.lag_ms != UNKNOWN
        at_least = np.maximum(self.lag_ms, self.lag_ms_min)
        behind = self.lag > 0
        settled = lag_known.all() and (self.catch_up_ms[behind] != UNKNOWN).all() and len(self.lag) > 0
        tally = np.bincount(self.verdict, minlength=len(VERDICTS)).tolist()
        judged = self.verdict[lag_known | (self.verdict != VERDICTS.index(LagVerdict.UNKNOWN))]
        worst = judged.max() if len(judged) else VERDICTS.index(LagVerdict.UNKNOWN)
        return LagSummary(
            partitions=len(self.lag),
            verdict=VERDICTS[worst],
            lag=int(self.lag[lag_known].sum()) if lag_known.any() else None,
            lag_max=int(self.lag[lag_known].max()) if lag_known.any() else None,
            unknown=int((~lag_known).sum()),
            lag_ms=_or_none(int(at_least.max(initial=UNKNOWN))),
            unknown_ms=int((~timed).sum()),
            written_per_s=_sum(self.written_per_s[lag_known]),
            consumed_per_s=_sum(self.consumed_per_s[lag_known]),
            catch_up_ms=int(self.catch_up_ms[behind].max(initial=0)) if settled else None,
            verdicts={verdict.value: tally[place] for place, verdict in enumerate(VERDICTS)},
            self_assigned=self.self_assigned,
        )


def group_lag(history: OffsetHistory, owners: Mapping[TopicPartition, str] | None) -> GroupLag:
    """Computes the lag from at least one sample. `owners` maps partitions to members; it is None if the group has
    members but their partitions are unknown."""
    committed, start, end = history.committed[-1], history.starts, history.ends[-1]
    next_read = np.maximum(committed, np.minimum(start, end))  # records before the log start are deleted
    member = _members(history.counts, owners or {})
    assigned = np.array([owners is None or name is not None for name in member], dtype=np.bool_)
    lag_known = (committed >= 0) & (end >= committed)
    lag = np.where(lag_known, end - next_read, UNKNOWN)
    window = history.since(WINDOW_MS)
    written, consumed = (_per_second(window.at_ms, offsets) for offsets in (window.ends, window.committed))
    lag_ms, lag_ms_min = _behind_ms(history, next_read, lag_known)
    judged = verdicts(window, assigned)
    marker = _may_be_marker(window, lag, judged)
    return GroupLag(
        at_ms=int(history.at_ms[-1]),
        counts=history.counts,
        member=member,
        committed=committed,
        start=start,
        end=end,
        lag=lag,
        lag_ms=np.where(marker, UNKNOWN, lag_ms),
        lag_ms_min=np.where(marker, 0, lag_ms_min),
        written_per_s=written,
        consumed_per_s=consumed,
        catch_up_ms=_catch_up_ms(lag, written, consumed),
        verdict=_with_rhythm(history, assigned, np.where(marker, VERDICTS.index(LagVerdict.UNKNOWN), judged)),
        marker=marker,
    )


def _members(counts: Mapping[str, int], owners: Mapping[TopicPartition, str]) -> list[str | None]:
    members: list[str | None] = [None] * sum(counts.values())
    firsts = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    for (topic, partition), member in owners.items():
        if partition < counts.get(topic, 0):
            members[firsts[topic] + partition] = member
    return members


def verdicts(window: OffsetHistory, assigned: BoolArray) -> LongArray:
    """Returns for each partition the index of its verdict in VERDICTS. `assigned` marks partitions that a member has.

    A partition whose lag is not known now is UNKNOWN. It is OK if in any sample its lag is zero or its log empty, or if
    it progresses and its lag becomes smaller at some point. Any other verdict needs samples of a whole window. Without
    progress it is STALLED if a member has the partition, else STOPPED. With progress and a lag that has grown and was
    never reduced, it is FALLING_BEHIND.
    """
    committed, lags = window.committed, window.ends - window.committed
    lag_known = (committed >= 0) & (lags >= 0)
    now = lag_known[-1] if len(lag_known) else np.empty(0, dtype=np.bool_)
    both = lag_known[1:] & lag_known[:-1]
    whole = lag_known.all(axis=0) & (window.at_ms[-1] - window.at_ms[0] >= WINDOW_MS)
    moved = (both & (np.diff(committed, axis=0) > 0)).any(axis=0)
    smaller = (both & (np.diff(lags, axis=0) < 0)).any(axis=0)
    fine = (lag_known & ((lags == 0) | window.empty)).any(axis=0) | (moved & smaller)
    grown = lags[-1] > lags[0]
    rules = [
        (~now, LagVerdict.UNKNOWN),
        (fine, LagVerdict.OK),
        (~whole, LagVerdict.UNKNOWN),
        (~moved & assigned, LagVerdict.STALLED),
        (~moved, LagVerdict.STOPPED),
        (grown, LagVerdict.FALLING_BEHIND),
    ]
    places = [VERDICTS.index(verdict) for _, verdict in rules]
    return np.select([rule for rule, _ in rules], places, VERDICTS.index(LagVerdict.OK)).astype(np.int64)


def _may_be_marker(window: OffsetHistory, lag: LongArray, judged: LongArray) -> BoolArray:
    """Returns where the only remaining offset may be a transaction's end marker: the partition makes no progress, its
    end does not change, and its lag is one. An application that commits the offset after its last record leaves this
    marker. Bellwether reads no records and cannot distinguish it from a record."""
    still = (judged == VERDICTS.index(LagVerdict.STALLED)) | (judged == VERDICTS.index(LagVerdict.STOPPED))
    marker: BoolArray = still & (window.ends == window.ends[-1]).all(axis=0) & (lag == 1)
    return marker


def _rhythm_ms(history: OffsetHistory) -> int | None:
    """Returns how long the group may go without a commit: twice its usual interval (the upper quartile), within
    WINDOW_MS and RHYTHM_MS_MAX. None until a commit was seen."""
    waits = sorted(history.waits_ms)
    if not waits:
        return None
    return min(max(WINDOW_MS, 2 * waits[len(waits) * 3 // 4]), RHYTHM_MS_MAX)


def is_seldom(history: OffsetHistory) -> bool:
    """Returns whether the group is known to commit too rarely for the ordinary window."""
    return (_rhythm_ms(history) or 0) > WINDOW_MS


def _with_rhythm(history: OffsetHistory, assigned: BoolArray, judged: LongArray) -> LongArray:
    """Adjusts the verdicts of a window to how often the group commits.

    A partition without progress is OK until the group's usual interval has passed, or UNKNOWN if it was never active.
    If no commit was seen yet, a stalled partition that was read to its end before is UNKNOWN for RHYTHM_UNKNOWN_MS. A
    partition that never had a commit is judged by `_never_committed`.
    """
    rhythm_ms, now_ms, active_ms = _rhythm_ms(history), int(history.at_ms[-1]), history.active_ms
    of = LagVerdict
    ok, unknown, stalled, stopped = map(VERDICTS.index, (of.OK, of.UNKNOWN, of.STALLED, of.STOPPED))
    still, active = (judged == stalled) | (judged == stopped), active_ms >= 0
    if rhythm_ms is None:
        waits = (judged == stalled) & active & (now_ms - active_ms < RHYTHM_UNKNOWN_MS)
        judged = np.where(waits, unknown, judged)
    elif still.any():
        since_ms = np.where(active, active_ms, history.at_ms[np.argmax(history.committed >= 0, axis=0)])
        judged = np.where(still & (now_ms - since_ms < rhythm_ms), np.where(active, ok, unknown), judged)
    never = assigned & _never_committed(history, rhythm_ms or WINDOW_MS)
    return np.where(never, stalled, judged).astype(np.int64)


def _never_committed(history: OffsetHistory, limit_ms: int) -> BoolArray:
    """Returns where nothing was ever committed although records written during the observation have waited for
    `limit_ms`. Older records do not count, since the group may start at the end (auto.offset.reset).
    """
    at_ms, ends = history.at_ms, history.ends
    candidates: BoolArray = (history.committed < 0).all(axis=0) & (ends[-1] >= 0)
    if not candidates.any():
        return candidates
    seen = ends >= 0
    first = ends[np.argmax(seen, axis=0), np.arange(ends.shape[1])]
    written = seen & (ends > first)
    since_ms = at_ms[np.argmax(written, axis=0)]
    late: BoolArray = written.any(axis=0) & (at_ms[-1] - since_ms >= limit_ms)
    return candidates & late


def _behind_ms(history: OffsetHistory, next_read: LongArray, lag_known: BoolArray) -> tuple[LongArray, LongArray]:
    """Returns the age in ms of the next record to read, UNKNOWN where it cannot be determined, and a lower bound for
    it. Both are 0 where everything is read."""
    at_ms, ends = history.at_ms, history.ends
    rows, columns = len(at_ms), np.arange(len(next_read))
    seen = ends >= 0
    reached = seen & (ends <= next_read)  # the next record to read had not been written yet
    last = rows - 1 - np.argmax(reached[::-1], axis=0)
    # The next row in which the end is known, for each row.
    row_of_end = np.where(seen, np.arange(rows)[:, None], rows - 1)
    after = np.minimum.accumulate(row_of_end[::-1], axis=0)[::-1][np.minimum(last + 1, rows - 1), columns]
    step = ends[after, columns] - ends[last, columns]
    share = (next_read - ends[last, columns]) / np.maximum(step, 1)
    written_at = at_ms[last] + share * (at_ms[after] - at_ms[last])
    timed = lag_known & reached.any(axis=0)
    all_read = lag_known & (ends[-1] <= next_read)
    behind = np.where(all_read, 0, np.maximum(0, at_ms[-1] - written_at)).astype(np.int64)
    watched = at_ms[-1] - at_ms[np.argmax(seen, axis=0)]
    least = np.where(timed, behind, watched)
    return np.where(timed, behind, UNKNOWN), np.where(lag_known, least, UNKNOWN)


def _per_second(at_ms: LongArray, offsets: LongArray) -> Any:
    """Returns the mean rate from the first known row to the last, NaN where the span is too short or unknown."""
    columns = np.arange(offsets.shape[1])
    first = np.argmax(offsets >= 0, axis=0)
    span_ms = at_ms[-1] - at_ms[first]
    known_rate = (offsets[-1] >= 0) & (span_ms >= RATE_MS_MIN)
    steps = offsets[-1] - offsets[first, columns]
    return np.where(known_rate, steps * 1000 / np.maximum(span_ms, 1), np.nan)


def _catch_up_ms(lag: LongArray, written_per_s: Any, consumed_per_s: Any) -> LongArray:
    gain = consumed_per_s - written_per_s
    gains = np.nan_to_num(gain, nan=0.0) > 0
    needs = np.where(gains, np.maximum(lag, 0) * 1000 / np.where(gains, gain, 1.0), UNKNOWN)
    return np.where(lag == 0, 0, np.where(lag > 0, needs, UNKNOWN)).astype(np.int64)


def _note(committed: int | None, start: int, end: int | None, why: str, verdict: LagVerdict) -> str:
    if end is None:
        return f"the end is not known{': ' * bool(why)}{why}"
    if committed is None:
        waiting = ", and records wait to be read" if verdict is LagVerdict.STALLED else ""
        return f"the group has committed no offset here{waiting}"
    if committed > end:
        return f"the committed offset {committed} is beyond the end {end}: the topic was created again or lost records"
    if committed < start:
        return f"{start - committed} offsets from {committed} were deleted before the group read them"
    return ""


def _or_none(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _rate(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)


def _sum(rates: Any) -> float | None:
    return None if not len(rates) or np.isnan(rates).any() else round(float(rates.sum()), 3)
