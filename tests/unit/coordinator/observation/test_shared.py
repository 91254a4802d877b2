"""Looks that ask within a moment share requests, and none of them pays for another's trouble."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.client import NO_END, Ends, MetadataRead, OffsetsError, SharedReader
from bellwether_kafka.coordinator.kafka.wire import FetchedOffsets, Transport, TransportError
from bellwether_kafka.coordinator.membership import (
    Code,
    CoordinatorAnswer,
    DescribeAnswer,
    Failure,
    FindCoordinator,
    Node,
    RequestFailed,
)
from bellwether_kafka.coordinator.observation import SharedGroups, SharedOffsets
from bellwether_kafka.coordinator.observation.shared import ends_of_topic
from bellwether_kafka.protocol.primitives import TopicPartition

GROUPS_MAX = 50
PARTITIONS_MAX = 10_000

T = TypeVar("T")
FIRST, SECOND = Node(1, "a", 9092), Node(2, "b", 9092)


class Brokers:
    """Two nodes in the transport's place. Groups with an even length of name are on the first; `offsets` are log ends
    by topic; what is in `fails` is answered with that."""

    def __init__(self, version: tuple[int, ...] = (4, 0)) -> None:
        self.broker_version = version
        self.asked: list[Any] = []
        self.coordinators_found: list[str] = []
        self.fails: dict[Any, TransportError] = {}
        self.errors: dict[str, int] = {}
        self.ends: dict[str, Mapping[int, tuple[int, int]]] = {}
        self.unreadable: set[str] = set()

    async def request(self, command: FindCoordinator) -> CoordinatorAnswer | RequestFailed:
        self.coordinators_found.append(command.group_id)
        if command.group_id == "unfound":
            return CoordinatorAnswer(0, Code.COORDINATOR_NOT_AVAILABLE)
        return CoordinatorAnswer(0, 0, FIRST if len(command.group_id) % 2 == 0 else SECOND)

    async def ask(self, request: Any) -> Any:
        self.asked.append(request)
        if request.node in self.fails:
            raise self.fails[request.node]
        match request:
            case wire.LatestOffsets():
                return {t: {p: self.ends[t][p] for p in partitions} for t, partitions in request.partitions.items()}
            case wire.FetchOffsetsOfMany():
                groups = request.groups.items()
                return {g: FetchedOffsets({t: [7] * n for t, n in topics.items()}) for g, topics in groups}
        if self.unreadable & {*request.group_ids}:
            raise TransportError(Failure.MALFORMED, "unreadable")
        return {g: DescribeAnswer(0, self.errors.get(g, 0), "Stable") for g in request.group_ids if g != "left-out"}

    async def committed(self, group_id: str, topics: Mapping[str, int], _timeout_ms: int) -> FetchedOffsets:
        self.asked.append(group_id)
        if group_id == "bad":
            raise TransportError(Failure.DISCONNECTED, "gone")
        return FetchedOffsets({t: [7] * n for t, n in topics.items()})


def groups_of(brokers: Brokers) -> SharedGroups:
    return SharedGroups(cast("Transport", brokers))


def together(*work: Coroutine[Any, Any, T]) -> list[T | BaseException]:
    async def all_of() -> list[T | BaseException]:
        return await asyncio.gather(*work, return_exceptions=True)

    return asyncio.run(all_of())


def described(groups: SharedGroups, *names: str) -> list[Any]:
    return together(*(groups.describe_group(name) for name in names))


def test_groups_of_one_node_are_described_by_one_request_and_nodes_are_remembered() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    names = [f"group-{number}" for number in range(10, 10 + GROUPS_MAX + 1)]
    assert all(answer.state == "Stable" for answer in described(groups, *names, "even"))
    assert [(request.node, len(request.group_ids)) for request in brokers.asked] == [(FIRST, GROUPS_MAX), (FIRST, 2)]
    described(groups, *names)
    assert len(brokers.coordinators_found) == len(names) + 1


def test_a_group_that_a_node_has_listed_need_not_be_found() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    groups.learn(SECOND, ["even"])
    described(groups, "even")
    assert (brokers.coordinators_found, [request.node for request in brokers.asked]) == ([], [SECOND])


def test_a_node_that_is_silent_is_the_trouble_of_its_own_groups_only() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    brokers.fails[SECOND] = TransportError(Failure.TIMED_OUT, "no answer")
    there, silent, unfound = described(groups, "even", "odd", "unfound")
    assert (there.state, str(silent), unfound.error) == ("Stable", "no answer", Code.COORDINATOR_NOT_AVAILABLE)
    brokers.coordinators_found.clear()
    described(groups, "even", "odd")
    assert brokers.coordinators_found == ["odd"], "its coordinator node may be another one by now"


def test_a_group_that_has_moved_is_searched_again() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    brokers.errors["even"] = Code.NOT_COORDINATOR
    (answer,) = described(groups, "even")
    assert answer.error == Code.NOT_COORDINATOR
    described(groups, "even")
    assert brokers.coordinators_found == ["even", "even"]


def test_an_answer_that_cannot_be_read_spoils_no_other_group() -> None:
    brokers = Brokers()
    brokers.unreadable = {"oddly"}
    fine, broken, also = described(groups_of(brokers), "one", "oddly", "two")
    assert (fine.state, also.state, str(broken)) == ("Stable", "Stable", "unreadable")


def test_a_group_that_an_answer_leaves_out_is_reported_so() -> None:
    (left_out,) = described(groups_of(Brokers()), "left-out")
    assert str(left_out) == "the broker's answer leaves the group out"


def test_committed_offsets_of_several_groups_come_with_one_request() -> None:
    brokers = Brokers()
    groups = groups_of(brokers)
    answers = together(
        groups.committed("g1", {"t": 2}), groups.committed("g2", {"t": 1}), groups.committed("g1", {"u": 1})
    )
    assert answers == [FetchedOffsets({"t": [7, 7]}), FetchedOffsets({"t": [7]}), FetchedOffsets({"u": [7]})]
    (request,) = brokers.asked
    assert request.groups == {"g1": {"t": 2, "u": 1}, "g2": {"t": 1}}


def test_brokers_before_3_0_are_asked_for_the_offsets_of_one_group_at_a_time() -> None:
    brokers = Brokers((2, 8))
    groups = groups_of(brokers)
    fine, bad = together(groups.committed("good", {"t": 1}), groups.committed("bad", {"t": 1}))
    assert (fine, str(bad)) == (FetchedOffsets({"t": [7]}), "gone")
    assert brokers.asked == ["good", "bad"]


def test_brokers_that_cannot_take_several_groups_in_a_request_are_asked_for_one_at_a_time() -> None:
    brokers = Brokers()
    unsupported = TransportError(Failure.UNSUPPORTED, "OffsetFetch ends at version 7")
    brokers.fails = {FIRST: unsupported, SECOND: unsupported}
    groups = groups_of(brokers)
    assert together(groups.committed("good", {"t": 1})) == [FetchedOffsets({"t": [7]})]
    assert together(groups.committed("other", {"t": 2})) == [FetchedOffsets({"t": [7, 7]})]
    assert brokers.asked[1:] == ["good", "other"]  # not tried again


class Reader:
    """Topics whose partitions are led by the nodes in turn."""

    admin = None

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.expired: list[str] = []

    async def nodes(self) -> tuple[Node, ...]:
        return FIRST, SECOND

    async def read(self, topics: Sequence[str]) -> MetadataRead:
        there = tuple(sorted(topic for topic in topics if topic in self.counts))
        counts = [self.counts[topic] for topic in there]
        codes = np.concatenate([np.arange(n, dtype=np.int32) % 2 for n in counts] or [np.zeros(0, dtype=np.int32)])
        placements = [(1, (1,)), (2, (2,))]
        return MetadataRead(there, np.array(counts), codes, placements, {}, frozenset({1, 2}), 0.0)

    def expire(self, topics: Any) -> None:
        self.expired += sorted(topics)


def ends_of(brokers: Brokers, reader: Reader, *asked: Mapping[str, int]) -> list[Any]:
    groups = groups_of(brokers)
    offsets = SharedOffsets(cast("SharedReader", reader), cast("Transport", brokers), groups)
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
    offsets = SharedOffsets(cast("SharedReader", reader), cast("Transport", brokers), groups_of(brokers))
    both = together(
        offsets.known_starts({"t": 2}, 5.0), offsets.known_starts({"t": 1}, 5.0), offsets.ends({"t": 1}, 5.0)
    )
    assert [each.offsets["t"].tolist() for each in both[:2] if isinstance(each, Ends)] == [[10, NO_END], [10]]
    asked = sorted((r.node.node_id, r.place.name, dict(r.partitions)["t"]) for r in brokers.asked)
    assert asked == [(1, "END", [0]), (1, "START", [0]), (2, "START", [1])]


def test_a_topic_that_is_gone_leaves_other_groups_their_ends() -> None:
    brokers, reader = Brokers(), Reader(t=2, deleted=2)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}, "deleted": {0: (3, -1), 1: (3, -1)}}
    fine, gone, unknown = ends_of(brokers, reader, {"t": 2}, {"t": 1, "deleted": 2}, {"never": 1})
    assert fine == {"t": [10, 11]}
    assert (type(gone), str(gone)) == (OffsetsError, "end offset of deleted-0: the topic does not exist any more")
    assert str(unknown) == "end offset of never-0: no broker leads the partition, or its leader does not answer"
    assert sorted(reader.expired) == ["deleted", "never"], "the next look asks who leads them now"


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
    offsets = SharedOffsets(cast("SharedReader", reader), cast("Transport", brokers), groups_of(brokers))
    together(offsets.known_ends({"t": 2}, 5.0))
    brokers.fails[SECOND], reader.now = TransportError(Failure.TIMED_OUT, "no answer"), Node(2, "replacement", 9092)
    (missing,) = together(offsets.known_ends({"t": 2}, 5.0))
    (whole,) = together(offsets.known_ends({"t": 2}, 5.0))
    assert isinstance(missing, Ends)
    assert isinstance(whole, Ends)
    assert (missing.offsets["t"].tolist(), whole.offsets["t"].tolist()) == ([10, NO_END], [10, 11])


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


def test_an_error_of_bellwether_reaches_everybody_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Callable[..., Any]:
        raise ZeroDivisionError

    groups = groups_of(Brokers())
    monkeypatch.setattr(wire, "DescribeMany", broken)
    assert [type(error) for error in described(groups, "a", "b")] == [ZeroDivisionError, ZeroDivisionError]


class SilentNode(Brokers):
    """The second node never answers."""

    async def ask(self, request: Any) -> Any:
        if request.node == SECOND:
            await asyncio.Event().wait()
        return await super().ask(request)


async def first_of(healthy: Coroutine[Any, Any, T], *silent: Coroutine[Any, Any, object]) -> T:
    """The answer for a group whose broker answers, while others of the same batch wait for one that does not."""

    async def scenario() -> T:
        waiting = [asyncio.create_task(each) for each in silent]
        answer = await healthy
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        return answer

    return await asyncio.wait_for(scenario(), 30)


async def test_a_group_is_described_and_its_offsets_fetched_while_the_node_of_others_is_silent() -> None:
    groups = groups_of(SilentNode())
    assert (await first_of(groups.describe_group("even"), groups.describe_group("odd"))).state == "Stable"
    groups = groups_of(SilentNode())
    fetched = await first_of(groups.committed("even", {"t": 1}), groups.committed("odd", {"t": 1}))
    assert fetched.offsets == {"t": [7]}


async def test_log_ends_are_known_while_the_leader_of_other_topics_is_silent() -> None:
    brokers, reader = SilentNode(), Reader(t=2, u=1)
    brokers.ends = {"t": {0: (0, 10), 1: (0, 11)}, "u": {0: (0, 5)}}
    offsets = SharedOffsets(cast("SharedReader", reader), cast("Transport", brokers), groups_of(brokers))
    assert (await first_of(offsets.ends({"u": 1}, 60.0), offsets.ends({"t": 2}, 60.0)))["u"].tolist() == [5]


async def test_a_node_that_is_searched_for_in_vain_delays_no_group_whose_node_is_known() -> None:
    class Unfindable(Brokers):
        async def request(self, command: FindCoordinator) -> Any:
            await asyncio.Event().wait()

    groups = groups_of(Unfindable())
    groups.learn(FIRST, ["even"])
    assert (await first_of(groups.describe_group("even"), groups.describe_group("odd"))).state == "Stable"
