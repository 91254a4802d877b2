"""The lag of a group from offsets that a test states, as refreshes compute it from those of brokers."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.kafka import Ends, Offsets
from bellwether_kafka.coordinator.observation import GroupLag, LagRefreshes, ReadLogs, Rhythms
from bellwether_kafka.protocol.primitives import TopicPartition

UNKNOWN = -1
Of = Mapping[str, list[int]]
Owners = Mapping[TopicPartition, str] | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What brokers answer to one refresh: an entry for each partition, UNKNOWN where there is none."""

    at_s: float
    committed: Of
    ends: Of


def sample(at_s: float, committed: Of, ends: Of) -> Sample:
    return Sample(at_s, committed, ends)


def of_one_partition(at_s: float, committed: int, end: int) -> Sample:
    return Sample(at_s, {"t": [committed]}, {"t": [end]})


class Lags:
    """Refreshes of one group. Brokers tell nothing of log starts and of last stable offsets."""

    def __init__(self, rhythms: Rhythms | None = None) -> None:
        self._now = Sample(0, {}, {})
        self._refreshes = LagRefreshes(
            "g", clock=self._time, monotonic=self._time, compacted=lambda *_: {}, rhythms=rhythms
        )
        self.weights: Callable[[], Weights] = self._refreshes.weights

    def after(self, *samples: Sample, owners: Owners = None, logs: ReadLogs | None = None) -> GroupLag:
        """The lag after one more refresh for each sample."""
        return asyncio.run(self.refreshed(*samples, owners=owners, logs=logs))

    async def refreshed(self, *samples: Sample, owners: Owners = None, logs: ReadLogs | None = None) -> GroupLag:
        """Does the same as `after`, for tests that are coroutines."""
        for self._now in samples:
            counts = {topic: len(ends) for topic, ends in self._now.ends.items()}
            lag = await self._refreshes.refresh(cast("Any", self), cast("Any", None), counts, owners, 1.0, logs=logs)
        return lag

    def _time(self) -> float:
        return self._now.at_s

    async def known_ends(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        return Ends({topic: np.array(self._now.ends[topic], dtype=np.int64) for topic in topics})

    async def known_starts(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        return Ends({topic: np.full(count, UNKNOWN, dtype=np.int64) for topic, count in topics.items()})

    async def known_stable_ends(self, topics: Mapping[str, int], limit_s: float) -> Ends:
        return await self.known_starts(topics, limit_s)

    async def committed(self, _group: str, topics: Mapping[str, int], _limit_s: float) -> Offsets:
        return {t: np.array(of, dtype=np.int64) for t, of in self._now.committed.items() if t in topics}


def group_lag(*samples: Sample, owners: Owners = None) -> GroupLag:
    return Lags().after(*samples, owners=owners)


def weights_of(*samples: Sample, logs: ReadLogs | None = None) -> Weights:
    """The weights that follow from the offsets of these refreshes."""
    lags = Lags()
    if samples:
        lags.after(*samples, logs=logs)
    return lags.weights()
