"""End offsets and committed offsets, read from embedded brokers: values, ages, failures that are sentences."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Committed
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse

from bellwether_kafka.coordinator.kafka.client import (
    NO_END,
    ClusterReader,
    Ends,
    MetadataRead,
    OffsetReader,
    OffsetsError,
)
from bellwether_kafka.coordinator.kafka.client.offset_reader import ends_of_topic
from bellwether_kafka.coordinator.kafka.wire import (
    AnyCommitted,
    FetchedOffsets,
    FetchOffsets,
    LatestOffsets,
    Transport,
    TransportError,
)
from bellwether_kafka.coordinator.kafka.wire.node_requests import FindAnyOffset
from bellwether_kafka.coordinator.membership import Failure, Node
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import EmbeddedCluster, EmbeddedTransport
from tests.kit.virtual_time import run_in_virtual_time
from tests.patience import PATIENCE

NOT_LEADER = 6

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
        consumer.commit(offsets=[Committed("input", 1, 42)], asynchronous=False)
        consumer.close()
        yield cluster


@asynccontextmanager
async def reading(brokers: EmbeddedCluster, groups: Any = None, **options: Any) -> AsyncIterator[OffsetReader]:
    cluster, transport = ClusterReader(brokers.properties), EmbeddedTransport(brokers.properties)
    await transport.start()
    try:
        yield OffsetReader(cluster, transport, groups or Groups(), **options)
    finally:
        await transport.close()
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


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (Groups(error=30), "committed offsets of app: GROUP_AUTHORIZATION_FAILED for input-0"),
        (Groups(trouble=TransportError(Failure.DISCONNECTED, "gone")), "committed offsets of app: gone"),
        (Groups(trouble=TimeoutError()), "committed offsets of app: no answer in time"),
    ],
)
async def test_trouble_with_the_group_is_a_sentence(groups: Groups, message: str) -> None:
    reader = OffsetReader(cast("ClusterReader", None), cast("Transport", None), groups)
    ends = await reader.end_offsets("app", {}, {"input": 1}, 1.0)
    assert ends.failure == message


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


async def test_ends_and_committed_offsets_by_topic(brokers: EmbeddedCluster) -> None:
    async with asyncio.timeout(60 * PATIENCE), reading(brokers) as reader:
        assert (await reader.ends({"store": 3}, 10.0))["store"].tolist() == [5, 0, 7]
        assert (await reader.committed("app", {"input": 2}, 10.0))["input"].tolist() == [-1, 42]
        assert await reader.ends({}, 10.0) == {}
        read = await reader.end_offsets("app", {"store": 3}, {"input": 2}, 10.0)
        assert read.failure is None
        assert read.read_at_ms > 1_600_000_000_000
        assert {topic: ends.tolist() for topic, ends in read.ends.items()} == {"store": [5, 0, 7], "input": [0, 42]}
        nowhere = await reader.end_offsets("app", {"nowhere": 1}, {}, 5.0)
        assert nowhere.failure == "end offset of nowhere-0: the topic does not exist any more"


async def test_ends_are_as_young_as_the_reports_that_they_are_compared_with(brokers: EmbeddedCluster) -> None:
    """Rebalances may follow one another within a tenth of a second; an end from before the last one makes standbys that
    are ahead of it count as lost."""
    now = [100.0]
    async with asyncio.timeout(60 * PATIENCE), reading(brokers, wall_clock=lambda: now[0]) as reader:
        ends = []
        for later in (0.0, 0.25, 0.5):
            now[0] += later
            ends.append((await reader.end_offsets("app", {"store": 3}, {}, 10.0)).read_at_ms)
    assert ends == [100_000, 100_250, 100_750]


async def test_silence_is_a_failure_within_the_limit() -> None:
    class Silent:
        async def read(self, _topics: object, _age_ms_max: int) -> None:
            await asyncio.Event().wait()

    ends = await OffsetReader(cast("Any", Silent()), cast("Any", None), Groups()).end_offsets("g", {"t": 1}, {}, 0.1)
    assert ends.failure == "offsets: no answer in time"


# ---- requests that are shared ----------------------------------------------------------------------------------------


FIRST, SECOND = Node(1, "a", 9092), Node(2, "b", 9092)
PARTITIONS_MAX = 10_000


class Brokers:
    """Two leaders in the transport's place. `ends` are log ends by topic; what is in `fails` is answered with that."""

    def __init__(self) -> None:
        self.asked: list[LatestOffsets] = []
        self.fails: dict[Node, TransportError] = {}
        self.silent: set[Node] = set()
        self.ends: dict[str, Mapping[int, tuple[int, int]]] = {}

    async def ask(self, request: Any) -> Any:
        self.asked.append(request)
        if request.node in self.silent:
            await asyncio.Event().wait()
        if request.node in self.fails:
            raise self.fails[request.node]
        return {t: {p: self.ends[t][p] for p in partitions} for t, partitions in request.partitions.items()}


def reader_of(brokers: Brokers, reader: "Reader") -> OffsetReader:
    return OffsetReader(cast("ClusterReader", reader), cast("Transport", brokers), Groups())


def together(*work: Coroutine[Any, Any, Answer]) -> list[Answer | BaseException]:
    async def all_of() -> list[Answer | BaseException]:
        return await asyncio.gather(*work, return_exceptions=True)

    return run_in_virtual_time(all_of())


class Reader:
    """Topics whose partitions are led by the nodes in turn."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.expired: list[str] = []

    async def nodes(self) -> tuple[Node, ...]:
        return FIRST, SECOND

    async def read(self, topics: Sequence[str], _age_ms_max: int) -> MetadataRead:
        there = tuple(sorted(topic for topic in topics if topic in self.counts))
        counts = [self.counts[topic] for topic in there]
        codes = np.concatenate([np.arange(n, dtype=np.int32) % 2 for n in counts] or [np.zeros(0, dtype=np.int32)])
        placements = [(1, (1,)), (2, (2,))]
        return MetadataRead(there, np.array(counts), codes, placements, {}, frozenset({1, 2}), 0.0)

    def expire(self, topics: Any) -> None:
        self.expired += sorted(topics)


def ends_of(brokers: Brokers, reader: Reader, *asked: Mapping[str, int]) -> list[Any]:
    offsets = reader_of(brokers, reader)
    answers = together(*(offsets.ends(topics, 5.0) for topics in asked))
    return [{t: o.tolist() for t, o in each.items()} if isinstance(each, dict) else each for each in answers]


def test_log_ends_are_asked_of_leaders_once_for_all_groups() -> None:
    brokers, reader = Brokers(), Reader(t=3, u=1)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11), 2: (0, 12)}, "u": {0: (0, 5)}}
    ends = ends_of(brokers, reader, {"t": 3}, {"t": 2, "u": 1}, {})
    assert ends == [{"t": [10, 11, 12]}, {"t": [10, 11], "u": [5]}, {}]
    assert [(r.node, dict(r.partitions)) for r in brokers.asked] == [
        (FIRST, {"t": [0, 2], "u": [0]}),
        (SECOND, {"t": [1]}),
    ]
    assert reader.expired == []


def test_log_starts_are_a_request_of_their_own_for_all_groups() -> None:
    brokers, reader = Brokers(), Reader(t=2)
    brokers.ends = {"t": {0: (0, 10), 1: (5, -1)}}
    offsets = reader_of(brokers, reader)
    both = together(
        offsets.known_starts({"t": 2}, 5.0), offsets.known_starts({"t": 1}, 5.0), offsets.ends({"t": 1}, 5.0)
    )
    assert [each.offsets["t"].tolist() for each in both[:2] if isinstance(each, Ends)] == [[10, NO_END], [10]]
    asked = {(r.node.node_id, r.place.name, tuple(r.partitions["t"])) for r in brokers.asked}
    assert asked == {(1, "END", (0,)), (1, "START", (0,)), (2, "START", (1,))}


def test_a_topic_that_is_gone_leaves_other_groups_their_ends() -> None:
    brokers, reader = Brokers(), Reader(t=2, deleted=2)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}, "deleted": {0: (3, -1), 1: (3, -1)}}
    fine, gone, unknown = ends_of(brokers, reader, {"t": 2}, {"t": 1, "deleted": 2}, {"never": 1})
    assert fine == {"t": [10, 11]}
    assert (type(gone), str(gone)) == (OffsetsError, "end offset of deleted-0: the topic does not exist any more")
    assert str(unknown) == "end offset of never-0: no broker leads the partition, or its leader does not answer"
    assert set(reader.expired) == {"deleted", "never"}, "the next look asks who leads them now"


def test_a_leader_that_is_silent_is_the_trouble_of_its_partitions_only() -> None:
    brokers, reader = Brokers(), Reader(t=2, u=1)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}, "u": {0: (0, 5)}}
    brokers.fails[SECOND] = TransportError(Failure.TIMED_OUT, "no answer")
    fine, silent = ends_of(brokers, reader, {"u": 1}, {"t": 2})
    assert (fine, str(silent)) == (
        {"u": [5]},
        "end offset of t-1: no broker leads the partition, or its leader does not answer",
    )


def test_a_broker_that_was_replaced_is_asked_at_its_new_address() -> None:
    class Replaced(Reader):
        now = SECOND

        async def nodes(self) -> tuple[Node, ...]:
            return FIRST, self.now

    brokers, reader = Brokers(), Replaced(t=2)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}}
    offsets = reader_of(brokers, reader)
    together(offsets.known_ends({"t": 2}, 5.0))
    brokers.fails[SECOND], reader.now = TransportError(Failure.TIMED_OUT, "no answer"), Node(2, "replacement", 9092)
    (whole,) = together(offsets.known_ends({"t": 2}, 5.0))
    assert isinstance(whole, Ends)
    assert whole.offsets["t"].tolist() == [10, 11]


def test_one_partition_without_a_leader_leaves_all_others_their_ends() -> None:
    orders = dict.fromkeys(range(12), (0, 1000)) | {7: (5, -1)}
    ends, unknown = ends_of_topic("orders", orders, 12)
    assert np.flatnonzero(ends == NO_END).tolist() == [7]
    assert unknown == {TopicPartition("orders", 7): "no broker leads the partition"}


def test_an_offset_below_zero_is_no_end() -> None:
    """librdkafka's -1001 for a partition without a leader stood on a page as an end."""
    ends, unknown = ends_of_topic("orders", {0: (0, -1001), 1: (0, 3)}, 2)
    assert ends.tolist() == [NO_END, 3]
    assert list(unknown) == [TopicPartition("orders", 0)]


def test_requests_are_bounded() -> None:
    brokers, reader = Brokers(), Reader(t=2 * PARTITIONS_MAX + 4, u=2)
    brokers.ends = {"t": {p: (0, p) for p in range(2 * PARTITIONS_MAX + 4)}, "u": {0: (0, 1), 1: (0, 2)}}
    (ends,) = ends_of(brokers, reader, dict(reader.counts))
    assert ends["t"] == list(range(2 * PARTITIONS_MAX + 4))
    assert max(sum(map(len, request.partitions.values())) for request in brokers.asked) == PARTITIONS_MAX


async def test_log_ends_are_known_while_the_leader_of_other_topics_is_silent() -> None:
    """A thread waited for it meanwhile, so healthy applications had no lags, and after four rebalances no leader."""
    brokers, reader = Brokers(), Reader(t=2, u=1)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}, "u": {0: (0, 5)}}
    brokers.silent = {SECOND}
    offsets = reader_of(brokers, reader)
    waiting = [asyncio.create_task(offsets.known_ends({"t": 2}, 60.0)) for _ in range(40)]
    await asyncio.sleep(0)
    assert (await offsets.ends({"u": 1}, 60.0))["u"].tolist() == [5]
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def test_the_ends_of_other_partitions_are_known_when_time_is_up() -> None:
    brokers, reader = Brokers(), Reader(t=2)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}}
    brokers.silent = {SECOND}
    (ends,) = together(reader_of(brokers, reader).known_ends({"t": 2}, 3.0))
    assert isinstance(ends, Ends)
    assert ends.offsets["t"].tolist() == [10, NO_END]
    assert dict(ends.unknown) == {TopicPartition("t", 1): "no answer in time"}


@pytest.mark.parametrize("error", [NOT_LEADER, None], ids=["its leader says so", "its leader is gone"])
def test_partitions_whose_leader_has_moved_are_asked_of_the_new_one_at_once(error: int | None) -> None:
    """A plan needs all ends; librdkafka asked again by itself."""
    brokers, reader = Brokers(), Reader(t=2)
    brokers.ends = {"t": {0: (0, 10), 1: (NOT_LEADER, -1)}}
    if error is None:
        brokers.fails[SECOND] = TransportError(Failure.DISCONNECTED, "gone")

    def expire(topics: Any) -> None:
        if "t" in topics:
            brokers.fails.clear()
            brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}}

    reader.expire = expire  # type: ignore[method-assign]  # the metadata that are read next are right
    (ends,) = together(reader_of(brokers, reader).ends({"t": 2}, 5.0))
    assert isinstance(ends, dict)
    assert ends["t"].tolist() == [10, 11]
