"""The two blobs of every consumer, versions 0 to 3: its subscription in JoinGroup and its assignment in SyncGroup.

These versions are not negotiated: the writer chooses one, and readers must accept it
(docs/internals/wire-formats.md#embedded-consumer-protocol). The dataclasses are the plain form; a leader of thousands
of members uses `protocol.bulk`, which must agree with them.

The userData of sticky assignors, in every dialect that clients write
(docs/internals/wire-formats.md#userdata-of-sticky-assignors).

It only has hints, so reading never fails: bytes that fit no dialect mean "no history", as in Java.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether_kafka.protocol.messages import consumer
from bellwether_kafka.protocol.primitives import (
    LocalProtocolError,
    Reader,
    RemoteProtocolError,
    TopicPartition,
    Writer,
    java_sorted,
)

CONSUMER_VERSION_MAX = 3
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class ConsumerProtocolSubscription:
    """What a member subscribes to and what it claims to own (docs/internals/wire-formats.md#subscription).

    `version` is the number on the wire, even if it is above 3. `topics` and `owned_partitions` are in wire order.
    `generation_id` is NO_GENERATION if absent or negative, `rack_id` is None if absent or "", as in Java.
    """

    version: int = 0
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None

    @classmethod
    def decode(cls, data: bytes, *, as_java: bool = False) -> "ConsumerProtocolSubscription":
        """Reads v0-v3, and higher versions as v3; trailing bytes are ignored
        (docs/internals/wire-formats.md#version-rules).

        A blob may end before any field that its version added after v0: kafka-go writes version 1 without owned
        partitions. Raises RemoteProtocolError on anything else that is short, negative or not UTF-8. `as_java` also
        refuses those that end early, as Java's leaders and brokers do: for the question whether they would take it.
        """
        reader = Reader(data)
        version = _read_version(reader)
        topics = reader.array(2, reader.string)
        user_data = reader.nullable_bytes()
        owned: tuple[TopicPartition, ...] = ()
        generation = NO_GENERATION
        rack = None
        if version >= 1 and (as_java or reader.remaining):
            owned = read_topic_partitions(reader)
        if version >= 2 and (as_java or reader.remaining):
            generation = max(reader.int32(), NO_GENERATION)
        if version >= 3 and (as_java or reader.remaining):
            rack = reader.nullable_string() or None
        return cls(version, topics, user_data, owned, generation, rack)

    def encode(self) -> bytes:
        """Returns the bytes that Java writes: topics sorted, owned partitions sorted and grouped by topic, without
        fields that the version lacks. Raises LocalProtocolError for a version outside 0-3 or a value that does not
        fit."""
        writer = Writer()
        _write_version(writer, self.version)
        writer.array(java_sorted(self.topics), writer.string)
        writer.nullable_bytes(self.user_data)
        if self.version >= 1:
            grouped = group_by_topic(self.owned_partitions)
            write_topic_partitions(writer, {topic: sorted(grouped[topic]) for topic in java_sorted(grouped)})
        if self.version >= 2:
            writer.int32(self.generation_id)
        if self.version >= 3:
            writer.nullable_string(self.rack_id)
        return writer.getvalue()


@dataclass(frozen=True, slots=True)
class ConsumerProtocolAssignment:
    """What the leader assigns to one member (docs/internals/wire-formats.md#assignment). v0-v3 have one layout."""

    version: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None

    @classmethod
    def decode(cls, data: bytes) -> "ConsumerProtocolAssignment":
        """Reads any version from 0 on; trailing bytes are ignored. Raises RemoteProtocolError."""
        reader = Reader(data)
        version = _read_version(reader)
        partitions = read_topic_partitions(reader)
        return cls(version, partitions, reader.nullable_bytes())

    def encode(self) -> bytes:
        """Writes one entry per topic, topics in the order in which they first appear, partitions as given.

        Raises LocalProtocolError for a version outside 0-3 or a value that does not fit.
        """
        writer = Writer()
        _write_version(writer, self.version)
        write_topic_partitions(writer, group_by_topic(self.partitions))
        writer.nullable_bytes(self.user_data)
        return writer.getvalue()


def read_topic_partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    """Reads [](str topic, []int32 partitions), flattened in wire order."""
    partitions: list[TopicPartition] = []
    for _ in range(reader.count(6)):
        topic = reader.string()
        partitions += [TopicPartition(topic, partition) for partition in reader.int32_array()]
    return tuple(partitions)


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns the partitions of each topic, topics in the order in which they first appear."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def write_topic_partitions(writer: Writer, grouped: dict[str, list[int]]) -> None:
    writer.int32(len(grouped))
    for topic, partitions in grouped.items():
        writer.string(topic)
        writer.int32_array(partitions)


def _read_version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise RemoteProtocolError(f"negative version {version}")
    return version


def _write_version(writer: Writer, version: int) -> None:
    if not 0 <= version <= CONSUMER_VERSION_MAX:
        raise LocalProtocolError(f"version {version} is not one of 0-{CONSUMER_VERSION_MAX}")
    writer.int16(version)


STICKY = "sticky"
RACK_AFFINITY = "rack-affinity"
_PREFIX = b"\x00\x01"
_GENERATION_BYTES = 4


def read_generation(data: bytes | None) -> int:
    """Returns the generation in the userData of a member whose partitions are in its owned list: 4 bytes (Java,
    sarama), or the end of a V1 list (franz-go, librdkafka), or the end of a V1 list behind an int16 1 (kafka-python 3).
    The last cannot be mistaken for a plain list, which would then announce 65,536 topics or more. Otherwise
    NO_GENERATION."""
    if not data:
        return consumer.NO_GENERATION
    if len(data) == _GENERATION_BYTES:
        return max(Reader(data).int32(), consumer.NO_GENERATION)
    for start in (0, len(_PREFIX)) if data.startswith(_PREFIX) else (0,):
        reader = Reader(data, start)
        try:
            consumer.read_topic_partitions(reader)
            generation = reader.int32()
        except RemoteProtocolError:
            continue
        if not reader.remaining:
            return max(generation, consumer.NO_GENERATION)
    return consumer.NO_GENERATION


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Returns V1 userData for the echo to sarama members (docs/internals/client-quirks.md#sarama), with one entry per
    topic in the order in which they first appear."""
    writer = Writer()
    consumer.write_topic_partitions(writer, consumer.group_by_topic(partitions))
    writer.int32(generation)
    return writer.getvalue()


def read_rack_affinity(data: bytes | None) -> str | None:
    """Returns the rack in the userData of kafka-go's `rack-affinity`, which is plain UTF-8; None if there is none."""
    try:
        return (data or b"").decode() or None
    except UnicodeDecodeError:
        return None
