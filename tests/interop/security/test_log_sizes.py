"""Weights of `load-aware` on a broker that asks for rights: bytes count with DESCRIBE on the cluster, else records."""

import asyncio
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclOperation,
    ResourceType,
)

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka.client import ClusterReader, OffsetReader
from bellwether_kafka.coordinator.kafka.wire import Transport
from bellwether_kafka.coordinator.observation import LagRefreshes, read_logs
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.security.rights import grant

pytestmark = pytest.mark.broker

TOPIC, GROUP, USER = "sized", "sized-group", "bellwether"
SMALL, LARGE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
RECORDS, BYTES = 500, {0: 100, 1: 1_000}
LIMIT_S, APART_S = 10.0, 30.0


@pytest.fixture
def sized(secured_kafka: KafkaCluster) -> KafkaCluster:
    secured_kafka.create_topic(TOPIC, len(BYTES))
    for resource, name in ((ResourceType.TOPIC, TOPIC), (ResourceType.GROUP, GROUP)):
        grant(secured_kafka, USER, AclOperation.DESCRIBE, resource, name)
    return secured_kafka


async def weights(cluster: KafkaCluster) -> Weights:
    """Returns the weights after two refreshes, between which equally many records of two sizes are written."""
    login = {k: v for k, v in cluster.client_config(USER, USER).items() if k != "log_level"}
    reader_of_cluster, transport, now = ClusterReader(login), Transport(login), [1_000.0]
    offsets, admin = OffsetReader(reader_of_cluster, transport, Describer(transport)), reader_of_cluster.admin
    lags = LagRefreshes(GROUP, clock=lambda: now[0], monotonic=lambda: now[0], compacted=lambda *_: {})
    await transport.start(10_000)
    try:
        for _ in range(2):
            logs = partial(read_logs, transport, admin)
            await lags.refresh(offsets, admin, {TOPIC: len(BYTES)}, None, LIMIT_S, logs=logs)
            now[0] += APART_S
            await asyncio.to_thread(write, cluster)
        return lags.weights()
    finally:
        reader_of_cluster.close()
        await transport.close()


def write(cluster: KafkaCluster) -> None:
    producer = Producer({**cluster.client_config("admin", "admin"), "linger.ms": 50})
    for partition, size in BYTES.items():
        for _ in range(RECORDS):
            producer.produce(TOPIC, b"x" * size, partition=partition)
    assert producer.flush(30) == 0


def test_records_count_without_the_right_and_bytes_with_it(sized: KafkaCluster) -> None:
    without = asyncio.run(weights(sized))
    assert without.of[SMALL] == without.of[LARGE] > 0
    assert without.source.startswith("records; no broker reports log sizes")
    grant(sized, USER, AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster")
    allowed = asyncio.run(weights(sized))
    assert allowed.source == "records and bytes"
    per_record = allowed.of[LARGE] / allowed.of[SMALL]
    assert per_record == pytest.approx((0.5 + 0.5 * 1_010 / 560) / (0.5 + 0.5 * 110 / 560), rel=0.03)
