"""Records for the Streams application, and what its stores must hold once it has counted them.

Each key's records carry 1, 2, 3 ...: the application can distinguish a record that came twice from one that never came.
"""

import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from tests.interop.support.brokers import KafkaCluster

FLUSH_TIMEOUT_S = 60.0
TICK_S = 0.02


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the stores. `seen` and `windowed` count records that came twice twice; `distinct` does not.

    `missing` counts numbers below a key's highest that never came, `late` those that came after a higher one. `digest`
    binds every key to its distinct count.
    """

    keys: int
    seen: int
    distinct: int
    missing: int
    digest: int
    late: int
    windowed: int

    @classmethod
    def of(cls, dumps: Iterable[Mapping[str, Any]]) -> "Totals":
        """Adds up the dumps of all instances."""
        dumped = list(dumps)
        counts = [partition for dump in dumped for partition in dump["counts"].values()]
        windows = [partition for dump in dumped for partition in dump["windowed"].values()]
        keys, seen, distinct, missing, digest, late = (sum(p[field] for p in counts) for field in range(6))
        return cls(keys, seen, distinct, missing, digest, late, windowed=sum(p[1] for p in windows))

    def __add__(self, other: "Totals") -> "Totals":
        """Of two loads with different keys."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Totals(*(mine + theirs for mine, theirs in pairs))

    def complaint(self, expected: "Totals", *, exactly_once: bool) -> str | None:
        """What is not as it should be, or None. Without `exactly_once` a record may be counted again after a crash."""
        counted = (self.keys, self.distinct, self.missing, self.digest, self.late)
        if counted != (expected.keys, expected.distinct, 0, expected.digest, 0):
            return f"counts per key are {self}, not {expected}"
        if exactly_once and (self.seen, self.windowed) != (expected.seen, expected.windowed):
            return f"records were counted twice or lost: {self}, not {expected}"
        if min(self.seen, self.windowed) < expected.seen:
            return f"records were lost: {self}, not {expected}"
        return None


class Load:
    """A producer of numbered records; a context manager. `keys` keys take turns, so every partition is kept busy.

    Two loads of one application need different prefixes. With `partitions` a key's number decides its partition, so
    that partitions take turns, too; `keys` must be a multiple of it.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, keys: int, prefix: str = "key", partitions: int = 0) -> None:
        self._producer = Producer(
            {
                **cluster.client_config("admin", "admin"),
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 500_000,
                "compression.type": "lz4",
            }
        )
        assert not partitions or keys % partitions == 0, f"{keys} keys cannot take turns in {partitions} partitions"
        self._topic = topic
        self._partitions = partitions
        self._keys = [f"{prefix}-{number:06}".encode() for number in range(keys)]
        self._failures: list[str] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.produced = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pause()
        self._producer.flush(FLUSH_TIMEOUT_S)

    def produce(self, records: int) -> None:
        """Sends so many records as fast as it can and waits until the brokers have them."""
        self._send(records)
        self._flush()

    def start(self, per_second: int) -> None:
        """Sends steadily in the background until `stop`."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._steadily, args=(per_second,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the steady stream and waits until the brokers have everything."""
        self._pause()
        self._flush()

    @property
    def expected(self) -> Totals:
        """What the stores hold when every record sent so far was counted exactly once."""
        rebalances, rest = divmod(self.produced, len(self._keys))
        digest = 0
        for number, key in enumerate(self._keys):
            count = rebalances + (number < rest)
            digest += zlib.crc32(key + b"=%d" % count) if count else 0
        keys = len(self._keys) if rebalances else rest
        return Totals(keys, self.produced, self.produced, 0, digest, 0, self.produced)

    def _pause(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(FLUSH_TIMEOUT_S)
            self._thread = None

    def _steadily(self, per_second: int) -> None:
        began, before = time.monotonic(), self.produced
        while not self._stopping.wait(TICK_S):
            due = before + int((time.monotonic() - began) * per_second)
            self._send(due - self.produced)

    def _send(self, records: int) -> None:
        count = len(self._keys)
        for at in range(self.produced, self.produced + records):
            turn, number = divmod(at, count)
            value = b"%d" % (turn + 1)
            where = {"partition": number % self._partitions} if self._partitions else {}
            while True:
                try:
                    self._producer.produce(self._topic, value, self._keys[number], on_delivery=self._delivered, **where)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if at % 1000 == 0:
                self._producer.poll(0)
        self.produced += records
        self._producer.poll(0)

    def _flush(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        assert left == 0, f"{left} records were not delivered"
        assert not self._failures, f"{len(self._failures)} records failed: {self._failures[0]}"

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(str(error))
