import numpy as np
import pytest

from bellwether_kafka.protocol.bulk import read_assigned, read_infos
from bellwether_kafka.protocol.messages import AssignmentInfo, SubscriptionInfo
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition

PROCESS = ProcessId.of_bytes(bytes.fromhex("00112233445566778899aabbccddeeff"))
SUMS = ((TaskId(0, 1), -2), (TaskId(1, 2), 1000))
T1, T2, U9 = TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 9)


def info(version: int) -> SubscriptionInfo:
    tags = (("zone", "a1"),) if version >= 11 else ()
    latest = 11 if version > 2 else -1
    sums = SUMS if version >= 7 else ((TaskId(0, 1), -2), (TaskId(1, 2), -3))
    end_point = "h:9" if version >= 2 else None
    return SubscriptionInfo(version, latest, PROCESS, end_point, sums, 0, 4 if version >= 9 else 0, tags)


def test_versions_side_by_side() -> None:
    columns = read_infos([info(version).encode() for version in range(1, 12)])
    assert columns.errors == {}
    assert columns.version.tolist() == list(range(1, 12))
    assert set(columns.process) == {PROCESS}
    assert columns.error_code.tolist() == [0] * 8 + [4] * 3
    assert columns.tags[10] == (("zone", "a1"),)
    assert columns.sum_first.tolist() == list(range(0, 23, 2))
    assert columns.sum_subtopology.tolist() == [0, 1] * 11
    assert columns.sum_partition.tolist() == [1, 2] * 11
    assert columns.sum_value.tolist() == [-2, -3] * 6 + [-2, 1000] * 5


def test_a_named_topology_is_noticed_and_its_sums_are_right() -> None:
    named = SubscriptionInfo(task_offset_sums=((TaskId(2, 3, "top"), 5), (TaskId(4, 5), 6)))
    columns = read_infos([info(11).encode(), named.encode(), info(10).encode()])
    assert columns.named == {1}
    assert columns.sum_subtopology.tolist() == [0, 1, 2, 4, 0, 1]
    assert columns.sum_value.tolist() == [-2, 1000, 5, 6, -2, 1000]


@pytest.mark.parametrize("blob", [None, b"", b"\0" * 12, info(11).encode()[:-1], info(9).encode()[:40]])
def test_what_does_not_decode_is_an_error_of_that_member_only(blob: bytes | None) -> None:
    columns = read_infos([blob, info(11).encode()])
    assert list(columns.errors) == [0]
    assert columns.sum_first.tolist() == [0, 0, 2]
    assert columns.process == (None, PROCESS)


def test_the_future_has_a_version_and_nothing_else() -> None:
    columns = read_infos([(12).to_bytes(4) + (13).to_bytes(4) + b"anything"])
    assert (columns.version.tolist(), columns.latest.tolist(), columns.future.tolist()) == ([12], [13], [True])
    assert columns.process == (None,)


def test_nobody() -> None:
    assert read_infos([]).sum_first.tolist() == [0]
    assert read_assigned([]).active_first.tolist() == [0]


def assigned(version: int) -> AssignmentInfo:
    return AssignmentInfo(
        version,
        11 if version >= 3 else -1,
        (TaskId(0, 1), TaskId(0, 1)),
        ((TaskId(1, 2), (T2, U9)), (TaskId(1, 3), (TopicPartition("t", 3), TopicPartition("u", 3)))),
        ((HostInfo("h", 9), (T1,)),) if version >= 2 else (),
    )


@pytest.mark.parametrize("version", range(1, 12))
def test_assignments_of_every_version(version: int) -> None:
    columns = read_assigned([AssignmentInfo().encode(), assigned(version).encode()])
    assert columns.errors == {}
    assert columns.active_first.tolist() == [0, 0, 2]
    assert columns.active_subtopology.tolist() == [0, 0]
    assert columns.active_partition.tolist() == [1, 1]
    assert columns.standby_member.tolist() == [1, 1]
    assert columns.standby_partition.tolist() == [2, 3]
    names = [columns.topic_names[i] for i in columns.pair_topic]
    pairs = list(zip(columns.pair_standby.tolist(), names, columns.pair_partition.tolist(), strict=True))
    assert pairs == [(0, "t", 2), (0, "u", 9), (1, "t", 3), (1, "u", 3)]
    assert columns.rest[1] is not None
    assert columns.rest[1].partitions_by_host == assigned(version).partitions_by_host


def test_a_form_is_recognised_and_an_odd_entry_in_between_is_not_taken_for_it() -> None:
    standby = tuple((TaskId(1, p), (TopicPartition("t", p if p != 3 else 7),)) for p in range(6))
    columns = read_assigned([AssignmentInfo(standby_tasks=standby).encode()])
    assert columns.standby_partition.tolist() == [0, 1, 2, 3, 4, 5]
    assert columns.pair_partition.tolist() == [0, 1, 2, 7, 4, 5]


@pytest.mark.parametrize(
    "blob",
    [
        None,
        b"",
        (12).to_bytes(4) + bytes(40),
        AssignmentInfo().encode() + b"\0",
        AssignmentInfo().encode()[:-1],
        AssignmentInfo(active_tasks=(TaskId(0, 1, "top"),)).encode(),
        AssignmentInfo(standby_tasks=((TaskId(0, 1, "top"), (T1,)),)).encode(),
        assigned(11).encode()[:60],
    ],
)
def test_assignments_that_must_not_leave(blob: bytes | None) -> None:
    columns = read_assigned([blob, assigned(11).encode()])
    assert list(columns.errors) == [0]
    assert columns.standby_member.tolist() == [1, 1]
    assert np.diff(columns.active_first).tolist() == [0, 2]


def test_a_topic_that_is_no_text_is_an_error_as_it_is_for_the_plain_reader() -> None:
    standby = ((TaskId(0, 1), (TopicPartition("orders", 1),)),)
    blob = AssignmentInfo(standby_tasks=standby).encode()
    columns = read_assigned([blob, blob.replace(b"orders", b"order\xbf")])
    assert list(columns.errors) == [1]
    assert columns.standby_member.tolist() == [0]
