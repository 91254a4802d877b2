"""How the sizes of logs become weights: when they are read, and what follows where brokers report none."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import Failure
from bellwether_kafka.coordinator.observation import LagRefreshes, read_logs
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import FOLLOWER, LEADER, SILENT, AdminOfBrokers, AnsweringBrokers, Sizes
from tests.kit.observed import FakeReader

NO_ADMIN: Any = None


class LogsOfBrokers:
    """What brokers report of the sizes of logs, by partition of topic t."""

    def __init__(self) -> None:
        self.sizes: tuple[int, ...] = ()
        self.requests = 0

    async def __call__(self, _counts: Mapping[str, int]) -> Mapping[tuple[str, int], int]:
        self.requests += 1
        return {("t", partition): size for partition, size in enumerate(self.sizes)}


async def weighed(logs: LogsOfBrokers, *sizes: tuple[int, ...], apart_s: int = 30) -> LagRefreshes:
    """Reads a group at intervals in which 300 records are written to each of two partitions, with these log sizes."""
    now = [1_000.0]
    lags = LagRefreshes("g", clock=lambda: now[0], monotonic=lambda: now[0], compacted=lambda *_: {})
    for at, of_logs in enumerate(sizes):
        logs.sizes, ends = of_logs, {"t": [300 * at, 300 * at]}
        await lags.refresh(cast("Any", FakeReader(ends, ends)), NO_ADMIN, {"t": 2}, None, 1.0, logs=logs)
        now[0] += apart_s
    return lags


async def test_the_sizes_of_logs_make_weights_of_bytes_too() -> None:
    lags = await weighed(LogsOfBrokers(), (0, 0), (3_000, 9_000))
    assert lags.weights().of == {TopicPartition("t", 0): 7.5, TopicPartition("t", 1): 12.5}
    assert lags.weights().source == "records and bytes"


async def test_without_the_right_to_read_sizes_records_alone_are_weighed() -> None:
    lags = await weighed(LogsOfBrokers(), (), ())
    assert lags.weights().of == {TopicPartition("t", 0): 10.0, TopicPartition("t", 1): 10.0}
    assert lags.weights().source.startswith("records; no broker reports log sizes")


async def test_a_right_that_is_lost_leaves_what_is_known_for_an_hour() -> None:
    read = (0, 0), (3_000, 9_000)
    assert "bytes" in (await weighed(LogsOfBrokers(), *read, ())).weights().source
    lost = await weighed(LogsOfBrokers(), *read, *[()] * 3, apart_s=1_500)
    assert lost.weights().source.startswith("records; no broker reports log sizes")


async def test_sizes_are_read_rarely_once_some_are_known() -> None:
    logs = LogsOfBrokers()
    await weighed(logs, *[(0, 0)] * 30)
    assert logs.requests == 8, "six times half a minute apart, then every five minutes"


class FailingBrokers(LogsOfBrokers):
    """Brokers that do not answer the first requests."""

    def __init__(self, error: Exception, failures: int = 1_000) -> None:
        super().__init__()
        self.error, self.failures = error, failures

    async def __call__(self, counts: Mapping[str, int]) -> Mapping[tuple[str, int], int]:
        sizes = await super().__call__(counts)
        if self.requests <= self.failures:
            raise self.error
        return sizes


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "brokers did not report log sizes in time"),
        (TransportError(Failure.TIMED_OUT, "x"), "brokers did not report log sizes in time"),
        (TransportError(Failure.UNSUPPORTED, "x"), "not every broker has the request DescribeLogDirs"),
    ],
)
async def test_weights_without_sizes_name_why_brokers_did_not_report_them(error: Exception, reason: str) -> None:
    assert (await weighed(FailingBrokers(error), (), ())).weights().source == f"records; {reason}"


async def test_samples_without_sizes_do_not_count_as_the_first_few() -> None:
    logs = FailingBrokers(TimeoutError(), failures=5)
    await weighed(logs, *[(0, 0)] * 14)
    assert logs.requests == 5 + 6, "six with sizes half a minute apart, then none for five minutes"


async def test_brokers_that_never_report_sizes_are_asked_rarely() -> None:
    logs = FailingBrokers(TimeoutError())
    await weighed(logs, *[(0, 0)] * 30)
    assert logs.requests == 8, "six times half a minute apart, then every five minutes"


async def read(brokers: AdminOfBrokers, *answers: Sizes | TransportError) -> Mapping[tuple[str, int], int]:
    transport = AnsweringBrokers(*answers)
    try:
        return await read_logs(transport, cast("Any", brokers), {"t": 2})
    finally:
        await transport.close()


@pytest.mark.parametrize("answer", [SILENT, LEADER], ids=["silent", "down"])
async def test_a_broker_that_is_down_leaves_the_sizes_of_the_replicas_of_others(answer: Sizes | TransportError) -> None:
    """They were all unknown, for as long as the broker was away."""
    down = [1] if answer is LEADER else []
    assert await read(AdminOfBrokers(2, down=down), FOLLOWER, answer) == FOLLOWER
    assert await read(AdminOfBrokers(2), FOLLOWER, LEADER) == LEADER


async def test_a_replica_that_lags_behind_does_not_count() -> None:
    """The leader's log of the next sample would look like written bytes."""
    assert await read(AdminOfBrokers(2, behind=[0]), FOLLOWER, LEADER) == LEADER
    with pytest.raises(TimeoutError, match="no broker with an in-sync replica is up"):
        await read(AdminOfBrokers(2, down=[1], behind=[0]), FOLLOWER, LEADER)


def test_a_partition_whose_size_is_unknown_for_a_while_keeps_its_weight() -> None:
    """It is not weighed as if its records had no bytes."""
    whole, part = [(0, 0), (3_000, 9_000)], [(6_000,), (9_000,)]
    before, after = (asyncio.run(weighed(LogsOfBrokers(), *sizes)).weights() for sizes in (whole, [*whole, *part]))
    assert after.source == "records and bytes"
    assert after.of == pytest.approx(before.of)
