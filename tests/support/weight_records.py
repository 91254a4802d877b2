"""Records of the topic of weights."""

from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.protocol.primitives import TopicPartition

NOW_MS = 1_000_000_000
SCHEMAS = SchemaSet.load()


def record(partition: TopicPartition, bytes_per_s: float, at_ms: int = NOW_MS) -> bytes:
    return SCHEMAS.encode(
        "weight",
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "bytes_per_s": bytes_per_s,
            "records_per_s": 1.0,
            "estimated_at_ms": at_ms,
            "windows": 3,
        },
    )
