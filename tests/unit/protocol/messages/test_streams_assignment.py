import struct
import tracemalloc
from dataclasses import replace

import pytest

from bellwether_kafka.protocol.messages import NEVER_MS, AssignmentInfo
from bellwether_kafka.protocol.primitives import (
    HostInfo,
    LocalProtocolError,
    RemoteProtocolError,
    TaskId,
    TopicPartition,
)

T1, T2, U2 = TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 2)
ACTIVE = (TaskId(0, 1), TaskId(0, 1))
STANDBY = ((TaskId(1, 2), (T2,)),)
HOST = HostInfo("h", 9)
V11 = """0000000b 0000000b 00000002 00000000 00000001 00000000 00000000 00000001 00000000 00000001 00000001 00000002
    00000000 00000001 0001 74 00000002 00000002 00000000 0001 74 00000001 0001 75 00000001 0001 68 00000009 00000001
    00000000 00000001 00000001 0001 68 00000009 00000001 00000001 00000002 00000000 0000018bcfe56800"""


def full(version: int) -> AssignmentInfo:
    return AssignmentInfo(
        version,
        11 if version >= 3 else -1,
        ACTIVE,
        STANDBY,
        ((HOST, (T1,)),) if version >= 2 else (),
        ((HOST, (U2,)),) if version >= 6 else (),
        3 if version >= 4 else 0,
        1_700_000_000_000 if version >= 7 else NEVER_MS,
    )


def test_golden_version_11() -> None:
    info = AssignmentInfo(11, 11, ACTIVE, STANDBY, ((HOST, (T1,)),), ((HOST, (U2,)),), 0, 1_700_000_000_000)
    assert AssignmentInfo.decode(bytes.fromhex(V11)) == info
    assert info.encode() == bytes.fromhex(V11)


def test_empty() -> None:
    data = bytes.fromhex("0000000b 0000000b") + bytes(24) + bytes.fromhex("7fffffffffffffff")
    assert AssignmentInfo.decode(data) == AssignmentInfo()
    assert AssignmentInfo().encode() == data


def test_named_tasks_are_utf16() -> None:
    info = AssignmentInfo(active_tasks=(TaskId(2, 3, "top"),))
    data = info.encode()
    assert data[12:30] == bytes.fromhex("00000002 00000003 00000003 0074 006f 0070")
    assert AssignmentInfo.decode(data) == info
    with pytest.raises(LocalProtocolError, match="named topology"):
        AssignmentInfo(9, active_tasks=(TaskId(2, 3, "top"),)).encode()


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_there_and_back_and_no_cut_decodes(version: int) -> None:
    data = full(version).encode()
    assert AssignmentInfo.decode(data) == full(version)
    assert AssignmentInfo.decode(data + b"trailing") == full(version)
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            AssignmentInfo.decode(data[:size])


@pytest.mark.parametrize("version", [-1, 0, 12])
def test_versions_outside_1_to_11(version: int) -> None:
    with pytest.raises(RemoteProtocolError, match="version"):
        AssignmentInfo.decode(struct.pack(">i", version) + bytes(100))
    with pytest.raises(LocalProtocolError, match="version"):
        AssignmentInfo(version).encode()


def test_a_topic_number_must_be_in_the_dictionary() -> None:
    data = bytes.fromhex(V11).replace(bytes.fromhex("00000001 0001 75"), bytes.fromhex("00000007 0001 75"))
    with pytest.raises(RemoteProtocolError, match="topic number 1 "):
        AssignmentInfo.decode(data)


@pytest.mark.parametrize("absurd", ["7fffffff", "00100000", "ffffffff"])
def test_absurd_counts_allocate_nothing(absurd: str) -> None:
    texts = [
        f"00000001 {absurd}",
        f"00000001 00000000 {absurd}",
        f"00000001 00000000 00000001 00000000 00000000 {absurd}",
        f"00000002 00000000 00000000 {absurd}",
        f"00000002 00000000 00000000 00000001 0001 68 00000009 {absurd}",
        f"0000000b 0000000b 00000001 00000000 00000000 {absurd}",
        f"0000000b 0000000b 00000000 00000000 {absurd}",
        f"0000000b 0000000b 00000000 00000000 00000000 {absurd}",
        f"0000000b 0000000b 00000000 00000000 00000000 00000001 0001 68 00000009 {absurd}",
        f"0000000b 0000000b 00000000 00000000 00000000 00000000 {absurd}",
    ]
    tracemalloc.start()
    try:
        for text in texts:
            with pytest.raises(RemoteProtocolError, match="count"):
                AssignmentInfo.decode(bytes.fromhex(text) + bytes(50))
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "info",
    [
        AssignmentInfo(active_tasks=(TaskId(1 << 31, 0),)),
        AssignmentInfo(next_rebalance_ms=1 << 63),
        AssignmentInfo(partitions_by_host=((HostInfo("h" * 65536, 1), ()),)),
        AssignmentInfo(partitions_by_host=((HOST, (TopicPartition("\ud800", 0),)),)),
    ],
)
def test_what_cannot_be_written(info: AssignmentInfo) -> None:
    with pytest.raises(LocalProtocolError):
        info.encode()


@pytest.mark.parametrize("version", range(1, 12))
def test_what_has_to_fit_exactly_has_nothing_behind_its_end(version: int) -> None:
    blob = full(version).encode()
    assert AssignmentInfo.decode(blob, exactly=True) == AssignmentInfo.decode(blob + b"\0")
    with pytest.raises(RemoteProtocolError, match="1 bytes are behind the end"):
        AssignmentInfo.decode(blob + b"\0", exactly=True)


def test_tasks_apart_leave_what_members_share() -> None:
    info = full(11)
    active, standby, bare = AssignmentInfo.read_tasks(info.encode())
    assert (active, standby) == (info.active_tasks, info.standby_tasks)
    assert AssignmentInfo.decode(bare) == replace(info, active_tasks=(), standby_tasks=())
