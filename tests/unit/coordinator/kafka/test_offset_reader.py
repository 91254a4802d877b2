"""End offsets and committed offsets, read from embedded brokers: values, ages, failures that are sentences."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse

from bellwether_kafka.coordinator.kafka.client import ClusterReader, OffsetReader
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, FetchedOffsets, LogPlace, TransportError
from bellwether_kafka.coordinator.kafka.wire.node_requests import FetchOffsets, FindAnyOffset
from bellwether_kafka.coordinator.membership import Failure, Node
from bellwether_kafka.protocol.primitives import TopicPartition as PrimitivePartition
from tests.kit.brokers import EmbeddedCluster, EmbeddedTransport

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
    reader = OffsetReader(cluster.admin, Groups())
    yield reader
    reader.close()
    cluster.close()


class Groups:
    """Answers in the transport's place for a group that has committed 42 for the last partition of everything."""

    def __init__(self, error: int = 0, trouble: Exception | None = None) -> None:
        self.error = error
        self.trouble = trouble

    async def committed(self, group_id: str, topics: Mapping[str, int], timeout_ms: int = 5_000) -> FetchedOffsets:
        if self.trouble is not None:
            raise self.trouble
        at = "input-0" if self.error else ""
        return FetchedOffsets({t: [-1] * (n - 1) + [42] for t, n in topics.items()}, self.error, at)


async def test_the_transport_fetches_committed_offsets(brokers: EmbeddedCluster) -> None:
    async def fetch() -> FetchedOffsets:
        transport = EmbeddedTransport(brokers.properties)
        await transport.start()
        try:
            return await transport.committed("app", {"input": 2, "store": 1})
        finally:
            await transport.close()

    assert await run(fetch()) == FetchedOffsets({"input": [-1, 42], "store": [-1]})


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (Groups(error=30), "committed offsets of app: GROUP_AUTHORIZATION_FAILED for input-0"),
        (Groups(trouble=TransportError(Failure.DISCONNECTED, "gone")), "committed offsets of app: gone"),
        (Groups(trouble=TimeoutError()), "committed offsets of app: no answer in time"),
    ],
)
async def test_trouble_with_the_group_is_a_sentence(brokers: EmbeddedCluster, groups: Groups, message: str) -> None:
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap})
    reader = OffsetReader(cluster.admin, groups)
    ends = await run(reader.end_offsets("app", {}, {"input": 1}, 1.0))
    assert ends.failure == message
    reader.close()
    cluster.close()


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_in_every_version(version: int) -> None:
    command = FetchOffsets(Node(1, "b", 1), "app", {"input": 2}, 1_000)
    asked = OffsetFetchRequest.decode(command.message().encode(version=version), version=version)
    group = asked.groups[0] if version >= 8 else asked
    assert (group.group_id, group.topics[0].name, list(group.topics[0].partition_indexes)) == ("app", "input", [0, 1])
    top, nested = OffsetFetchResponse, OffsetFetchResponse.OffsetFetchResponseGroup
    for error, expected in (
        (0, FetchedOffsets({"input": [-1, 42]})),
        (3, FetchedOffsets({"input": [-1, -1]}, 3, "input-1")),
    ):
        fields = {"partition_index": 1, "committed_offset": 42, "metadata": "", "error_code": error}
        old = top.OffsetFetchResponseTopic
        new = nested.OffsetFetchResponseTopics
        sent = top(
            topics=[old(name="input", partitions=[old.OffsetFetchResponsePartition(**fields)])],
            groups=[
                nested(
                    group_id="app",
                    topics=[new(name="input", partitions=[new.OffsetFetchResponsePartitions(**fields)])],
                )
            ],
        )
        assert command.answer(top.decode(sent.encode(version=version), version=version)) == expected


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize(
    ("offsets", "error", "expected"),
    [
        ((), 0, AnyCommitted(False)),
        ((-1,), 0, AnyCommitted(False)),
        ((-1, 42), 0, AnyCommitted(True, 0, ("input",), {"input": [-1, 42]})),
        ((), 16, AnyCommitted(False, 16)),
    ],
)
def test_whether_anything_is_committed_in_every_version(
    version: int, offsets: tuple[int, ...], error: int, expected: AnyCommitted
) -> None:
    command = FindAnyOffset(Node(1, "b", 1), "app", 1_000)
    asked = OffsetFetchRequest.decode(command.message().encode(version=version), version=version)
    group = asked.groups[0] if version >= 8 else asked
    assert (group.group_id, group.topics) == ("app", None)
    top, nested = OffsetFetchResponse, OffsetFetchResponse.OffsetFetchResponseGroup
    old, new = top.OffsetFetchResponseTopic, nested.OffsetFetchResponseTopics
    rows = [
        {"partition_index": n, "committed_offset": offset, "metadata": "", "error_code": 0}
        for n, offset in enumerate(offsets)
    ]
    of_group = [new(name="input", partitions=[new.OffsetFetchResponsePartitions(**row) for row in rows])]
    sent = top(
        topics=[old(name="input", partitions=[old.OffsetFetchResponsePartition(**row) for row in rows])],
        error_code=error,
        groups=[nested(group_id="app", topics=of_group, error_code=error)],
    )
    assert command.answer(top.decode(sent.encode(version=version), version=version)) == expected


async def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return await asyncio.wait_for(work, 30)


async def test_ends_and_committed_offsets_by_topic(reader: OffsetReader) -> None:
    assert (await run(reader.ends({"store": 3}, 10.0)))["store"].tolist() == [5, 0, 7]
    assert (await run(reader.committed("app", {"input": 2}, 10.0)))["input"].tolist() == [-1, 42]
    assert await run(reader.ends({}, 10.0)) == {}


async def test_a_source_changelog_ends_at_its_committed_offsets(reader: OffsetReader) -> None:
    end_offsets_read = await run(reader.end_offsets("app", {"store": 3}, {"input": 2}, 10.0))
    assert end_offsets_read.failure is None
    assert end_offsets_read.read_at_ms > 1_600_000_000_000
    assert {topic: ends.tolist() for topic, ends in end_offsets_read.ends.items()} == {
        "store": [5, 0, 7],
        "input": [0, 42],
    }


async def test_a_topic_that_is_not_there_is_a_failure_that_names_it(reader: OffsetReader) -> None:
    ends = await run(reader.end_offsets("app", {"nowhere": 1}, {}, 5.0))
    assert ends.failure is not None
    assert "end offset of nowhere-0" in ends.failure


async def test_silence_is_a_failure_within_the_limit() -> None:
    cluster = ClusterReader({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    reader = OffsetReader(cluster.admin, Groups())
    ends = await run(reader.end_offsets("app", {"store": 1}, {}, 0.5))
    assert ends.failure is not None
    reader.close()
    cluster.close()


async def test_a_cancellation_that_comes_just_after_the_answer_counts(reader: OffsetReader) -> None:
    """Ctrl-C of a watch was lost now and then: it went on, and a second one was needed."""

    async def cancelled() -> None:
        reading = asyncio.create_task(reader.listed({"store": 3}, LogPlace.END, 10.0))
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - the thread hands its answer over meanwhile
        asyncio.get_running_loop().call_soon(reading.cancel)
        with pytest.raises(asyncio.CancelledError):
            await reading

    await run(cancelled())


async def test_ends_are_as_young_as_the_reports_that_they_are_compared_with(brokers: EmbeddedCluster) -> None:
    """Rebalances may follow one another within a tenth of a second; an end from before the last one makes standbys that
    are ahead of it count as lost."""
    now = [100.0]
    cluster = ClusterReader({"bootstrap.servers": brokers.bootstrap, "log_level": "0"})
    reader = OffsetReader(cluster.admin, Groups(), wall_clock=lambda: now[0])

    async def reads() -> list[int]:
        ends = []
        for later in (0.0, 0.25, 0.5):
            now[0] += later
            ends.append((await reader.end_offsets("app", {"store": 3}, {}, 10.0)).read_at_ms)
        return ends

    assert await run(reads()) == [100_000, 100_250, 100_750]
    reader.close()
    cluster.close()


class Silent:
    """In the admin client's place: answers for all topics but `silent`, whose leader is dead."""

    def list_offsets(self, wanted: Mapping[TopicPartition, object], **_: object) -> dict[TopicPartition, Future[Any]]:
        answers = {partition: Future[Any]() for partition in wanted}
        for partition, answer in answers.items():
            if partition.topic != "silent":
                answer.set_result(SimpleNamespace(offset=7))
        return answers


async def test_a_dead_leader_delays_the_ends_of_its_own_topics_and_of_no_others() -> None:
    """A thread waited for it meanwhile, so healthy applications had no lags, and after four rebalances no leader."""

    async def scenario() -> None:
        reader = OffsetReader(cast("AdminClient", Silent()), Groups())
        waiting = [asyncio.create_task(reader.known_ends({"silent": 1, "t": 2}, 60.0)) for _ in range(40)]
        await asyncio.sleep(0)
        assert (await reader.ends({"healthy": 2}, 60.0))["healthy"].tolist() == [7, 7]
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        reader.close()

    await run(scenario())


async def test_the_ends_of_other_partitions_are_known_when_time_is_up() -> None:
    reader = OffsetReader(cast("AdminClient", Silent()), Groups())
    ends = await run(reader.known_ends({"silent": 1, "t": 2}, 0.0))
    assert ends.offsets["t"].tolist() == [7, 7]
    assert dict(ends.unknown) == {PrimitivePartition("silent", 0): "no answer in time"}
    reader.close()
