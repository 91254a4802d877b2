import struct
import tracemalloc

import pytest

from bellwether_kafka.protocol.messages import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, SubscriptionInfo
from bellwether_kafka.protocol.primitives import LocalProtocolError, ProcessId, RemoteProtocolError, TaskId

PID = "00112233445566778899aabbccddeeff"
PROCESS = ProcessId.of_bytes(bytes.fromhex(PID))
HEAD = f"0000000b {PID}"
TASKS = "00000001 00000000 00000001 00000001 00000001 00000002"
SUMS = "00000002 00000000 00000001 00000001 fffffffffffffffe 00000001 00000001 00000002 00000000000003e8"
NAMED_SUMS = "00000002 00000000 00000001 fffffffffffffffe ffff 00000001 00000002 00000000000003e8 ffff"
END_POINT = "00000003 683a39"
GOLDEN = {
    1: f"00000001 {PID} {TASKS}",
    2: f"00000002 {PID} {TASKS} {END_POINT}",
    3: f"00000003 {HEAD} {TASKS} {END_POINT}",
    4: f"00000004 {HEAD} {TASKS} {END_POINT}",
    5: f"00000005 {HEAD} {TASKS} {END_POINT}",
    6: f"00000006 {HEAD} {TASKS} {END_POINT}",
    7: f"00000007 {HEAD} {END_POINT} {SUMS}",
    8: f"00000008 {HEAD} {END_POINT} {SUMS} 07",
    9: f"00000009 {HEAD} {END_POINT} {SUMS} 07 00000004",
    10: f"0000000a {HEAD} {END_POINT} {NAMED_SUMS} 07 00000004",
    11: f"0000000b {HEAD} {END_POINT} {NAMED_SUMS} 07 00000004 00000001 00000004 7a6f6e65 00000002 6131",
}


def golden(version: int) -> SubscriptionInfo:
    return SubscriptionInfo(
        version,
        11 if version >= 3 else -1,
        PROCESS,
        "h:9" if version >= 2 else None,
        ((TaskId(0, 1), LATEST_OFFSET), (TaskId(1, 2), 1000 if version >= 7 else UNKNOWN_OFFSET_SUM)),
        7 if version >= 8 else 0,
        4 if version >= 9 else 0,
        (("zone", "a1"),) if version >= 11 else (),
    )


@pytest.mark.parametrize("version", GOLDEN)
def test_golden_vectors(version: int) -> None:
    data = bytes.fromhex(GOLDEN[version])
    assert SubscriptionInfo.decode(data) == golden(version)
    assert golden(version).encode() == data
    assert SubscriptionInfo.decode(data + b"trailing") == golden(version)


def test_minimal() -> None:
    data = bytes.fromhex("0000000b 0000000b") + bytes(33)
    assert SubscriptionInfo.decode(data) == SubscriptionInfo()
    assert SubscriptionInfo().encode() == data


def test_named_topology() -> None:
    info = SubscriptionInfo(11, 11, PROCESS, None, ((TaskId(2, 3, "top"), 5),), -1)
    data = bytes.fromhex(
        f"0000000b {HEAD} 00000000 00000001 00000002 00000003 0000000000000005 0003 746f70 ff"
    ) + bytes(8)
    assert SubscriptionInfo.decode(data) == info
    assert info.encode() == data


@pytest.mark.parametrize("version", [1, 6, 7, 9])
def test_named_topologies_need_version_10(version: int) -> None:
    with pytest.raises(LocalProtocolError, match="named topology"):
        SubscriptionInfo(version, task_offset_sums=((TaskId(2, 3, "top"), 5),)).encode()


def test_before_version_7_everything_but_running_is_a_standby() -> None:
    sums = ((TaskId(0, 0), 1000), (TaskId(0, 1), LATEST_OFFSET), (TaskId(0, 2), -4))
    read = SubscriptionInfo.decode(SubscriptionInfo(6, 6, task_offset_sums=sums).encode())
    assert read.task_offset_sums == (
        (TaskId(0, 1), LATEST_OFFSET),
        (TaskId(0, 0), UNKNOWN_OFFSET_SUM),
        (TaskId(0, 2), UNKNOWN_OFFSET_SUM),
    )


def test_of_a_future_version_only_two_numbers_are_read() -> None:
    info = SubscriptionInfo.decode(bytes.fromhex("0000000c 0000000d 00"))
    assert info == SubscriptionInfo(12, 13)
    assert info.future
    assert not SubscriptionInfo().future
    with pytest.raises(LocalProtocolError, match="future"):
        info.encode()


def test_versions_1_and_2_do_not_carry_the_latest_version() -> None:
    assert SubscriptionInfo.decode(SubscriptionInfo(1, 11).encode()).latest_supported_version == -1


@pytest.mark.parametrize(
    ("version", "latest"), [(0, None), (-1, None), (3, -1), (11, 10), (12, 11), (12, -1), (3, 2), (3, -5)]
)
def test_versions_that_contradict_each_other(version: int, latest: int | None) -> None:
    rest = b"" if latest is None else struct.pack(">i", latest)
    with pytest.raises(RemoteProtocolError, match="version"):
        SubscriptionInfo.decode(struct.pack(">i", version) + rest + bytes(60))
    if version < 12:
        with pytest.raises(LocalProtocolError, match="version"):
            SubscriptionInfo(version, 11 if latest is None else latest).encode()


@pytest.mark.parametrize("version", GOLDEN)
def test_no_cut_decodes(version: int) -> None:
    data = bytes.fromhex(GOLDEN[version])
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            SubscriptionInfo.decode(data[:size])


def test_negative_end_point_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="negative length"):
        SubscriptionInfo.decode(bytes.fromhex(f"00000007 {HEAD} ffffffff 00000000"))


@pytest.mark.parametrize("absurd", ["7fffffff", "00100000", "ffffffff"])
def test_absurd_counts_allocate_nothing(absurd: str) -> None:
    texts = [
        f"00000001 {PID} {absurd}",
        f"00000001 {PID} 00000000 {absurd}",
        f"00000007 {HEAD} 00000000 {absurd}",
        f"00000007 {HEAD} 00000000 00000001 00000000 {absurd}",
        f"0000000a {HEAD} 00000000 {absurd}",
        f"0000000b {HEAD} 00000000 00000000 07 00000000 {absurd}",
    ]
    tracemalloc.start()
    try:
        for text in texts:
            with pytest.raises(RemoteProtocolError, match="count"):
                SubscriptionInfo.decode(bytes.fromhex(text) + bytes(50))
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


def test_a_process_id_must_be_two_signed_longs() -> None:
    with pytest.raises(LocalProtocolError):
        SubscriptionInfo(process_id=ProcessId(1 << 63, 0)).encode()
