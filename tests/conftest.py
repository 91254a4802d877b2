"""Fixtures that tests of every directory share: above all, one real Kafka cluster per test session."""

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import loop_watchdog
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError, java
from tests.patience import PATIENCE
from tests.rings import (  # noqa: F401 - hooks
    pytest_addoption,
    pytest_pyfunc_call,
    pytest_runtest_call,
    pytest_runtest_protocol,
)

BROKER_FIXTURES = {"kafka", "secured_kafka"}
BROKER_TIMEOUT_S = 300
HANGS_S = 900.0  # no test takes longer on any machine, unless its own mark says so
CLUSTERS = pytest.StashKey[list[KafkaCluster]]()
SKIPPED = pytest.StashKey[set[str]]()

# Rings 0 and 1 try the same examples on each machine; `make night` looks for new ones. No machine is too slow for one.
EXAMPLES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", EXAMPLES, derandomize=True)
settings.register_profile("night", EXAMPLES, print_blob=True)
settings.load_profile("fixed")  # --hypothesis-profile is loaded later, but before the modules of tests are imported


def pytest_configure(config: pytest.Config) -> None:
    loop_watchdog.install()
    config.stash[CLUSTERS] = []
    config.stash[SKIPPED] = set()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and collected tests stay until the end: the garbage collector need not walk them again and again, which
    took a quarter of the time of collecting, and a sixth of that of ten thousand short tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests on real brokers are marked as such and get the time that fetching jars and starting nodes takes."""
    default = float(config.getini("timeout"))
    for item in items:
        if not BROKER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(BROKER_TIMEOUT_S))
        mark = item.get_closest_marker("timeout")
        thought_s = float(mark.args[0]) if mark is not None else default
        item.add_marker(pytest.mark.timeout(max(thought_s, min(thought_s * PATIENCE, HANGS_S))), append=False)


@pytest.fixture(autouse=True)
def _nothing_blocks_the_io_thread() -> Iterator[None]:
    """Fails the test in which the thread that sends heartbeats makes a call that may wait for another system."""
    yield
    blocking = loop_watchdog.taken()
    assert not blocking, "\n".join(blocking)


def missing_tool(config: pytest.Config, reason: str) -> None:
    """Skips, and says so at the end of the run; on CI a missing tool is a failure instead."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI=true and {reason}", pytrace=False)
    config.stash[SKIPPED].add(reason)
    pytest.skip(reason)


@pytest.fixture
def _in_the_foreground() -> Iterator[None]:
    """A shell starts a background process with SIGINT ignored, nohup one with SIGHUP; processes of the test, too."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three real brokers in racks az1, az2, az3, shared by the whole session: use names of your own."""
    yield from _cluster(request.config, KafkaCluster())


@pytest.fixture(scope="session")
def secured_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One real broker with SASL/PLAIN users and an authorizer that denies by default, shared as `kafka` is: grant
    rights on names of your own."""
    users = {"bellwether": "bellwether", "application": "application"}
    yield from _cluster(request.config, KafkaCluster(nodes=1, racks=("az1",), users=users))


def _cluster(config: pytest.Config, cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(config, f"{missing}: no real broker")
    with cluster:
        config.stash[CLUSTERS].append(cluster)
        try:
            yield cluster
        finally:
            config.stash[CLUSTERS].remove(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure on real brokers shows the end of their logs."""
    report = yield
    if report.failed and item.get_closest_marker("broker") is not None:
        for cluster in item.config.stash[CLUSTERS]:
            report.sections += [(f"log of {name}", tail) for name, tail in cluster.logs(3000).items()]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reasons = config.stash[SKIPPED]
    for reason in sorted(reasons):
        terminalreporter.write_line(f"NOT RUN: {reason}", yellow=True, bold=True)
