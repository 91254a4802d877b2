"""What the userData of sticky assignors says, in every dialect that clients write
(docs/reference/wire-formats.md#userdata-of-sticky-assignors).

Only hints are in here, so reading never fails: bytes that fit no dialect mean "no history", as in Java.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether_kafka.protocol.messages.consumer import (
    NO_GENERATION,
    group_by_topic,
    read_topic_partitions,
    write_topic_partitions,
)
from bellwether_kafka.protocol.primitives import Reader, RemoteProtocolError, TopicPartition, Writer

STICKY = "sticky"
RACK_AFFINITY = "rack-affinity"
_PREFIX = b"\x00\x01"
_GENERATION_BYTES = 4


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """The partitions that a member says it had, and the one generation of them all (NO_GENERATION: unknown)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


def read_sticky_user_data(data: bytes | None) -> StickyUserData:
    """The userData of the eager `sticky` protocol: V1, else V1 behind an int16 1 (kafka-python 3), else V0.

    Each must fit exactly. The prefixed form cannot be taken for a plain one: it would announce 65,536 topics or more.
    """
    if not data:
        return StickyUserData()
    return _list_and_generation(data, 0) or _prefixed(data) or _list_alone(data) or StickyUserData()


def read_generation(data: bytes | None) -> int:
    """The generation in the userData of a member whose partitions are in its owned list: 4 bytes (Java, sarama), or the
    end of a V1 list (franz-go, librdkafka); else NO_GENERATION."""
    if not data:
        return NO_GENERATION
    if len(data) == _GENERATION_BYTES:
        return max(Reader(data).int32(), NO_GENERATION)
    found = _list_and_generation(data, 0) or _prefixed(data)
    return found.generation if found else NO_GENERATION


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """V1, for the echo to sarama members (docs/reference/client-quirks.md#sarama): one entry per topic in the order in
    which they appear."""
    writer = Writer()
    write_topic_partitions(writer, group_by_topic(partitions))
    writer.int32(generation)
    return writer.getvalue()


def read_rack_affinity(data: bytes | None) -> str | None:
    """The rack in the userData of kafka-go's `rack-affinity`: plain UTF-8 and nothing else; None if there is none."""
    try:
        return (data or b"").decode() or None
    except UnicodeDecodeError:
        return None


def _list_and_generation(data: bytes, start: int) -> StickyUserData | None:
    reader = Reader(data, start)
    try:
        partitions = read_topic_partitions(reader)
        generation = reader.int32()
    except RemoteProtocolError:
        return None
    return None if reader.remaining else StickyUserData(partitions, max(generation, NO_GENERATION))


def _prefixed(data: bytes) -> StickyUserData | None:
    return _list_and_generation(data, len(_PREFIX)) if data.startswith(_PREFIX) else None


def _list_alone(data: bytes) -> StickyUserData | None:
    reader = Reader(data)
    try:
        partitions = read_topic_partitions(reader)
    except RemoteProtocolError:
        return None
    return None if reader.remaining else StickyUserData(partitions)
