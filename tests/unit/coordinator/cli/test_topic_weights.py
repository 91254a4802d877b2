"""What commands read of the topic of weights."""

import asyncio
import time

import pytest
from confluent_kafka import Producer

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.cli import topic_weights
from bellwether_kafka.coordinator.cli.topic_weights import TopicWeights
from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry.weight_reader import key_of
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import EmbeddedCluster
from tests.kit.plans import weight_record

pytestmark = pytest.mark.embedded


def read_twice(brokers: EmbeddedCluster, topic: str) -> tuple[Weights, Weights]:
    weights = TopicWeights(brokers.properties, WeightSettings(topic=topic))

    async def twice() -> tuple[Weights, Weights]:
        return await weights.read(), await weights.read()

    try:
        return asyncio.run(twice())
    finally:
        weights.close()


def test_the_weights_in_the_topic_are_read(brokers: EmbeddedCluster) -> None:
    partition = TopicPartition("orders", 1)
    producer = Producer({"bootstrap.servers": brokers.bootstrap})
    producer.produce("bellwether.weights", weight_record(partition, 70.0, int(time.time() * 1000)), key_of(partition))
    producer.flush(30)
    first, second = read_twice(brokers, "bellwether.weights")
    assert first.of == second.of == {partition: 70.0}
    assert first.source == "the topic bellwether.weights"


def test_a_topic_that_does_not_exist_is_no_weights_and_a_warning(
    brokers: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not created, and the command goes on."""
    monkeypatch.setattr(topic_weights, "TIMEOUT_S", 20.0)
    brokers.set_topic_error("weights-of-none", 3)
    first, second = read_twice(brokers, "weights-of-none")
    assert first.of == second.of == {}
    warned = capsys.readouterr().err
    assert warned.count("Weights are left out: the topic weights-of-none cannot be read") == 1
