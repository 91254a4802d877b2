"""Reads the control topic from its beginning in a thread, writes to it without waiting, and does both for commands.

If the topic is unavailable, Bellwether keeps working with the last records, and the thread retries. It reads over its
own connections, in bounded memory for any record (`kafka.TopicLog`).
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bellwether_kafka.coordinator.control.kept_orders import OnCaughtUp, OnReadAgain, OnRecord, OnRefused
from bellwether_kafka.coordinator.control.record_codec import RecordError, decode, encode
from bellwether_kafka.coordinator.control.records import Record
from bellwether_kafka.coordinator.control.topic_creation import (
    METADATA_TIMEOUT_S,
    ControlTopicError,
    SilentTopicError,
    ensure_topic,
    require_topic,
)
from bellwether_kafka.coordinator.kafka.client import DENIED, SILENCE, Renewed, librdkafka_client, with_remedy
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
# Short, because a heartbeat that arrives late would be false.
DELIVERY_TIMEOUT_MS = 3_000
FLUSH_S = 2.0
NAMED_MAX = 100  # characters of a key
READING, WRITING = "reading", "writing"
READ_S = WRITE_S = 10.0  # time limits of a command, which reads the whole topic and writes one record
HOPELESS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})

log = structlog.get_logger(__name__)


def nothing(*_: object) -> None:
    """Ignores that brokers refuse the topic, what a log has that is read again, or why a record is skipped."""


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
        self._again: dict[str, Record | None] | None = None  # the last of each key while the log is read again

    def start(
        self,
        on_record: OnRecord,
        on_caught_up: OnCaughtUp,
        on_refused: OnRefused = nothing,
        on_read_again: OnReadAgain = nothing,
    ) -> None:
        """Starts the thread. A topic that brokers refuse is asked for again, more and more rarely."""
        loop = asyncio.get_running_loop()

        def call_back(callback: Callable[..., None], *values: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(callback, *values)

        self._writer = Renewed(lambda: _producer(self._properties, DELIVERY_TIMEOUT_MS), self._properties)
        args = tuple(partial(call_back, each) for each in (on_record, on_caught_up, on_refused, on_read_again))
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

    def _read(
        self, on_record: OnRecord, on_caught_up: OnCaughtUp, on_refused: OnRefused, on_read_again: OnReadAgain
    ) -> None:
        self._refuse = on_refused
        while not self._stopping.is_set() and not self._is_ensured():
            self._stopping.wait(min(RETRY_S * 2**self._refusals, REFUSED_S))
        asyncio.run(self._follow(on_record, on_caught_up, on_read_again))

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

    async def _follow(self, on_record: OnRecord, on_caught_up: OnCaughtUp, on_read_again: OnReadAgain) -> None:
        """Reads until stopped, by one transport that logs in once. Only a repeated failure is reported. A topic that
        was deleted is created again: without it no standby would notice that the active instance dies."""
        transport: Transport | None = None
        while not self._stopping.is_set():
            try:
                transport = transport or Transport(self._given)
                await self._read_on(transport, on_record, on_caught_up, on_read_again)
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
        self, transport: Transport, on_record: OnRecord, on_caught_up: OnCaughtUp, on_read_again: OnReadAgain
    ) -> None:
        topic_log = TopicLog(transport, self.topic)
        topic_log.at = self._at
        await transport.start()
        while not self._stopping.is_set():
            part = await topic_log.next(WAIT_MS)
            self._at, self._failed = topic_log.at, False
            if part.error == OFFSET_OUT_OF_RANGE:
                self._again = {}
            self._hand_over(part, on_record)
            self._tend_writer()
            if part.error or topic_log.at < part.end_offset:
                continue
            if self._again is not None:
                again, self._again = self._again, None
                on_read_again(again)
            if not self._caught_up:
                self._caught_up = True
                on_caught_up()

    def _tend_writer(self) -> None:
        """Renews the producer if its certificates changed, and handles delivery reports."""
        if self._writer is not None:
            self._writer.refresh()
            self._writer.client.poll(0)

    def _hand_over(self, part: ReadRecords, on_record: OnRecord) -> None:
        if part.records:
            self._reported[READING].clear()
        for key, record in _readable(part, self.topic, self._ignored):
            if self._again is None:
                on_record(key, record)
            else:
                self._again[key] = record

    def _ignored(self, sentence: str) -> None:
        log.warning("control_record_ignored", topic=self.topic, reason=sentence)


def _readable(part: ReadRecords, topic: str, ignored: Callable[[str], object]) -> Iterator[tuple[str, Record | None]]:
    """Yields what these records put into force or, by None, withdraw. Calls `ignored` with a sentence for each that
    cannot be used; kinds that only a newer version knows are no such case."""
    for unread in part.unread:
        ignored(unread.sentence(topic))
    for key, value in part.records:
        name = (key or b"").decode(errors="replace")
        try:
            record = None if value is None else decode(key or b"", value)
        except RecordError as why:
            ignored(f"The record {name[:NAMED_MAX]!r} of the control topic is ignored: {why}.")
            continue
        if value is None or record is not None:
            yield name, record


def _why(trouble: Exception, topic: str) -> str:
    if isinstance(trouble, TopicLogError):
        return with_remedy(KafkaError(trouble.code), "READ", topic)
    return str(trouble).rstrip(".")


def read_all(
    properties: Mapping[str, str], topic: str, limit_s: float, echo: Callable[[str], object] = nothing
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
                    for key, record in _readable(part, topic, echo):
                        records.pop(key, None)
                        if record is not None:
                            records[key] = record
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
    echo: Callable[[str], object] = nothing  # called for unreadable records

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
