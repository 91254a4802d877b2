"""A 4.4 broker that asks the Bellwether whose socket is in a folder, for each test of applications."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import BROKER_44, MissingToolError, java
from tests.interop.support.scenes.served_tasks import asking_cluster, create_topics


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bellwether-assignor-") as name:
        yield Path(name)


@pytest.fixture
def broker(request: pytest.FixtureRequest, folder: Path) -> Iterator[KafkaCluster]:
    try:
        java(BROKER_44)
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    with asking_cluster(folder) as cluster:
        create_topics(cluster)
        yield cluster
