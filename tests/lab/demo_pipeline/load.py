"""A skewed, shifting load: who writes how much to which partition, and what members and racks make of it."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from confluent_kafka import Producer

from tests.interop.support.members import Member, TopicPartition

RECORD_BYTES = 1_000
RECORDS_QUEUED_MAX = 250_000
TICK_S = 0.1


def skewed(partitions: int, shift: int = 0) -> list[float]:
    """Records per second: in each rack one partition has six times and one three times what the others have."""
    rates = [10.0] * partitions
    for rack in range(3):
        rates[(rack + 3 * shift) % partitions] = 60
        rates[(rack + 3 * shift + 12) % partitions] = 30
    return rates


class Load:
    """Writes records until stopped; a context manager. `rates` are of each partition in a second, and may be replaced
    at any time; `written` counts records. With a `seed` their number has Poisson's noise."""

    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        rates: Sequence[float],
        *,
        record_bytes: int = RECORD_BYTES,
        seed: int | None = None,
    ) -> None:
        self.rates = list(rates)
        self.written: Counter[int] = Counter()
        self._topic, self._record = topic, bytes(record_bytes)
        self._random = None if seed is None else np.random.default_rng(seed)
        self._owed = [0.0] * len(self.rates)
        self._producer = Producer({**properties, "linger.ms": 20, "queue.buffering.max.messages": RECORDS_QUEUED_MAX})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def write(self, seconds: float) -> None:
        """Writes what the rates make in this time."""
        for partition, rate in enumerate(self.rates):
            due = rate * seconds if self._random is None else float(self._random.poisson(rate * seconds))
            self._owed[partition] += due
            records = int(self._owed[partition])
            self._owed[partition] -= records
            for _ in range(records):
                self._producer.produce(self._topic, self._record, partition=partition)
            self.written[partition] += records
            self._producer.poll(0)
        self._producer.flush(30)

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(TICK_S):
            now = time.monotonic()
            self.write(now - last)
            last = now


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement over a few seconds: the fullest member over the mean, and bytes per second across racks."""

    at_s: float
    imbalance: float
    crossing: float


class Meter:
    """Measures from what was written and who owned it."""

    def __init__(self, load: Load, topic: str, members: Sequence[Member], racks: Sequence[str]) -> None:
        self._load, self._topic, self._members, self._racks = load, topic, members, racks
        self._began = time.monotonic()
        self._last = self._began, Counter(load.written)
        self.points: list[Point] = []

    def owners(self) -> dict[TopicPartition, Member]:
        return {tp: member for member in self._members for tp in member.owned()}

    def measure(self) -> Point:
        """Bytes since the last measurement, by who owns the partitions now."""
        now, written = time.monotonic(), Counter(self._load.written)
        before, then = self._last[1], self._last[0]
        self._last = now, written
        loads: Counter[str] = Counter(dict.fromkeys((m.name for m in self._members), 0))
        crossing = 0
        for (topic, partition), member in self.owners().items():
            size = RECORD_BYTES * (written[partition] - before[partition])
            if topic == self._topic:
                loads[member.name] += size
                crossing += size * (member.fields.get("rack") != self._racks[partition % len(self._racks)])
        mean = sum(loads.values()) / len(loads)
        point = Point(now - self._began, max(loads.values()) / mean if mean else 1.0, crossing / max(0.1, now - then))
        self.points.append(point)
        return point
