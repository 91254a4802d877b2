"""Publishes events to Kafka: decisions, assignments, membership changes, samples. Owns one thread and one producer.

Publishing must not delay a decision (P5 of docs/internals/reliability.md#promises): observers put a reference into a
bounded queue and return; conversion, encoding and producing happen in the thread. Events are dropped and counted if the
queue or the producer is full, no broker is available, or the event is too large for the topic. Each of these problems
is logged once until it ends.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bellwether_kafka.assignors.shared import GroupPlan
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.events import EventSchema, RegistryError, SchemaSet, confluent, register
from bellwether_kafka.coordinator.kafka.client import (
    DENIED,
    NO_TOPIC,
    LoginError,
    Renewed,
    librdkafka_client,
    with_remedy,
)
from bellwether_kafka.coordinator.kafka.wire import grant, librdkafka_properties
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.settings import EventSettings
from bellwether_kafka.coordinator.telemetry.event_records import EventRecord, decision_events

QUEUE_MAX = 256  # events that may wait for the thread; more are dropped and counted
PRODUCER_MESSAGES_MAX = 20_000
PRODUCER_KIB_MAX = 65_536
DELIVERY_TIMEOUT_MS = 30_000
ROOM_WAIT_S = 1.0  # how long the thread waits for room in the producer before it drops an event
REGISTRY_RETRY_S = 30.0
ADMIN_TIMEOUT_S = 10.0
RECREATE_S = 5.0  # from a fatal error of the producer to the next attempt to create one
CREATE_TOPIC_S = 60.0  # between attempts to create a topic that is missing
FLUSH_S = 2.0
TOPIC_PARTITIONS = 6
TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * 24 * 3_600_000),
    "message.timestamp.type": "LogAppendTime",  # reveals late events and skewed clocks
}
SENT, DELIVERED, FAILED, DROPPED, TOO_LARGE = "sent", "delivered", "failed", "dropped", "too large"

log = structlog.get_logger(__name__)

Work = Callable[[], Iterator[EventRecord]]
Counted = Callable[[str, str], None]


class EventPublisher:
    """Publishes events in a thread. Start it, register its `on_*` methods with the runtime, and close it.

    `counted` is called with (event, outcome) in any thread. The outcomes are: sent (given to the producer), then
    delivered or failed; dropped; too large. A plan that does not fit into the queue counts as the event "decision".
    """

    def __init__(self, properties: Mapping[str, str], config: EventSettings, counted: Counted) -> None:
        self._config = config
        self._count = counted
        self._properties = librdkafka_properties(properties)
        self._schemas = SchemaSet.load()
        self._ids: dict[str, int] = {}
        self._registry_at = float("-inf")
        self._queue: queue.Queue[tuple[str, Work]] = queue.Queue(QUEUE_MAX)
        self._troubles: set[str] = set()
        self._topic_missing, self._create_at = config.create_topic, float("-inf")
        self._not_created = ""  # the reason
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)

    @property
    def waiting(self) -> int:
        """The number of queued items."""
        return self._queue.qsize()

    def start(self) -> None:
        self._thread.start()

    def close(self, limit_s: float = 5.0) -> None:
        """Sends the queued events, for at most `limit_s`."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(limit_s)

    # ---- observers: any thread, at once ------------------------------------------------------------------------

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        """Publishes the events of a plan. An observer of decisions for the runtime."""
        self.offer_later("decision", lambda: decision_events(planned))

    def offer(self, event: str, record: Mapping[str, Any]) -> None:
        """Queues one record, or drops it if the queue is full."""
        self.offer_later(event, lambda: iter([(event, dict(record))]))

    def offer_later(self, event: str, work: Work) -> None:
        """Queues `work`, which the thread calls to make events. If the queue is full, counts one dropped `event`."""
        try:
            self._queue.put_nowait((event, work))
        except queue.Full:
            self._count(event, DROPPED)

    # ---- in the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                self._create_missing_topic()
                if self._produced(self._renewed()):
                    return
            except LoginError as error:
                self._trouble("no producer can be made", error.clause)
                if self._closing.is_set():
                    return
            except (KafkaException, ValueError) as error:
                why = f"no producer can be made: {error}; correct the properties under [kafka]"
                log.warning("events_off", reason=why)
                return
            self._closing.wait(RECREATE_S)

    def _create_missing_topic(self) -> None:
        """Creates the topic at the start, again until that succeeds or an event is delivered, and later if brokers say
        that there is none: the topic may have been deleted."""
        if self._topic_missing and clocks.monotonic() >= self._create_at:
            new = self._config.topic, TOPIC_CONFIG, TOPIC_PARTITIONS
            self._not_created = create_topic(self._properties, *new, self._not_created)
            self._topic_missing, self._create_at = bool(self._not_created), clocks.monotonic() + CREATE_TOPIC_S

    def _renewed(self) -> Renewed[Producer]:
        return Renewed(lambda: librdkafka_client(Producer, producer_config(self._properties)), self._properties)

    def _produced(self, renewed: Renewed[Producer]) -> bool:
        """Publishes until closed or until the producer has a fatal error; returns whether it was closed. An idempotent
        producer fails for good if a broker refuses it all writes, and any later call raises that error."""
        producer = renewed.client
        try:
            while not (self._closing.is_set() and self._queue.empty()):
                self._step(producer)
                self._create_missing_topic()
                if renewed.refresh():
                    producer.flush(FLUSH_S)  # while its connections are still open
                    producer = renewed.client
            producer.flush(FLUSH_S)
        except KafkaException as died:
            self._trouble("the producer has died", with_remedy(died.args[0], "WRITE", self._config.topic))
            producer.purge()
            with suppress(KafkaException):
                producer.flush(FLUSH_S)  # calls `_delivered` for the purged events
            return self._closing.is_set()
        return True

    def _step(self, producer: Producer) -> None:
        producer.poll(0)
        try:
            event, work = self._queue.get(timeout=0.2)
        except queue.Empty:
            return
        try:
            for name, record in work():
                self._publish(producer, name, record)
        except KafkaException:
            self._count(event, FAILED)
            raise
        except Exception:
            self._count(event, FAILED)
            log.exception("event_failed", kind=event)

    def _publish(self, producer: Producer, event: str, record: dict[str, Any]) -> None:
        value = self._encoded(event, record)
        if value is None:
            self._count(event, DROPPED)
            return
        deadline = clocks.monotonic() + ROOM_WAIT_S
        while True:
            try:
                producer.produce(
                    self._config.topic,
                    value,
                    str(record["group"]).encode(),
                    on_delivery=lambda error, _: self._delivered(event, error),
                )
            except BufferError:
                producer.poll(0.05)
                if clocks.monotonic() < deadline:
                    continue
                self._count(event, DROPPED)
                self._trouble("the producer is full", f"does topic {self._config.topic} have a leader?")
            except KafkaException as error:
                self._refused(event, error.args[0], f"{event} refused")
            else:
                self._count(event, SENT)
            return

    def _encoded(self, event: str, record: dict[str, Any]) -> bytes | None:
        if self._config.registry_url is None:
            return self._schemas.encode(event, record)
        schema = self._schemas.latest(event)
        schema_id = self._registered(self._config.registry_url, schema)
        return None if schema_id is None else confluent(schema_id, schema.body(record))

    def _registered(self, url: str, schema: EventSchema) -> int | None:
        if schema.event not in self._ids:
            now = clocks.monotonic()
            if now - self._registry_at < REGISTRY_RETRY_S:
                return None
            try:
                self._ids[schema.event] = register(url, self._config.topic, schema)
            except RegistryError as error:
                self._registry_at = now
                self._trouble("no schema id", str(error))
                return None
        return self._ids[schema.event]

    def _refused(self, event: str, error: KafkaError, what: str) -> None:
        self._topic_missing |= self._config.create_topic and error.code() in NO_TOPIC
        self._count(event, TOO_LARGE if error.code() == KafkaError.MSG_SIZE_TOO_LARGE else FAILED)
        self._trouble(what, with_remedy(error, "WRITE", self._config.topic))

    def _delivered(self, event: str, error: KafkaError | None) -> None:
        if error is not None:
            self._refused(event, error, "events are not delivered")
            return
        self._count(event, DELIVERED)
        self._troubles.clear()
        self._topic_missing, self._not_created = False, ""

    def _trouble(self, what: str, reason: str) -> None:
        if what not in self._troubles:
            self._troubles.add(what)
            log.warning("events_lost", what=what, reason=reason, topic=self._config.topic)


def producer_config(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns librdkafka's properties of an idempotent producer with small buffers."""
    return {
        "log_level": 2,
        **properties,
        "enable.idempotence": True,
        "compression.type": "lz4",
        "linger.ms": 50,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "queue.buffering.max.messages": PRODUCER_MESSAGES_MAX,
        "queue.buffering.max.kbytes": PRODUCER_KIB_MAX,
    }


def create_topic(
    properties: Mapping[str, str], topic: str, config: Mapping[str, str], partitions: int, reported: str = ""
) -> str:
    """Creates the topic unless it exists, with the broker's default replication factor. Returns why it could not, ""
    if there is a topic now, and logs this unless it is `reported`."""
    new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config))
    try:
        admin = librdkafka_client(AdminClient, {"log_level": 2, **properties})
        admin.create_topics([new], request_timeout=ADMIN_TIMEOUT_S)[topic].result(ADMIN_TIMEOUT_S + 1)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return ""
        remedy = f"; if it does not exist, create it or {grant('CREATE', 'Topic', topic)}" if code in DENIED else ""
        reason = f"{error.args[0].str()}{remedy}"
    except TimeoutError:
        reason = "no broker answered in time"
    else:
        topic_configs = {name.replace(".", "_"): value for name, value in config.items()}
        log.info("topic_created", topic=topic, partitions=partitions, **topic_configs)
        return ""
    if reason != reported:
        log.warning("topic_not_created", topic=topic, reason=reason)
    return reason
