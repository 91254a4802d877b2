"""pyspark leaves sockets of collected results to the garbage collector, which pytest would count as leaks of
Bellwether.

So they are collected where they are expected, before another test sees them.
"""

import gc
from collections.abc import Iterator

import pytest

SPARK_MODULES = (
    "test_observed_groups",
    "test_tables",
    "test_jobs",
    "test_stream",
    "test_bad_input",
    "test_evolution",
    "test_registry_live",
    "test_weights_live",
)
IGNORED = (
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in SPARK_MODULES:
            for ignored in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.path.stem in SPARK_MODULES:
        gc.collect()
