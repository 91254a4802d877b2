"""The control topic itself: created where rights allow it, read from its beginning by one thread, written without
waiting.

Without the topic nothing else stops: what was read last still stands, and the thread goes on trying.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bellwether_kafka.coordinator.control.records import Record, RecordError, decode, encode
from bellwether_kafka.coordinator.kafka import (
    DENIED,
    IRRELEVANT_TO_READERS,
    SILENCE,
    LoginError,
    Renewed,
    grant,
    librdkafka_client,
    with_remedy,
)

POLL_S = 0.2
RETRY_S = 1.0
METADATA_TIMEOUT_S = 5.0
REPLICAS_MAX = 3
# A beat that could not be delivered at once would be a lie later.
DELIVERY_TIMEOUT_MS = 3_000
FLUSH_S = 2.0
NAMED_MAX = 100  # characters of a key
READ_S = WRITE_S = 10.0  # of a command, which reads all of it and writes one record
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
# Of consumers librdkafka wants a group, though nothing here joins one or commits.
READER_GROUP = "bellwether-control"

HOPELESS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})

log = structlog.get_logger(__name__)

# To ask whether a topic is there must not make it: clients of this kind do, where brokers let them.
QUIET = {"allow.auto.create.topics": False, "log_level": "0"}

OnRecord = Callable[[str, Record | None], None]


class ControlTopicError(Exception):
    """The control topic cannot be used; one sentence that names it and the remedy."""


class NoControlTopicError(ControlTopicError):
    """There is no such topic on the cluster."""


class SilentTopicError(ControlTopicError):
    """No broker has answered; one may later."""


def ensure_topic(properties: Mapping[str, str], topic: str) -> None:
    """Creates the compacted topic, one partition, if it is not there. Raises ControlTopicError."""
    try:
        admin = librdkafka_client(AdminClient, {**properties, **QUIET})
        if not _exists(admin, topic):
            _create(admin, topic)
    except KafkaException as failed:
        code = failed.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if code in DENIED:
            raise ControlTopicError(
                f"The control topic '{topic}' does not exist and Bellwether's principal may not create it; create it"
                f" with one partition and cleanup.policy=compact, or {grant('CREATE', 'Topic', topic)}."
            ) from None
        raise ControlTopicError(f"The control topic '{topic}' cannot be reached: {failed.args[0].str()}.") from None


def require_topic(properties: Mapping[str, str], topic: str) -> None:
    """For commands, which create nothing. Raises ControlTopicError where it is not there."""
    try:
        admin = librdkafka_client(AdminClient, {**properties, **QUIET})
        if _exists(admin, topic):
            return
    except KafkaException as failed:
        silent = isinstance(failed, LoginError) or failed.args[0].code() in SILENCE
        kind = SilentTopicError if silent else ControlTopicError
        raise kind(f"The control topic '{topic}' cannot be reached: {failed.args[0].str()}.") from None
    raise NoControlTopicError(
        f"There is no control topic '{topic}' on this cluster, so no Bellwether reads it; check --topic, or start"
        f' one whose settings have control_topic = "{topic}", which creates it.'
    )


def _exists(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
    if found.error is not None:
        if found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ControlTopicError(_forbidden(topic))
        return False
    if len(found.partitions) != 1:
        raise ControlTopicError(
            f"The control topic '{topic}' has {len(found.partitions)} partitions, but order matters; create another"
            " with one partition and cleanup.policy=compact, and set control_topic."
        )
    return True


def _create(admin: AdminClient, topic: str) -> None:
    replicas = min(REPLICAS_MAX, len(admin.list_topics(timeout=METADATA_TIMEOUT_S).brokers))
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=TOPIC_CONFIG)
    admin.create_topics([new], operation_timeout=METADATA_TIMEOUT_S)[topic].result(timeout=2 * METADATA_TIMEOUT_S)


def _forbidden(topic: str) -> str:
    """Nobody who may not describe a topic learns whether it exists, so all that may be missing is named."""
    return (
        f"Bellwether's principal may not use the control topic '{topic}'; {grant('READ', 'Topic', topic)}, WRITE on"
        f" Topic '{topic}', and CREATE on Topic '{topic}' if it does not exist."
    )


class ControlTopic:
    """Reader and writer. Callbacks run on the event loop in which `start` was called; `write` is for that loop too."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._properties = dict(properties)
        self._writer: Renewed[Producer] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._trouble = ""

    def start(self, on_record: OnRecord, on_caught_up: Callable[[], None]) -> None:
        """`on_caught_up` is called once, when all that was in the topic has been handed over."""
        loop = asyncio.get_running_loop()

        def tell(callback: Callable[..., None], *values: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(callback, *values)

        self._writer = Renewed(lambda: _producer(self._properties, DELIVERY_TIMEOUT_MS), self._properties)
        args = (tell, on_record, on_caught_up)
        self._thread = threading.Thread(target=self._read, args=args, name="control-topic", daemon=True)
        self._thread.start()

    def write(self, record: Record) -> None:
        """Without waiting; what cannot be delivered is logged."""
        self._produce(*encode(record))

    def withdraw(self, key: str) -> None:
        """Removes a key's value from the topic."""
        self._produce(key.encode(), None)

    async def close(self) -> None:
        """Sends what is under way, then ends the thread."""
        self._stopping.set()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.client.flush, FLUSH_S)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, METADATA_TIMEOUT_S)

    def _produce(self, key: bytes, value: bytes | None) -> None:
        if self._writer is None:
            return
        try:
            self._writer.client.produce(self.topic, key=key, value=value, partition=0, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            self._troubled(f"cannot be written: {error}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._troubled(f"cannot be written: {with_remedy(error, 'WRITE', self.topic)}")

    def _troubled(self, reason: str) -> None:
        """Says each trouble once, until something else happens."""
        if reason != self._trouble:
            self._trouble = reason
            log.warning("control_topic", topic=self.topic, reason=reason)

    # ---- in the thread -------------------------------------------------------------------------------------------

    def _read(self, tell: Callable[..., None], on_record: OnRecord, on_caught_up: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                ensure_topic(self._properties, self.topic)
                break
            except ControlTopicError as error:
                self._troubled(str(error))
                self._stopping.wait(RETRY_S)
        following = OFFSET_BEGINNING
        reader = Renewed(lambda: _reader(self._properties, self.topic, following), self._properties)
        caught_up = False
        try:
            while not self._stopping.is_set():
                behind = reader.client
                if reader.look():
                    behind.close()
                message = reader.client.poll(POLL_S)
                if self._writer is not None:
                    self._writer.look()
                    self._writer.client.poll(0)
                if message is None:
                    continue
                trouble = message.error()
                if trouble is None:
                    following = (message.offset() or 0) + 1
                    self._hand_over(message, tell, on_record)
                elif trouble.code() in IRRELEVANT_TO_READERS:
                    continue
                elif trouble.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - so the library spells its constant
                    self._troubled(f"cannot be read: {with_remedy(trouble, 'READ', self.topic)}")
                elif not caught_up:
                    caught_up = True
                    tell(on_caught_up)
        finally:
            reader.client.close()

    def _hand_over(self, message: Message, tell: Callable[..., None], on_record: OnRecord) -> None:
        key, value = message.key() or b"", message.value()
        self._trouble = ""
        try:
            record = None if value is None else decode(key, value)
        except RecordError as error:
            log.warning("control_record_ignored", topic=self.topic, offset=message.offset(), reason=str(error))
            return
        if value is None or record is not None:
            tell(on_record, key.decode(errors="replace"), record)


def silent(_sentence: str) -> None:
    """For a reader that says nothing of what it skips."""


def read_all(
    properties: Mapping[str, str], topic: str, limit_s: float, say: Callable[[str], object] = silent
) -> dict[str, Record]:
    """What is in the topic now, by key: for commands. `say` is given a sentence for each record that cannot be read.
    Raises ControlTopicError, also where there is no topic."""
    require_topic(properties, topic)
    found: dict[str, Record] = {}
    consumer = _reader(properties, topic)
    limit = time.monotonic() + limit_s
    try:
        while True:
            message = consumer.poll(max(0.0, limit - time.monotonic()))
            if message is None:
                raise SilentTopicError(f"The control topic '{topic}' did not answer within {limit_s:.0f} s.")
            trouble = message.error()
            if trouble is None:
                _keep(found, message, say)
            elif trouble.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so the library spells its constant
                return found
            elif trouble.code() in HOPELESS:
                raise ControlTopicError(f"The control topic '{topic}' cannot be read: {trouble.str()}.")
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class TopicDesk:
    """A command's side of a control topic. All methods raise ControlTopicError."""

    properties: Mapping[str, str]
    topic: str
    say: Callable[[str], object] = silent  # what cannot be read

    def read(self) -> dict[str, Record]:
        return read_all(self.properties, self.topic, READ_S, self.say)

    def write(self, key: bytes, value: bytes | None) -> None:
        write_now(self.properties, self.topic, key, value)


def _keep(found: dict[str, Record], message: Message, say: Callable[[str], object]) -> None:
    key, value = (message.key() or b"").decode(errors="replace"), message.value()
    try:
        record = None if value is None else decode(message.key(), value)
    except RecordError as why:
        say(f"Record {message.offset()} ({key[:NAMED_MAX]!r}) of the control topic is ignored: {why}.")
        return
    found.pop(key, None)
    if record is not None:
        found[key] = record


def write_now(properties: Mapping[str, str], topic: str, key: bytes, value: bytes | None) -> None:
    """Writes one record and waits until the brokers have it: for commands. Raises ControlTopicError."""
    outcome: list[KafkaError | None] = []
    producer = _producer(properties, int(WRITE_S * 1000))
    producer.produce(topic, key=key, value=value, partition=0, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(WRITE_S + METADATA_TIMEOUT_S)
    refusal = outcome[0] if outcome else None
    if outcome and refusal is None:  # by identity: a KafkaError that is compared with None leaves an exception behind
        return
    if refusal is not None and refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        remedy = grant("WRITE", "Topic", topic)
        raise ControlTopicError(f"The order may not be written to the control topic '{topic}'; {remedy}.")
    why = refusal.str() if refusal is not None else "no answer"
    kind = SilentTopicError if refusal is None or refusal.code() in SILENCE else ControlTopicError
    raise kind(f"The order could not be written to the control topic '{topic}': {why}.")


def _producer(properties: Mapping[str, str], timeout_ms: int) -> Producer:
    # The guard reads gzip and nothing else of what is compressed.
    ours = {
        "compression.codec": "none",
        "allow.auto.create.topics": False,
        "message.timeout.ms": timeout_ms,
        "log_level": "0",
    }
    return librdkafka_client(Producer, {"linger.ms": 0, **properties, **ours})


def _reader(properties: Mapping[str, str], topic: str, offset: int = OFFSET_BEGINNING) -> Consumer:
    consumer = librdkafka_client(
        Consumer,
        {
            "fetch.error.backoff.ms": 100,
            **properties,
            "group.id": READER_GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "log_level": "0",
        },
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer
