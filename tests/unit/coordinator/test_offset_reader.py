"""End offsets and committed offsets, read from embedded brokers: values, ages, failures that are sentences."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coordinator.cluster import ClusterReader
from coordinator.embedded import EmbeddedCluster
from coordinator.offset_reader import OffsetReader, OffsetsError

pytestmark = pytest.mark.embedded
Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("store", 3)
        cluster.create_topic("input", 2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for partition, records in ((0, 5), (2, 7)):
            for _ in range(records):
                producer.produce("store", b"x", partition=partition)
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "app", "log_level": 0})
        consumer.commit(offsets=[TopicPartition("input", 1, 42)], asynchronous=False)
        consumer.close()
        yield cluster


@pytest.fixture
def reader(brokers: EmbeddedCluster) -> Iterator[OffsetReader]:
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    reader = OffsetReader(cluster.admin)
    yield reader
    reader.close()
    cluster.close()


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    async def bounded() -> Answer:
        return await asyncio.wait_for(work, 30)

    return asyncio.run(bounded())


def test_ends_and_committed_offsets_by_topic(reader: OffsetReader) -> None:
    assert run(reader.ends({"store": 3}, 10.0))["store"].tolist() == [5, 0, 7]
    assert run(reader.committed("app", {"input": 2}, 10.0))["input"].tolist() == [-1, 42]
    assert run(reader.ends({}, 10.0)) == {}


def test_a_source_changelog_ends_at_its_committed_offsets(reader: OffsetReader) -> None:
    found = run(reader.end_offsets("app", {"store": 3}, {"input": 2}, 10.0))
    assert found.failure is None
    assert found.read_at_ms > 1_600_000_000_000
    assert {topic: ends.tolist() for topic, ends in found.ends.items()} == {"store": [5, 0, 7], "input": [0, 42]}


def test_a_topic_that_is_not_there_is_a_failure_that_names_it(reader: OffsetReader) -> None:
    found = run(reader.end_offsets("app", {"nowhere": 1}, {}, 5.0))
    assert found.failure is not None
    assert "end offset of nowhere-0" in found.failure


def test_silence_is_a_failure_within_the_limit() -> None:
    cluster = ClusterReader({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    reader = OffsetReader(cluster.admin)
    found = run(reader.end_offsets("app", {"store": 1}, {}, 0.5))
    assert found.failure is not None
    with pytest.raises(OffsetsError, match="committed offsets of app"):
        run(reader.committed("app", {"input": 1}, 0.5))
    reader.close()
    cluster.close()


def test_a_young_read_is_used_again(brokers: EmbeddedCluster) -> None:
    now = [100.0]
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    reader = OffsetReader(cluster.admin, clock=lambda: now[0], wall_clock=lambda: now[0])

    async def reads() -> list[int]:
        found = []
        for later in (0.0, 0.5, 0.6):
            now[0] += later
            found.append((await reader.end_offsets("app", {"store": 3}, {}, 10.0, 1_000)).read_at_ms)
        return found

    assert run(reads()) == [100_000, 100_000, 101_100]
    reader.close()
    cluster.close()
