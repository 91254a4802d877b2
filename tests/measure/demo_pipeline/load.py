"""A skewed, shifting load: who writes how much to which partition, and what members and racks make of it."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from confluent_kafka import Producer

from tests.interop.support.members import Member, TopicPartition

RECORD_BYTES = 1_000
TICK_S = 0.1


def skewed(partitions: int, shift: int = 0) -> list[int]:
    """Records per second: in each rack one partition has six times and one three times what the others have."""
    rates = [10] * partitions
    for rack in range(3):
        rates[(rack + 3 * shift) % partitions] = 60
        rates[(rack + 3 * shift + 12) % partitions] = 30
    return rates


class Load:
    """Writes until stopped; a context manager. `rates` may be replaced at any time."""

    def __init__(self, properties: Mapping[str, str], topic: str, rates: Sequence[int]) -> None:
        self.rates = list(rates)
        self.written: Counter[int] = Counter()
        self._topic = topic
        self._producer = Producer({**properties, "linger.ms": 20})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.flush(10)

    def _run(self) -> None:
        owed = [0.0] * len(self.rates)
        due = time.monotonic()
        while not self._stop.is_set():
            for partition, rate in enumerate(self.rates):
                owed[partition] += rate * TICK_S
                for _ in range(int(owed[partition])):
                    self._producer.produce(self._topic, bytes(RECORD_BYTES), partition=partition)
                    self.written[partition] += RECORD_BYTES
                owed[partition] %= 1
            self._producer.poll(0)
            due += TICK_S
            self._stop.wait(max(0.0, due - time.monotonic()))


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
        """Bytes since the last measurement, by whoever owns the partitions now."""
        now, written = time.monotonic(), Counter(self._load.written)
        before, then = self._last[1], self._last[0]
        self._last = now, written
        loads: Counter[str] = Counter(dict.fromkeys((m.name for m in self._members), 0))
        crossing = 0
        for (topic, partition), member in self.owners().items():
            size = written[partition] - before[partition]
            if topic == self._topic:
                loads[member.name] += size
                crossing += size * (member.fields.get("rack") != self._racks[partition % len(self._racks)])
        mean = sum(loads.values()) / len(loads)
        point = Point(now - self._began, max(loads.values()) / mean if mean else 1.0, crossing / max(0.1, now - then))
        self.points.append(point)
        return point
