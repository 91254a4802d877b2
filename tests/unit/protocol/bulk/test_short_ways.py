"""What current Streams clients send is never handed to the plain reader, and what is alike is parsed once."""

from collections.abc import Callable
from typing import Any

import pytest

from bellwether_kafka.protocol.bulk import (
    read_assigned,
    read_infos,
    streams_assignments,
    streams_subscriptions,
)
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
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
