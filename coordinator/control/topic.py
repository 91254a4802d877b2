"""Creates the control topic if permitted, reads it from its beginning in a thread, and writes to it without waiting.

If the topic is unavailable, Bellwether keeps working with the last records, and the thread retries. It reads over its
own connections, in bounded memory for any record (`kafka.TopicLog`).
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.control.order_source import LastRecords, OnCaughtUp, OnRecord, OnRefused
from bellwether_kafka.coordinator.control.record_codec import RecordError, decode, encode
from bellwether_kafka.coordinator.control.records import Record
from bellwether_kafka.coordinator.control.topic_faults import forbidden, forgetful
from bellwether_kafka.coordinator.kafka.client import (
    DENIED,
    SILENCE,
    LoginError,
    Renewed,
    librdkafka_client,
    with_remedy,
)
from bellwether_kafka.coordinator.kafka.wire import (
    OFFSET_OUT_OF_RANGE,
    ClientConfigError,
    ReadRecords,
    TopicLog,
    TopicLogError,
    Transport,
    TransportError,
    UnreachableError,
    grant,
    librdkafka_properties,
)

WAIT_MS = 200  # how long a broker waits for new records
RETRY_S = 1.0
REFUSED_S = 30.0  # between two attempts at most, where brokers refuse the topic
METADATA_TIMEOUT_S = 5.0
REPLICAS_MAX = 3
# Short, because a heartbeat that arrives late would be false.
DELIVERY_TIMEOUT_MS = 3_000
FLUSH_S = 2.0
NAMED_MAX = 100  # characters of a key
READING, WRITING = "reading", "writing"
READ_S = WRITE_S = 10.0  # time limits of a command, which reads the whole topic and writes one record
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
LOST_REMEDY = "The topic was deleted, or has lost its end: give these orders again; let only its owners delete it."
HOPELESS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})

log = structlog.get_logger(__name__)

# Checking whether a topic exists must not create it, as librdkafka does by default if brokers allow it.
QUIET = {"allow.auto.create.topics": False, "log_level": "0"}

CallBack = Callable[..., None]  # in the loop that has started the topic


def nothing() -> None:
    """Ignores that brokers refuse the topic."""


class ControlTopicError(Exception):
    """The control topic cannot be used. The message is a sentence with its name and the remedy."""


class NoControlTopicError(ControlTopicError):
    """The control topic does not exist on the cluster."""


class SilentTopicError(ControlTopicError):
    """No broker has answered, which may be temporary."""


def ensure_topic(properties: Mapping[str, str], topic: str, *, only_ask: bool = False) -> None:
    """Creates the topic, compacted and with one partition, unless it exists; with `only_ask` it asks whether brokers
    would. Raises ControlTopicError."""
    try:
        admin = librdkafka_client(AdminClient, {**properties, **QUIET})
        if not _exists(admin, topic):
            _create(admin, topic, only_ask=only_ask)
        elif fault := forgetful(admin, topic, METADATA_TIMEOUT_S):
            log.warning("control_topic", topic=topic, reason=fault)
    except KafkaException as failed:
        code = failed.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if code in DENIED:
            raise ControlTopicError(
                f"The control topic '{topic}' does not exist and Bellwether's principal may not create it; create it"
                f" with one partition and cleanup.policy=compact, or {grant('CREATE', 'Topic', topic)}; or set"
                ' control_topic = "" where nobody is to give orders.'
            ) from None
        raise _unreachable(failed, topic) from None


def require_topic(properties: Mapping[str, str], topic: str) -> None:
    """Checks for commands, which do not create the topic, that it exists. Raises ControlTopicError if not."""
    try:
        admin = librdkafka_client(AdminClient, {**properties, **QUIET})
        if _exists(admin, topic):
            return
    except KafkaException as failed:
        raise _unreachable(failed, topic) from None
    raise NoControlTopicError(
        f"There is no control topic '{topic}' on this cluster, so no Bellwether reads it; check --topic, or start"
        f' one that leads or serves groups and has control_topic = "{topic}", which creates it if it has the right:'
        f" {grant('CREATE', 'Topic', topic)}."
    )


def _unreachable(failed: KafkaException, topic: str) -> ControlTopicError:
    silent = isinstance(failed, LoginError) or failed.args[0].code() in SILENCE
    kind = SilentTopicError if silent else ControlTopicError
    return kind(f"The control topic '{topic}' cannot be reached: {failed.args[0].str()}.")


def _exists(admin: AdminClient, topic: str) -> bool:
    metadata = admin.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        if metadata.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ControlTopicError(forbidden(topic))
        if metadata.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(metadata.error)
        return False
    if len(metadata.partitions) != 1:
        raise ControlTopicError(
            f"The control topic '{topic}' has {len(metadata.partitions)} partitions, but order matters; create another"
            " with one partition and cleanup.policy=compact, and set control_topic."
        )
    return True


def _create(admin: AdminClient, topic: str, *, only_ask: bool) -> None:
    replicas = min(REPLICAS_MAX, len(admin.list_topics(timeout=METADATA_TIMEOUT_S).brokers))
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=TOPIC_CONFIG)
    limits_s = {"operation_timeout": METADATA_TIMEOUT_S, "request_timeout": 2 * METADATA_TIMEOUT_S}
    # A limit of `result` would raise TimeoutError, which nothing here takes for an answer of brokers.
    admin.create_topics([new], validate_only=only_ask, **limits_s)[topic].result()


class ControlTopic:
    """Reads and writes the topic. Callbacks run in the event loop in which `start` was called; `write` must be called
    there, too. `properties` are those of the settings."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._given = dict(properties)
        self._properties = librdkafka_properties(properties)
        self._writer: Renewed[Producer] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reported: dict[str, set[str]] = {READING: set(), WRITING: set()}  # reasons, until one succeeds again
        # Used in the thread only:
        self._at = 0
        self._caught_up = False
        self._failed = False
        self._refusals = 0
        self._refuse: Callable[[], None] = nothing
        self._last = LastRecords()

    def start(self, on_record: OnRecord, on_caught_up: OnCaughtUp, on_refused: OnRefused = nothing) -> None:
        """Starts the thread. A topic that brokers refuse is asked for again, more and more rarely."""
        loop = asyncio.get_running_loop()

        def call_back(callback: Callable[..., None], *values: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(callback, *values)

        self._writer = Renewed(lambda: _producer(self._properties, DELIVERY_TIMEOUT_MS), self._properties)
        args = (call_back, on_record, on_caught_up, on_refused)
        self._thread = threading.Thread(target=self._read, args=args, name="control-topic", daemon=True)
        self._thread.start()

    def write(self, record: Record) -> None:
        """Writes a record without waiting. A failed delivery is logged."""
        self._produce(*encode(record))

    def withdraw(self, key: str) -> None:
        """Writes a tombstone, which removes the key's value."""
        self._produce(key.encode(), None)

    async def close(self) -> None:
        """Sends pending records, then ends the thread."""
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
            self._troubled(WRITING, f"cannot be written: {error}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._troubled(WRITING, f"cannot be written: {with_remedy(error, 'WRITE', self.topic)}")
        else:
            self._reported[WRITING].clear()

    def _troubled(self, what: str, reason: str) -> None:
        """Logs a problem once until the next success of its kind: what is read says nothing of what can be written."""
        if reason not in self._reported[what]:
            self._reported[what].add(reason)
            log.warning("control_topic", topic=self.topic, reason=reason)

    # ---- in the thread -------------------------------------------------------------------------------------------

    def _read(self, call_back: CallBack, on_record: OnRecord, on_caught_up: OnCaughtUp, on_refused: OnRefused) -> None:
        self._refuse = partial(call_back, on_refused)
        while not self._stopping.is_set() and not self._is_ensured():
            self._stopping.wait(min(RETRY_S * 2**self._refusals, REFUSED_S))
        asyncio.run(self._follow(call_back, on_record, on_caught_up))

    def _is_ensured(self) -> bool:
        """Creates the topic unless it exists. Returns whether it can be used; if not, the reason is logged."""
        try:
            ensure_topic(self._properties, self.topic)
        except ControlTopicError as error:
            self._troubled(READING, str(error))
            if not isinstance(error, SilentTopicError):
                self._refusals += 1
                self._refuse()
            return False
        return True

    async def _follow(self, call_back: CallBack, on_record: OnRecord, on_caught_up: OnCaughtUp) -> None:
        """Reads until stopped, by one transport that logs in once. Only a repeated failure is reported. A topic that
        was deleted is created again: without it no standby would notice that the active instance dies."""
        transport: Transport | None = None
        while not self._stopping.is_set():
            try:
                transport = transport or Transport(self._given)
                await self._read_on(transport, call_back, on_record, on_caught_up)
            except (ClientConfigError, TransportError, TopicLogError) as trouble:
                if self._failed:
                    self._troubled(READING, f"cannot be read: {_why(trouble, self.topic)}")
                    code = getattr(trouble, "code", None)
                    if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        self._is_ensured()
                    elif code in DENIED:
                        self._refuse()
                self._failed = True
            except Exception:
                log.exception("control_topic_failed", topic=self.topic)
            self._tend_writer()
            self._stopping.wait(RETRY_S)
        if transport is not None:
            await transport.close()

    async def _read_on(
        self, transport: Transport, call_back: CallBack, on_record: OnRecord, on_caught_up: OnCaughtUp
    ) -> None:
        topic_log = TopicLog(transport, self.topic)
        topic_log.at = self._at
        await transport.start()
        while not self._stopping.is_set():
            part = await topic_log.next(WAIT_MS)
            self._at, self._failed = topic_log.at, False
            if part.error == OFFSET_OUT_OF_RANGE:
                self._last.begin_again()
            self._hand_over(part, call_back, on_record)
            self._tend_writer()
            if part.error or topic_log.at < part.end_offset:
                continue
            counts, lost = self._last.at_end(int(clocks.wall() * 1000))
            for name, last in counts.items():
                call_back(on_record, name, last)
            if lost:
                log.error("orders_lost", topic=self.topic, orders=lost, remedy=LOST_REMEDY)
            if not self._caught_up:
                self._caught_up = True
                call_back(on_caught_up)

    def _tend_writer(self) -> None:
        """Renews the producer if its certificates changed, and handles delivery reports."""
        if self._writer is not None:
            self._writer.refresh()
            self._writer.client.poll(0)

    def _hand_over(self, part: ReadRecords, call_back: CallBack, on_record: OnRecord) -> None:
        for unread in part.unread:
            log.warning("control_record_ignored", topic=self.topic, reason=unread.sentence(self.topic))
        for key, value in part.records:
            self._reported[READING].clear()
            try:
                record = None if value is None else decode(key or b"", value)
            except RecordError as error:
                log.warning("control_record_ignored", topic=self.topic, key=_named(key), reason=str(error))
                continue
            if value is None or record is not None:
                name = (key or b"").decode(errors="replace")
                if self._last.take(name, record):
                    call_back(on_record, name, record)


def _named(key: bytes | None) -> str:
    return (key or b"")[:NAMED_MAX].decode(errors="replace")


def _why(trouble: Exception, topic: str) -> str:
    if isinstance(trouble, TopicLogError):
        return with_remedy(KafkaError(trouble.code), "READ", topic)
    return str(trouble).rstrip(".")


def silent(_sentence: str) -> None:
    """Ignores sentences on skipped records."""


def read_all(
    properties: Mapping[str, str], topic: str, limit_s: float, echo: Callable[[str], object] = silent
) -> dict[str, Record]:
    """Reads all records of the topic by key, for commands. Calls `echo` with a sentence for each unreadable record.
    Raises ControlTopicError, also if the topic does not exist."""
    require_topic(librdkafka_properties(properties), topic)
    try:
        return asyncio.run(_read_all(properties, topic, limit_s, echo))
    except TimeoutError:
        raise SilentTopicError(f"The control topic '{topic}' did not answer within {limit_s:.0f} s.") from None
    except ClientConfigError as wrong:
        raise ControlTopicError(str(wrong)) from None
    except (UnreachableError, TopicLogError) as trouble:
        raise ControlTopicError(f"The control topic '{topic}' cannot be read: {_why(trouble, topic)}.") from None


async def _read_all(
    properties: Mapping[str, str], topic: str, limit_s: float, echo: Callable[[str], object]
) -> dict[str, Record]:
    """Reads the topic and retries temporary errors within `limit_s`. Raises TimeoutError, or for permanent errors
    UnreachableError and TopicLogError."""
    records: dict[str, Record] = {}
    transport = Transport(properties)
    try:
        async with asyncio.timeout(limit_s):
            await transport.start()
            topic_log, end = TopicLog(transport, topic), 1
            while topic_log.at < end:
                try:
                    part = await topic_log.next()
                except (TransportError, TopicLogError) as trouble:
                    if getattr(trouble, "code", None) in HOPELESS:
                        raise
                    await asyncio.sleep(RETRY_S)
                    continue
                if not part.error:
                    _keep(records, part, topic, echo)
                    end = part.end_offset
    finally:
        await transport.close()
    return records


@dataclass(frozen=True, slots=True)
class TopicChannel:
    """The command's side of a control topic. `properties` are those of the settings. All methods raise
    ControlTopicError."""

    properties: Mapping[str, str]
    topic: str
    echo: Callable[[str], object] = silent  # called for unreadable records

    def read(self) -> dict[str, Record]:
        return read_all(self.properties, self.topic, READ_S, self.echo)

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        write_now(self.properties, self.topic, *records)

    def unmakable(self) -> str:
        """Returns why brokers would not create the topic, as a sentence with the missing right; "" if they would."""
        try:
            ensure_topic(librdkafka_properties(self.properties), self.topic, only_ask=True)
        except ControlTopicError as error:
            return str(error)
        return ""


def _keep(records: dict[str, Record], part: ReadRecords, topic: str, echo: Callable[[str], object]) -> None:
    for unread in part.unread:
        echo(unread.sentence(topic))
    for key, value in part.records:
        try:
            record = None if value is None else decode(key, value)
        except RecordError as why:
            echo(f"The record {_named(key)!r} of the control topic is ignored: {why}.")
            continue
        name = (key or b"").decode(errors="replace")
        records.pop(name, None)
        if record is not None:
            records[name] = record


def write_now(properties: Mapping[str, str], topic: str, *records: tuple[bytes, bytes | None]) -> None:
    """Writes records and waits for their delivery, for commands. Raises ControlTopicError."""
    outcomes: list[KafkaError | None] = []
    producer = _producer(librdkafka_properties(properties), int(WRITE_S * 1000))
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(WRITE_S + METADATA_TIMEOUT_S)
    refusal = next((error for error in outcomes if error is not None), None)
    if len(outcomes) == len(records) and refusal is None:
        return
    if refusal is not None and refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        remedy = grant("WRITE", "Topic", topic)
        raise ControlTopicError(f"The order may not be written to the control topic '{topic}'; {remedy}.")
    why = refusal.str() if refusal is not None else "no answer"
    kind = SilentTopicError if refusal is None or refusal.code() in SILENCE else ControlTopicError
    raise kind(f"The order could not be written to the control topic '{topic}': {why}.")


def _producer(properties: Mapping[str, str], timeout_ms: int) -> Producer:
    own_settings = {
        "compression.codec": "none",
        "allow.auto.create.topics": False,
        "message.timeout.ms": timeout_ms,
        "log_level": "0",
    }
    return librdkafka_client(Producer, {"linger.ms": 0, **properties, **own_settings})
