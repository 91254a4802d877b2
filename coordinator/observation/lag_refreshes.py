"""Reads the offsets of one group, keeps their history and computes the group's lag."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import ParamSpec, TypeVar

import numpy as np
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import WEIGHT_WINDOW_MS, OffsetRows, SizesOfTopics, Weights
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import NO_END, Counts, OffsetReader, compacted_topics
from bellwether_kafka.coordinator.observation.lag import UNKNOWN, GroupLag, group_lag
from bellwether_kafka.coordinator.observation.log_bounds import LogSamples, LogStarts, ReadLogs, StableEnds
from bellwether_kafka.coordinator.observation.offset_history import OffsetHistory, OffsetSample
from bellwether_kafka.coordinator.observation.rhythms import Rhythms
from bellwether_kafka.coordinator.observation.self_assigned import MemberlessCommits, committed_of, of_memberless
from bellwether_kafka.protocol.primitives import TopicPartition

CLOCK_SLACK_MS = 2_000  # tolerated, because clocks are not read at the same moment and drift
ASK_AGAIN_MS = 600_000  # between two requests whether a topic is compacted
COMPUTED_AT_ONCE = 1_000  # partitions: for fewer, a switch to a thread costs more than the work
TOPICS_ASKED_MAX = 200  # at once; those with the largest lags come first
HEAVY = 1.1  # times an even share of the load: beyond the widest dead band of `load-aware`
HEAVY_UNSURE = 1.25  # as long as the error of the shares is not known
HEAVY_NAMED_MAX = 3
HEAVY_SPAN_MS_MIN = 60_000  # rates over a shorter span are not reported
HEAVY_RATE_MIN = 1.0  # records per second of the whole group
NO_SIZES = SizesOfTopics()


P = ParamSpec("P")
T = TypeVar("T")


async def computed(partitions: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns the result of `work`, whose duration is proportional to `partitions`. Work on many of them runs in a
    thread: a million partitions take seconds, and heartbeats of led groups must not wait."""
    if partitions <= COMPUTED_AT_ONCE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


class LagRefreshes:
    """Reads the lag of one group repeatedly. `clock` is in epoch seconds; `monotonic` reveals when it was set.
    `compacted` returns which of the given topics are compacted. `rhythms` are kept over restarts."""

    def __init__(
        self,
        group_id: str,
        *,
        clock: Callable[[], float] = clocks.wall,
        monotonic: Callable[[], float] = clocks.monotonic,
        compacted: Callable[[AdminClient, Collection[str], float], Mapping[str, bool]] | None = None,
        rhythms: Rhythms | None = None,
    ) -> None:
        self._group_id = group_id
        self._rhythms = rhythms or Rhythms()
        self._clock = clock
        self._monotonic = monotonic
        self._commits: MemberlessCommits | None = None  # while the group has no member
        self._offset_ms = 0  # between the two clocks at the last refresh
        self._compacted = compacted or compacted_topics
        self._history = OffsetHistory(waits_ms=self._rhythms.of(group_id))
        self._starts, self._stable_ends, self._logs = LogStarts(), StableEnds(), LogSamples()
        self._refreshing = asyncio.Lock()
        self._kinds: dict[str, tuple[int, bool]] = {}  # by topic: time of the request, and whether it is compacted

    @property
    def counts(self) -> Counts:
        """The topics of the last refresh and their partition counts."""
        return self._history.counts

    def weights(self) -> Weights:
        """Returns the weights of partitions that follow from the offsets, and the sizes of records, read so far."""
        return weights_of(self._history, self._logs.sizes)

    async def refresh(
        self,
        offsets: OffsetReader,
        admin: AdminClient,
        counts: Counts,
        owners: Mapping[TopicPartition, str] | None,
        limit_s: float,
        *,
        memberless: bool = False,
        logs: ReadLogs | None = None,
    ) -> GroupLag:
        """Reads the lag of partitions 0..n-1 of each topic. `owners` is as in `group_lag`; `memberless` is true if the
        group had no member just before. `logs` reads the sizes of logs where weights depend on them. Concurrent calls
        run one after another. Raises OffsetsError."""
        async with self._refreshing:
            lag = await self._read(offsets, admin, counts, owners, limit_s, logs)
            commits = self._commits or MemberlessCommits(lag.at_ms)
            self._commits = commits.after(committed_of(lag), lag.at_ms) if memberless else None
            return of_memberless(lag, self._commits)

    async def _read(
        self,
        offsets: OffsetReader,
        admin: AdminClient,
        counts: Counts,
        owners: Mapping[TopicPartition, str] | None,
        limit_s: float,
        logs: ReadLogs | None,
    ) -> GroupLag:
        """Does the same as `refresh`, without regard to commits of consumers that are not members."""
        sample = await read_sample(offsets, self._group_id, counts, limit_s, self._clock)
        sample = await self._starts.beside(offsets, sample, limit_s)
        self._forget_other_times(sample.at_ms)
        self._history, lag = await computed(sum(counts.values()), _judged, self._history, sample, owners)
        self._rhythms.learned(self._group_id, self._history)
        held_back = await self._stable_ends.held_back(offsets, lag, limit_s)
        if logs is not None:
            await self._logs.refresh(offsets, logs, counts, sample.at_ms, limit_s)
        sizes = self._logs.sizes
        heavy = await computed(sum(counts.values()), heavy_partitions, self._history, owners or {}, sizes)
        return replace(lag, notes=(*held_back, *_deleted(lag), *heavy, *await self._notes(lag, admin, limit_s)))

    def _forget_other_times(self, at_ms: int) -> None:
        """Drops the history after the clock was set, since the ages of records would be wrong."""
        offset_ms = at_ms - int(self._monotonic() * 1000)
        if abs(offset_ms - self._offset_ms) > CLOCK_SLACK_MS:
            self._history, self._commits = OffsetHistory(waits_ms=self._history.waits_ms), None
        self._offset_ms = offset_ms

    async def _notes(self, lag: GroupLag, admin: AdminClient, limit_s: float) -> tuple[str, ...]:
        parts = zip(lag.counts, np.split(lag.lag, np.cumsum([*lag.counts.values()])), strict=False)
        behind = {topic: most for topic, lags in parts if (most := int(lags.max(initial=0)))}
        due = [t for t in behind if lag.at_ms - self._kinds.get(t, (-ASK_AGAIN_MS, False))[0] >= ASK_AGAIN_MS]
        if due:
            asked = sorted(due, key=lambda topic: -behind[topic])[:TOPICS_ASKED_MAX]
            compacted = await asyncio.to_thread(self._compacted, admin, asked, limit_s)
            # If no broker answers, the last known value remains valid.
            self._kinds |= {t: (lag.at_ms, compacted.get(t, self._is_compacted(t))) for t in asked}
        compact = filter(self._is_compacted, behind)
        text = "{} is compacted: its lag counts offsets, and some of them have no record any more"
        return tuple(map(text.format, compact))

    def _is_compacted(self, topic: str) -> bool:
        return self._kinds.get(topic, (0, False))[1]


def weights_of(history: OffsetHistory, sizes: SizesOfTopics = NO_SIZES) -> Weights:
    """Returns the weights of partitions that follow from this history and the sizes of records. Pure."""
    return _rows(history, sizes).weights()


def _rows(history: OffsetHistory, sizes: SizesOfTopics) -> OffsetRows:
    window = history.since(WEIGHT_WINDOW_MS)
    return OffsetRows(window.counts, window.at_ms, window.committed, window.ends, window.starts, sizes)


def heavy_partitions(
    history: OffsetHistory, owners: Mapping[TopicPartition, str], sizes: SizesOfTopics = NO_SIZES
) -> tuple[str, ...]:
    """Returns a sentence on partitions that are too heavy for an even assignment to the owners, if there are any.
    Pure."""
    if not len(history.at_ms) or history.at_ms[-1] - history.at_ms[0] < HEAVY_SPAN_MS_MIN:
        return ()
    rows, members = _rows(history, sizes), len(set(owners.values()))
    load = rows.loads()
    total, places = float(np.nansum(load)), min(members, int((~np.isnan(load)).sum()))
    if members < 2 or total < HEAVY_RATE_MIN:
        return ()
    error = rows.error()
    least = HEAVY_UNSURE / places if error is None else HEAVY / places + error
    heavy = np.flatnonzero(load > least * total)
    if not len(heavy):
        return ()
    names = [f"{topic}-{partition}" for topic, count in rows.counts.items() for partition in range(count)]
    heaviest = heavy[np.argsort(-load[heavy], kind="stable")][:HEAVY_NAMED_MAX].tolist()
    named = ", ".join(f"{names[column]} ({load[column] / total:.0%})" for column in heaviest)
    rest = f" and {len(heavy) - HEAVY_NAMED_MAX} more" if len(heavy) > HEAVY_NAMED_MAX else ""
    even = f"an even share for each of {members} members is {1 / places:.0%} of the load"
    remedy = "no assignment divides a partition, only other keys or more partitions would"
    return (f"too heavy to be balanced: {named}{rest}; {even}; {remedy}",)


def _deleted(lag: GroupLag) -> tuple[str, ...]:
    """Returns a sentence on records that were deleted before the group read them, if there are any."""
    unread = np.where(lag.committed >= 0, lag.start - lag.committed, 0)
    places = np.flatnonzero(unread > 0)
    if not len(places):
        return ()
    firsts = np.cumsum([0, *lag.counts.values()])
    most = places[np.argmax(unread[places])]
    of = int(np.searchsorted(firsts, most, side="right")) - 1
    partition = f"{list(lag.counts)[of]}-{most - firsts[of]}"
    others = f" and {len(places) - 1} other partitions" if len(places) > 1 else ""
    return (f"{int(unread[places].sum())} offsets of {partition}{others} were deleted before the group read them",)


def _judged(
    history: OffsetHistory, sample: OffsetSample, owners: Mapping[TopicPartition, str] | None
) -> tuple[OffsetHistory, GroupLag]:
    longer = history.plus(sample)
    return longer, replace(group_lag(longer, owners), unknown=sample.unknown)


async def read_sample(
    offsets: OffsetReader, group_id: str, counts: Counts, limit_s: float, clock: Callable[[], float]
) -> OffsetSample:
    """Reads log ends and committed offsets. Raises OffsetsError.

    Ends are read first: in the other order, records written in between would count as lag. If a committed offset is
    beyond its end, the end is read again, so that an offset still beyond it really is.
    """
    read = await offsets.known_ends(counts, limit_s)
    committed = await offsets.committed(group_id, counts, limit_s)
    at_ms, ends = int(clock() * 1000), read.offsets
    overtaken = {
        topic: len(end)
        for topic, end in ends.items()
        if ((committed.get(topic, np.full_like(end, UNKNOWN)) > end) & (end != NO_END)).any()
    }
    if overtaken:
        again = await offsets.known_ends(overtaken, limit_s)
        ends = ends | {t: np.where(end == NO_END, ends[t], end) for t, end in again.offsets.items()}
    return OffsetSample(at_ms, committed, ends, read.unknown)
