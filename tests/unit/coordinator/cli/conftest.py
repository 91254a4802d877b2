"""Groups that a test states, and embedded brokers with the topics that commands read."""

from collections.abc import Iterator

import pytest

from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import ShownGroups


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 3)
        for topic in ("bellwether-control", "bellwether.weights", "bellwether.events"):
            cluster.create_topic(topic, 1)
        yield cluster


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> ShownGroups:
    return ShownGroups(monkeypatch)
