"""The userData of sticky assignors, in every dialect that clients write
(docs/internals/wire-formats.md#userdata-of-sticky-assignors).

It only has hints, so reading never fails: bytes that fit no dialect mean "no history", as in Java.
"""

from collections.abc import Iterable

from bellwether_kafka.protocol.messages import consumer
from bellwether_kafka.protocol.primitives import Reader, RemoteProtocolError, TopicPartition, Writer

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
