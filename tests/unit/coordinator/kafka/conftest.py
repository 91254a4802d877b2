"""A token endpoint for each test."""

from collections.abc import Iterator

import pytest

from tests.unit.coordinator.kafka.token_endpoint import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()
