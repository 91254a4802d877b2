import struct

import pytest

from bellwether_kafka.protocol.bulk import read_infos
from bellwether_kafka.protocol.messages import SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TaskId

PROCESS = ProcessId.of_bytes(bytes.fromhex("00112233445566778899aabbccddeeff"))
SUMS = ((TaskId(0, 1), -2), (TaskId(1, 2), 1000))


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


def test_a_negative_number_of_sums_is_an_error() -> None:
    blob = info(7).encode()
    at = blob.index(struct.pack(">iii", 2, 0, 1))  # two subtopologies, the first one is 0 and has one partition
    negative = blob[: at + 8] + struct.pack(">i", -1) + blob[at + 12 :]
    with pytest.raises(RemoteProtocolError):
        SubscriptionInfo.decode(negative)
    assert read_infos([negative, info(7).encode()]).errors.keys() == {0}


def test_members_can_be_taken_out_as_if_they_had_not_been_read() -> None:
    named = SubscriptionInfo(task_offset_sums=((TaskId(3, 4, "top"), 5),), error_code=7)
    late = SubscriptionInfo(11, 12, error_code=4)
    blobs = [info(11).encode(), named.encode(), None, info(10).encode(), late.encode()]
    whole = read_infos(blobs)
    assert (whole.named, list(whole.errors), whole.error_code.tolist()) == ({1}, [2], [4, 7, 0, 4, 4])
    columns = whole.without({0: "not to be used", 1: "nor this"})
    assert columns.version.tolist() == [0, 0, 0, 10, 11]
    assert columns.latest.tolist() == [0, 0, 0, 11, 12]
    assert columns.process == (None, None, None, PROCESS, ProcessId(0, 0))
    assert columns.error_code.tolist() == [0, 0, 0, 4, 4]
    assert columns.errors == {0: "not to be used", 1: "nor this", 2: "userData is null"}
    assert columns.sum_first.tolist() == [0, 0, 0, 0, 2, 2]
    assert columns.sum_subtopology.tolist() == [0, 1]
    assert columns.sum_partition.tolist() == [1, 2]
    assert columns.sum_value.tolist() == [-2, 1_000]
    assert columns.named == frozenset()
