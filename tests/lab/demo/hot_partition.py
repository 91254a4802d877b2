"""Writes records to all partitions of the demo, to one of them several times as many, and reads the weights that
follow."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.kafka.client import OffsetReader, OffsetsError
from bellwether_kafka.coordinator.observation import LagRefreshes

HOT = ("clicks", 0)
RECORDS_PER_S, HOT_TIMES = 20, 7
TICK_S, READ_S, LIMIT_S = 0.1, 2.0, 5.0


class HotPartition:
    """`topics` returns the partition counts of the topics to write to."""

    def __init__(self, bootstrap: str, group_id: str, topics: Callable[[], Mapping[str, int]]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self._lags = LagRefreshes(group_id)
        self._topics = topics
        self.counts_for_plans = False

    def weights(self) -> Weights:
        """Returns the weights by which plans are made, none before `counts_for_plans` is set."""
        return self.measured() if self.counts_for_plans else Weights()

    def measured(self) -> Weights:
        return self._lags.weights()

    async def write(self) -> None:
        """Writes until cancelled."""
        while True:
            for topic, count in self._topics().items():
                for partition in range(count):
                    records = RECORDS_PER_S * (HOT_TIMES if (topic, partition) == HOT else 1)
                    for _ in range(round(records * TICK_S)):
                        self._producer.produce(topic, b"x", partition=partition)
            self._producer.poll(0)
            await asyncio.sleep(TICK_S)

    async def beside(self, offsets: OffsetReader, _transport: object, admin: AdminClient) -> None:
        """Reads offsets until cancelled; a task beside the service."""
        while True:
            if counts := dict(self._topics()):
                with suppress(OffsetsError):  # the next refresh reads them
                    await self._lags.refresh(offsets, admin, counts, None, LIMIT_S)
            await asyncio.sleep(READ_S)
