"""Reads whole topics of events."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from bellwether_kafka.coordinator.events import SchemaSet
from tests.interop.support.brokers import KafkaCluster
from tests.patience import PATIENCE


def read_until(
    cluster: KafkaCluster, topic: str, enough: Callable[[list[Message]], bool], limit_s: float = 30.0
) -> list[Message]:
    """Every record of the topic, once `enough` says so of those read; raises AssertionError if it never does."""
    partitions = cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions
    consumer = Consumer(cluster.client_config("admin", "admin") | {"group.id": f"reader-of-{topic}"})
    messages: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        deadline = time.monotonic() + limit_s * PATIENCE
        while not enough(messages):
            assert time.monotonic() < deadline, f"{len(messages)} records of {topic} were not enough"
            messages += [m for m in consumer.consume(1_000, timeout=0.2) if m.error() is None]
    finally:
        consumer.close()
    return messages


def decoded(messages: list[Message]) -> list[tuple[str, dict[str, Any]]]:
    """(event, record) in the order of the partitions."""
    schemas = SchemaSet.load()
    return [schemas.decode(bytes(message.value() or b"")) for message in messages]
