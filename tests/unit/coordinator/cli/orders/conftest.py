"""Embedded brokers, and a control topic of its own for each test."""

from collections.abc import Iterator

import pytest

from tests.kit.brokers import EmbeddedCluster
from tests.unit.coordinator.cli.orders.channel import Channel


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def channel(brokers: EmbeddedCluster, request: pytest.FixtureRequest) -> Channel:
    topic = f"desk-{abs(hash(request.node.name))}"
    brokers.create_topic(topic, 1)
    return Channel(brokers, topic)
