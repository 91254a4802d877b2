"""Reads the lags of led groups for the page, more often while it is open. Of decisions only those of `load-aware`
depend on them, where there is no topic of weights."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import ClusterView, GroupPlan
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import OffsetReader, OffsetsError
from bellwether_kafka.coordinator.kafka.wire import Transport
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import GroupLag, LagRefreshes, ReadLogs, Rhythms, notify, read_logs
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.telemetry import Followed
from bellwether_kafka.coordinator.web.led_rebalances import LedRebalances
from bellwether_kafka.coordinator.web.picture import ITEMS_MAX, STANDBY, WARMUP, Picture, PictureItem
from bellwether_kafka.protocol.primitives import TopicPartition

INTERVAL_S = 30.0  # while the page is closed
LIMIT_S = 10.0
AGAIN_S = 3.0  # the interval at which an open page sends requests
OLD_S = 60.0  # older lags are not shown
LISTED_MAX = 2_000  # partitions with details of their lag

OnLag = Callable[[str, GroupLag | None], None]  # None: the offsets could not be read

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Lags:
    """Lags in records by the name of the item in a picture. The lag of a task is the sum over its partitions."""

    at_s: float
    of: Mapping[str, int]
    group_lag: GroupLag | None = None


def lags_of_items(followed: Followed, lag: GroupLag) -> dict[str, int]:
    """Returns the lags of partitions with an owner, or of active tasks. Pure."""
    placed = zip(followed.holder, followed.task, strict=True)
    tasks = [None if holder is None else task or "" for holder, task in placed]
    return lags_by_name(followed.cluster, tasks, lag.by_topic())


def lags_by_name(
    cluster: ClusterView, tasks: Sequence[str | None], lags: Mapping[str, Sequence[int | None]]
) -> dict[str, int]:
    """Returns the known lags of tasks, and of partitions without a task, by their names in pictures. Pure.

    `tasks` has the task of each flat partition, "" for none, and None for a partition to skip. A partition without a
    committed offset has no known lag, and neither has a task that reads it.
    """
    by_name, unknown = dict[str, int](), set[str]()
    for topic, lags_of_topic in lags.items():
        if topic not in cluster.index:
            continue
        first = int(cluster.first[cluster.index[topic]])
        for partition, (lag, task) in enumerate(
            zip(lags_of_topic, tasks[first : first + len(lags_of_topic)], strict=False)
        ):
            if task is None:
                continue
            name = task or f"{topic}-{partition}"
            if lag is None:
                unknown.add(name)
            else:
                by_name[name] = by_name.get(name, 0) + lag
    return {name: lag for name, lag in by_name.items() if name not in unknown}


def with_lags(picture: Picture, lags: Lags, now_s: float) -> Picture:
    """Returns the picture with lags. Standbys and warm-ups keep the lags that their threads reported. Pure."""
    age_ms = max(0, int((now_s - lags.at_s) * 1000))

    def with_lag(item: PictureItem) -> PictureItem:
        listed = item.state not in (STANDBY, WARMUP) and item.name in lags.of
        return replace(item, lag=lags.of[item.name], lag_age_ms=age_ms) if listed else item

    holders = tuple(replace(h, items=tuple(map(with_lag, h.items))) for h in picture.holders)
    if lags.group_lag is None:
        return replace(picture, holders=holders)
    return replace(
        picture, holders=holders, lag_report=lags.group_lag.report(LISTED_MAX), lag_notes=lags.group_lag.notes
    )


def owners_of(followed: Followed) -> dict[TopicPartition, str]:
    """Returns the owners by partition. Pure."""
    cluster = followed.cluster
    topics = zip(cluster.topics, cluster.first.tolist(), cluster.counts.tolist(), strict=False)
    places = ((topic, p, followed.holder[first + p]) for topic, first, count in topics for p in range(count))
    return {TopicPartition(topic, p): holder for topic, p, holder in places if holder is not None}


class LagWatch:
    """Adds known lags to pictures. Each request triggers a refresh of the lags for the next request. Register its
    `on_*` methods and `beside` with the service. `on_lag` is called after each refresh of a group that Bellwether
    leads. `weighed` are the groups whose weights follow from offsets and sizes of logs."""

    def __init__(
        self,
        rebalances: LedRebalances,
        on_lag: Sequence[OnLag] = (),
        *,
        clock: Callable[[], float] = clocks.monotonic,
        rhythms: Rhythms | None = None,
        weighed: Collection[str] = (),
    ) -> None:
        self._rebalances = rebalances
        self._weighed = frozenset(weighed)
        self._logs: ReadLogs | None = None
        self._on_lag = on_lag
        self._clock = clock
        self._lags: dict[str, Lags] = {}
        self._rhythms = rhythms
        self._refreshes: dict[str, LagRefreshes] = {}
        self._led: set[str] = set()
        self._wanted: set[str] = set()
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # where lags are read; pages are made in another thread

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        group = planned.decision.raw.group_id
        self._led.add(group)
        if group not in self._lags and self._loop is not None:
            self._loop.call_soon_threadsafe(self._asked.set)  # `load-aware` needs two refreshes before it has weights

    def on_note(self, group: str, note: Note) -> None:
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._led.discard(group)

    def lags_of(self, group: str) -> LagRefreshes:
        """Returns the group's offset history, which may include times at which no plan of this process was in force."""
        return self._refreshes.setdefault(group, LagRefreshes(group, rhythms=self._rhythms))

    def picture(self, group: str) -> Picture | None:
        """Returns the picture of the group's newest rebalance, None if Bellwether has led none."""
        picture, now_s = self._rebalances.picture(group), self._clock()
        if picture is None:
            return None
        lags = self._lags.get(group)
        if lags is None or now_s - lags.at_s >= AGAIN_S:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._want, group)
            else:
                self._want(group)
        return picture if lags is None or now_s - lags.at_s > OLD_S else with_lags(picture, lags, now_s)

    def _want(self, group: str) -> None:
        self._wanted.add(group)
        self._asked.set()

    async def beside(self, reader: OffsetReader, transport: Transport, admin: AdminClient) -> None:
        """Reads lags until cancelled; unexpected errors are logged."""
        self._logs = partial(read_logs, transport, admin)
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                for group in await self._due():
                    await self.refresh(group, reader, admin)
        finally:
            self._loop = None

    async def _due(self) -> list[str]:
        """Waits for a request from a page. Returns the groups whose page is open and the led groups that are due, or
        all led groups if there is no request for INTERVAL_S."""
        try:
            async with asyncio.timeout(INTERVAL_S):
                await self._asked.wait()
        except TimeoutError:
            return sorted(self._led)
        self._asked.clear()
        wanted, self._wanted = self._wanted, set()
        now_s, read = self._clock(), self._lags
        late = {group for group in self._led if group not in read or now_s - read[group].at_s >= INTERVAL_S}
        return sorted(wanted | late)

    async def refresh(self, group: str, reader: OffsetReader, admin: AdminClient) -> None:
        """Reads the lags of a group and calls `on_lag` if Bellwether leads it. Errors are logged."""
        try:
            lags = await self.read(group, reader, admin)
        except OffsetsError as error:
            log.info("lags_unknown", group=group, reason=str(error))
            lags = Lags(self._clock(), {})
        except Exception:
            log.exception("lags_not_read", group=group)
            return
        self._lags[group] = lags
        if group in self._led:
            for observer in self._on_lag:
                notify(observer, group, lags.group_lag)

    async def read(self, group: str, reader: OffsetReader, admin: AdminClient) -> Lags:
        """Reads the lags of a group. Raises OffsetsError."""
        followed, at_s = await asyncio.to_thread(self._rebalances.followed, group), self._clock()
        refreshes = self.lags_of(group)
        # if all members have left, the topics of the last refresh
        counts = (followed.counts or refreshes.counts) if followed is not None else {}
        if followed is None or sum(counts.values()) > ITEMS_MAX:
            return Lags(at_s, {})
        logs = self._logs if group in self._weighed else None
        lag = await refreshes.refresh(reader, admin, counts, owners_of(followed), LIMIT_S, logs=logs)
        return Lags(at_s, lags_of_items(followed, lag), lag)
