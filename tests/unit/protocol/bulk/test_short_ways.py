"""The bulk readers are worth having for their speed: what is alike is parsed once, and what current clients send is
never handed to the plain reader."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from bellwether_kafka.protocol.bulk import (
    columns,
    consumer_subscriptions,
    lists,
    read_assigned,
    read_assignments,
    read_infos,
    read_subscriptions,
    streams_assignments,
    streams_subscriptions,
)
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[object]]:
    """Counts the calls of a function from then on."""

    def watch(owner: Any, name: str) -> list[object]:
        seen: list[object] = []
        real = getattr(owner, name)

        def counted(*arguments: object) -> object:
            seen.append(arguments)
            return real(*arguments)

        monkeypatch.setattr(owner, name, counted)
        return seen

    return watch


def subscribed(topics: int, user_data: bytes | None = None) -> bytes:
    return ConsumerProtocolSubscription(1, tuple(f"topic-{topics}-{i:03}" for i in range(topics)), user_data).encode()


def test_a_list_of_topics_that_many_share_is_parsed_once(calls: Callable[[Any, str], list[object]]) -> None:
    blobs = [subscribed(4 + m % 3, b"%d" % m) for m in range(60)]
    parsed = calls(columns, "_parse_topics")
    assert read_subscriptions(blobs).topic_list.tolist() == [0, 1, 2] * 20
    assert len(parsed) == 3


def test_a_list_of_topics_that_few_share_is_parsed_once_as_well(calls: Callable[[Any, str], list[object]]) -> None:
    blobs = [subscribed(4 + m % 20, b"%d" % m) for m in range(60)]
    parsed = calls(columns, "_parse_topics")
    assert read_subscriptions(blobs).topic_list.tolist() == [*range(20)] * 3
    assert len(parsed) == 20


def test_a_member_that_cannot_be_read_does_not_make_all_others_slow(calls: Callable[[Any, str], list[object]]) -> None:
    blobs = [b"\xff" * 20, *[subscribed(3, b"%d" % m) for m in range(60)]]
    parsed = calls(columns, "_parse_topics")
    assert read_subscriptions(blobs).errors.keys() == {0}
    assert len(parsed) == 2


def assignment(random: Random, shape: tuple[tuple[str, int], ...]) -> bytes:
    owned = tuple(TopicPartition(topic, random.randrange(1 << 31)) for topic, items in shape for _ in range(items))
    return ConsumerProtocolAssignment(1, owned).encode()


@pytest.mark.parametrize("shapes", [1, 2, 3, 4])
def test_lists_that_differ_in_partitions_only_are_walked_once(
    shapes: int, calls: Callable[[Any, str], list[object]]
) -> None:
    random = Random(shapes)
    all_shapes = [(("orders", 2), ("t", 1 + n)) for n in range(shapes)]
    blobs = [assignment(random, all_shapes[m % shapes]) for m in range(100)]
    walked = calls(lists._Reader, "_walk_one")
    columns = read_assignments(blobs)
    assert not columns.errors
    assert len(walked) == shapes


def test_lists_that_have_little_in_common_are_walked_in_step(calls: Callable[[Any, str], list[object]]) -> None:
    random = Random(1)
    blobs = [assignment(random, tuple((f"t{m}-{i}", 2) for i in range(10))) for m in range(200)]
    walked = calls(lists._Reader, "_walk_one")
    assert not read_assignments(blobs).errors
    assert len(walked) <= 4  # one for each stencil that was tried


@pytest.mark.parametrize(("members", "expected"), [(11, 11), (12, 1)])
def test_few_lists_are_walked_one_by_one(
    members: int, expected: int, calls: Callable[[Any, str], list[object]]
) -> None:
    random = Random(1)
    blobs = [assignment(random, (("t", 2),)) for _ in range(members)]
    walked = calls(lists._Reader, "_walk_one")
    assert not read_assignments(blobs).errors
    assert len(walked) == expected


def test_members_that_send_the_same_bytes_are_read_as_one(calls: Callable[[Any, str], list[object]]) -> None:
    kinds = [subscribed(3), subscribed(4), ConsumerProtocolSubscription(3, ("t",), b"", (), 5, "az1").encode(), b"bad"]
    read = calls(consumer_subscriptions, "_read_distinct")
    columns = read_subscriptions(kinds * 8)
    ((distinct,),) = read
    assert distinct == kinds
    assert columns.topic_list.tolist() == [0, 1, 2, -1] * 8
    assert columns.version.tolist() == [1, 1, 3, -1] * 8
    assert columns.generation.tolist() == [-1, -1, 5, -1] * 8
    assert columns.rack == (None, None, "az1", None) * 8
    assert columns.user_data == [None, None, b"", None] * 8
    assert columns.errors.keys() == set(range(3, 32, 4))


@pytest.mark.parametrize("version", range(7, 12))
@pytest.mark.parametrize("sums", [(), ((TaskId(0, 1), -2), (TaskId(3, 0), 9))])
@pytest.mark.parametrize("end_point", [None, "host:9"])
def test_what_current_streams_clients_send_needs_no_plain_reader(
    version: int,
    sums: tuple[tuple[TaskId, int], ...],
    end_point: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tags = (("zone", "a"), ("rack", "")) if version == 11 else ()
    blobs = [
        SubscriptionInfo(version, latest, ProcessId(1, 2), end_point, sums, 1, 0, some).encode()
        for latest in (version, 12)
        for some in ((), tags, tags)
    ]
    monkeypatch.setattr(streams_subscriptions, "SubscriptionInfo", None)
    columns = read_infos(blobs)
    assert columns.latest.tolist() == [version] * 3 + [12] * 3
    assert columns.tags == ((), tags, tags) * 2
    assert columns.end_point == (end_point,) * 6
    assert columns.sum_value.tolist() == [value for _, value in sums] * 6


def test_what_is_beside_the_tasks_is_decoded_once_for_all(calls: Callable[[Any, str], list[object]]) -> None:
    blobs = [AssignmentInfo(active_tasks=(TaskId(0, m), TaskId(1, m))).encode() for m in range(20)]
    decoded = calls(streams_assignments, "_rest")
    assert not read_assigned(blobs).errors
    assert len(decoded) == 1


def test_standby_tasks_of_one_subtopology_have_one_form(calls: Callable[[Any, str], list[object]]) -> None:
    blobs = [
        AssignmentInfo(standby_tasks=tuple((TaskId(2, p), both(p)) for p in range(m, m + 5))).encode() for m in range(9)
    ]
    forms = calls(streams_assignments._Standbys, "_new_form")
    columns = read_assigned(blobs)
    assert len(forms) == 1
    assert columns.standby_partition.tolist() == [p for m in range(9) for p in range(m, m + 5)]
    assert columns.pair_partition.tolist() == [p for m in range(9) for p in range(m, m + 5) for _ in range(2)]


def both(partition: int) -> tuple[TopicPartition, ...]:
    return TopicPartition("orders", partition), TopicPartition("users", partition)
