"""Reads the compacted topic of partition weights that the pipeline writes. Owns one thread and one consumer.

No decision waits for it (P5 of docs/internals/reliability.md#promises): a plan uses the weights read so far. Old
weights are ignored, implausible ones refused or clamped, and other records counted. The reader commits no offsets and
joins no group: after a restart it reads the topic from its beginning, which compaction keeps short.
"""

import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from bellwether_kafka.assignors.shared import Weight, Weights, heaviest
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.events import ERROR_HEADER, EventError, SchemaSet
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry.publish import CREATE_TOPIC_S, create_topic
from bellwether_kafka.protocol.primitives import TopicPartition as Partition
from bellwether_kafka.protocol.primitives import whole_number

POLL_S = 0.5
RETRY_S = 5.0
BATCH = 1_000
WEIGHTS_MAX = 2_000_000  # more partitions than any cluster has; further ones are counted and ignored
METADATA_TIMEOUT_S = 10.0
SORT_AGAIN_S = 5.0  # because weights grow old
SORTED_S_MAX = 60.0  # then the thread is dead or hangs
PAUSE_PER_SORT = 10.0  # times as long as sorting takes, while weights come

Headers = Sequence[tuple[str, str | bytes | None]]

log = structlog.get_logger(__name__)


class WeightReader:
    """Reads weights in a thread. Start it, call `usable` from any thread, and close it."""

    def __init__(
        self, properties: Mapping[str, str], config: WeightSettings, *, wall_clock: Callable[[], float] = clocks.wall
    ) -> None:
        self.config = config
        self.refused: Counter[str] = Counter()
        self.trouble = ""  # why the topic could not be read the last time
        self._properties = wire.librdkafka_properties(properties)
        self._wall_clock = wall_clock
        self._schemas = SchemaSet.load()
        self._estimates: dict[Partition, Weight] = {}
        self._sorted, self._sorted_at = Weights(), float("-inf")  # by the thread
        self._sort_at = self._sort_by = 0.0  # not sooner, and also without a change
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weights", daemon=True)
        self._last_logged = json.dumps({})

    def start(self) -> None:
        self._thread.start()

    def close(self, limit_s: float = 5.0) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(limit_s)

    def usable(self) -> Weights:
        """Returns the weights that may be used now: while the thread reads, those that it sorted last. To sort those of
        a whole cluster takes longer than a broker waits for a plan."""
        return self._sorted if clocks.monotonic() - self._sorted_at < SORTED_S_MAX else self._sort()

    def _sort(self) -> Weights:
        """Returns the weights that may be used now. Logs how many were refused when that changes."""
        with self._lock:
            estimates = dict(self._estimates)
        weights, refused = Weights.usable(estimates, int(self._wall_clock() * 1000), self.config.age_ms_max)
        weights = replace(weights, source=f"the topic {self.config.topic}" if weights.of else "")
        last_logged = json.dumps(refused, sort_keys=True)
        if last_logged != self._last_logged:
            self._last_logged = last_logged
            words = {reason.replace(" ", "_"): n for reason, n in refused.items()}
            log_change = log.warning if refused else log.info
            log_change("weights_refused", topic=self.config.topic, used=len(weights.of), **words)
        return weights

    def take(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        """Takes one record: a weight, or a tombstone, which deletes it. A weight may have its error in a header."""
        if value is None:
            self._drop(key or b"")
            return
        try:
            event, record = self._schemas.decode(value)
        except EventError as error:
            self.refused[error.kind] += 1
            return
        if event != "weight":
            self.refused["not a weight"] += 1
            return
        partition = Partition(record["topic"], record["partition"])
        if key is not None and key != key_of(partition):
            self.refused["wrong key"] += 1
            return
        with self._lock:
            if partition not in self._estimates and len(self._estimates) >= WEIGHTS_MAX:
                self.refused["too many"] += 1
                return
            self._estimates[partition] = Weight(record["bytes_per_s"], record["estimated_at_ms"], _error(headers))

    def describe(self, most: int = 20, topics: Collection[str] | None = None) -> dict[str, Any]:
        """Returns a description for display, of all partitions or those of some topics: number, ages, the heaviest
        weights, how many were changed to fit the limits ("clamped"), and what was refused."""
        now_ms = int(self._wall_clock() * 1000)
        with self._lock:
            estimates = {p: w for p, w in self._estimates.items() if topics is None or p.topic in topics}
        weights, refused = Weights.usable(estimates, now_ms, self.config.age_ms_max)
        ages = [now_ms - weight.estimated_at_ms for weight in estimates.values()]
        return {
            "topic": self.config.topic,
            "known": len(estimates),
            "used": len(weights.of),
            "clamped": weights.clamped(),
            "age_ms_limit": self.config.age_ms_max,
            "age_ms_min": min(ages, default=None),
            "age_ms_max": max(ages, default=None),
            "refused": dict(refused) | dict(self.refused),
            "heaviest": [
                {"partition": f"{p.topic}-{p.partition}", "bytes_per_s": round(w, 1)}
                for p, w in heaviest(weights, most)
            ],
        }

    def _drop(self, key: bytes) -> None:
        topic, _, text = key.decode(errors="replace").rpartition("-")
        number = whole_number(text)
        with self._lock:
            if number is not None:
                self._estimates.pop(Partition(topic, number), None)

    def _sort_again(self, *, changed: bool) -> None:
        """Sorts the weights if that is due. Called by the thread."""
        began = clocks.monotonic()
        if changed:
            self._sort_by = 0.0
        if began < max(self._sort_at, self._sort_by):
            return
        self._sorted = self._sort()
        ended = self._sorted_at = clocks.monotonic()
        self._sort_at, self._sort_by = ended + (ended - began) * PAUSE_PER_SORT, ended + SORT_AGAIN_S

    def _run(self) -> None:
        missing, create_at, why = self.config.create_topic, float("-inf"), ""
        while not self._closing.is_set():
            if missing and clocks.monotonic() >= create_at:
                create_at = clocks.monotonic() + CREATE_TOPIC_S
                why = create_topic(self._properties, self.config.topic, {"cleanup.policy": "compact"}, 1, why)
            try:
                self._consume()
            except KafkaException as error:
                missing = self.config.create_topic and error.args[0].code() in client.NO_TOPIC
                self.trouble = client.with_remedy(error.args[0], "READ", self.config.topic)
                log.warning("weights_unread", topic=self.config.topic, reason=self.trouble)
            self._sort_again(changed=True)
            self._closing.wait(RETRY_S)

    def _consume(self) -> None:
        reader = client.Renewed(self._consumer, self._properties)
        try:
            while not self._closing.is_set():
                consumer = reader.client
                self._assign(consumer)
                while not self._closing.is_set() and not reader.refresh():
                    messages = consumer.consume(BATCH, timeout=POLL_S)
                    for message in messages:
                        self._take(message)
                    self._sort_again(changed=bool(messages))
                if consumer is not reader.client:
                    consumer.close()
        finally:
            reader.client.close()

    def _consumer(self) -> Consumer:
        own_settings = {
            "group.id": "bellwether-weights",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        return client.librdkafka_client(Consumer, {"log_level": 2, **self._properties, **own_settings})

    def _assign(self, consumer: Consumer) -> None:
        metadata = consumer.list_topics(self.config.topic, timeout=METADATA_TIMEOUT_S).topics[self.config.topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        consumer.assign([TopicPartition(self.config.topic, p, OFFSET_BEGINNING) for p in metadata.partitions])
        self.trouble = ""

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() in client.IRRELEVANT_TO_READERS:
                return
            if error.fatal() or not error.retriable():
                raise KafkaException(error)
            return
        self.take(message.key(), message.value(), message.headers() or ())


def _error(headers: Headers) -> float | None:
    """Returns the standard error that a record states, None if it states none or no finite number >= 0."""
    text = dict(headers).get(ERROR_HEADER)
    try:
        error = float(text or b"")
    except ValueError:
        return None
    return error if math.isfinite(error) and error >= 0 else None


def key_of(partition: Partition) -> bytes:
    """Returns the record key of a partition's weight."""
    return f"{partition.topic}-{partition.partition}".encode()
