"""How far partitions and tasks of led groups are behind, for the status page. Read only while somebody looks: a group
whose picture was asked for is read once, and nothing depends on it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.kafka import GroupOffsets, OffsetReader, Offsets, OffsetsError
from bellwether_kafka.coordinator.observation import lags_of
from bellwether_kafka.coordinator.telemetry import Followed
from bellwether_kafka.coordinator.web.picture import ITEMS_MAX, STANDBY, WARMUP, Item, Picture
from bellwether_kafka.coordinator.web.rounds import Rounds

LIMIT_S = 10.0
AGAIN_S = 3.0  # a page that is left open asks as often
OLD_S = 60.0  # what is older says nothing of now

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Lags:
    """Records that are not consumed yet, by the name of the item in a picture; of a task those of all it reads."""

    at_s: float
    of: Mapping[str, int]


def lags_of_items(followed: Followed, committed: Offsets, ends: Offsets) -> dict[str, int]:
    """Of partitions that somebody has, or of active tasks. Pure."""
    held = zip(followed.holder, followed.task, strict=True)
    tasks = [None if holder is None else task or "" for holder, task in held]
    return lags_by_name(followed.cluster, tasks, lags_of(committed, ends))


def lags_by_name(
    cluster: ClusterView, tasks: Sequence[str | None], lags: Mapping[str, Sequence[int | None]]
) -> dict[str, int]:
    """Known lags of tasks, and of partitions that are no task's, by the names that pictures give them. Pure.

    `tasks` has the task of each flat partition, "" for none, and None for a partition that does not count. What never
    committed has no lag that anybody knows, nor has a task that reads it.
    """
    found, unknown = dict[str, int](), set[str]()
    for topic, known in lags.items():
        if topic not in cluster.index:
            continue
        first = int(cluster.first[cluster.index[topic]])
        for partition, (lag, task) in enumerate(zip(known, tasks[first : first + len(known)], strict=False)):
            if task is None:
                continue
            name = task or f"{topic}-{partition}"
            if lag is None:
                unknown.add(name)
            else:
                found[name] = found.get(name, 0) + lag
    return {name: lag for name, lag in found.items() if name not in unknown}


def with_lags(picture: Picture, lags: Lags, now_s: float) -> Picture:
    """Copies of tasks have lags of their own, told by their threads. Pure."""
    age_ms = max(0, int((now_s - lags.at_s) * 1000))

    def told(item: Item) -> Item:
        known = item.state not in (STANDBY, WARMUP) and item.name in lags.of
        return replace(item, lag=lags.of[item.name], lag_age_ms=age_ms) if known else item

    return replace(picture, holders=tuple(replace(h, items=tuple(map(told, h.items))) for h in picture.holders))


class LagWatch:
    """Gives pictures out with the lags that are known; each request has lags read for the next one.
    Give `beside` to the service."""

    def __init__(self, rounds: Rounds, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rounds = rounds
        self._clock = clock
        self._known: dict[str, Lags] = {}
        self._wanted: set[str] = set()
        self._asked = asyncio.Event()

    def picture(self, group: str) -> Picture | None:
        """The newest round of this group, None where we have led none."""
        found, now_s = self._rounds.picture(group), self._clock()
        if found is None:
            return None
        known = self._known.get(group)
        if known is None or now_s - known.at_s >= AGAIN_S:
            self._wanted.add(group)
            self._asked.set()
        return found if known is None or now_s - known.at_s > OLD_S else with_lags(found, known, now_s)

    async def beside(self, _offsets: object, groups: GroupOffsets, admin: AdminClient) -> None:
        """Until cancelled; errors of ours are log lines and not the end. It has a reader of its own: plans wait for
        the other one."""
        reader = OffsetReader(admin, groups)
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                wanted, self._wanted = self._wanted, set()
                for group in wanted:
                    await self._look(group, reader)
        finally:
            reader.close()

    async def _look(self, group: str, reader: OffsetReader) -> None:
        try:
            self._known[group] = await self.read(group, reader)
        except OffsetsError as error:
            log.info("lags_unknown", group=group, reason=str(error))
            self._known[group] = Lags(self._clock(), {})
        except Exception:
            log.exception("lags_not_read", group=group)

    async def read(self, group: str, reader: OffsetReader) -> Lags:
        """One look at a group. Raises OffsetsError."""
        followed, at_s = await asyncio.to_thread(self._rounds.followed, group), self._clock()
        counts = followed.counts if followed is not None else {}
        if followed is None or sum(counts.values()) > ITEMS_MAX:
            return Lags(at_s, {})
        # Ends first: what is committed after them is no lag, and the other way round there would always be some.
        ends = await reader.ends(counts, LIMIT_S)
        committed = await reader.committed(group, counts, LIMIT_S)
        return Lags(at_s, lags_of_items(followed, committed, ends))
