"""Reads snapshots, rebalances, plans and traffic from the events topic up to its present end, for a history file."""

from collections.abc import Iterator, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.events import HEADER_BYTES, EventSchema, SchemaSet, single_object
from bellwether_kafka.coordinator.kafka.client import librdkafka_client

WANTED = ("snapshot", "round", "assignment", "traffic", "decision")
BATCH = 1_000
SILENCE_S = 15.0


class HistoryUnreadError(Exception):
    """The topic does not exist, or no record arrived for SILENCE_S before its end. The message is one sentence."""


def recorded(
    properties: Mapping[str, str], topic: str, timeout_s: float, ids: Mapping[int, EventSchema]
) -> Iterator[bytes]:
    """Yields the values of the wanted events in Avro's single-object encoding, in order within each partition. `ids`
    are the schemas by their ids in a schema registry. Raises HistoryUnreadError and KafkaException."""
    schemas = SchemaSet.load()
    headers = {schema.header for event in WANTED for schema in schemas.versions(event)}
    own_settings = {"group.id": "bellwether-history", "enable.auto.commit": False, "log_level": 2}
    consumer = librdkafka_client(Consumer, {**own_settings, **properties})
    try:
        metadata = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        if metadata.error is not None:
            raise HistoryUnreadError(f"The topic {topic} cannot be read: {metadata.error.str()}; check --topic.")
        parts = [TopicPartition(topic, number) for number in metadata.partitions]
        marks = {part.partition: consumer.get_watermark_offsets(part, timeout=timeout_s) for part in parts}
        left = {number: high for number, (low, high) in marks.items() if high > low}
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        received_at = clocks.monotonic()
        while left:
            for message in consumer.consume(BATCH, timeout=0.5):
                if message.error() is not None:
                    continue
                received_at = clocks.monotonic()
                number, offset = int(message.partition() or 0), int(message.offset() or 0)
                value = single_object(bytes(message.value() or b""), ids)
                if value[:HEADER_BYTES] in headers:
                    yield value
                if offset + 1 >= left.get(number, 0):
                    left.pop(number, None)
            if clocks.monotonic() - received_at > SILENCE_S:
                raise HistoryUnreadError(f"The topic {topic} sent nothing more before its end; try again.")
    finally:
        consumer.close()
