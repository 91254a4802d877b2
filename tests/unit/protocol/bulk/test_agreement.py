"""The bulk readers say what the plain ones say: of every message that is cut anywhere or has one byte wrong, and of
groups whose members are alike, nearly alike and different."""

import struct
from collections.abc import Iterator
from random import Random

import pytest

from bellwether_kafka.protocol.bulk import read_assigned
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
    encode_sticky_user_data,
)
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition
from tests.unit.protocol.bulk.agreement import (
    assigned_agree,
    assignments_agree,
    claims_agree,
    infos_agree,
    subscriptions_agree,
)

OWNED = (TopicPartition("t", 3), TopicPartition("t", 258), TopicPartition("orders", -1))
CLAIMED = encode_sticky_user_data(OWNED, 7)


def damaged(blob: bytes) -> Iterator[bytes]:
    """Cut at every byte, longer than it was, and with every byte in turn made larger, smaller and extreme."""
    yield from (blob[:size] for size in range(len(blob) + 1))
    yield blob + b"\0"
    yield blob + b"\0\0\0\0\0\0\0\1"
    for at, byte in enumerate(blob):
        for value in {0, (byte + 1) & 0xFF, (byte - 1) & 0xFF, 0x7F, 0x80, 0xFF} - {byte}:
            yield blob[:at] + bytes([value]) + blob[at + 1 :]


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_with_one_thing_wrong(version: int) -> None:
    message = ConsumerProtocolSubscription(version, ("orders", "t"), b"\0\0\0\5", OWNED, 6, "az1")
    blobs = [*damaged(message.encode())]
    subscriptions_agree(blobs)
    for begin in range(0, len(blobs), 9):
        subscriptions_agree(blobs[begin : begin + 9])


@pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("data", [CLAIMED, b"\0\1" + CLAIMED, CLAIMED[:-4], b"\0\0\0\5"])
def test_claims_with_one_thing_wrong(data: bytes, protocol: str) -> None:
    blobs = [ConsumerProtocolSubscription(1, ("t",), wrong, OWNED[:1]).encode() for wrong in damaged(data)]
    claims_agree(blobs, protocol)
    for begin in range(0, len(blobs), 7):
        claims_agree(blobs[begin : begin + 7], protocol)


def test_assignments_with_one_thing_wrong() -> None:
    blobs = [*damaged(ConsumerProtocolAssignment(2, OWNED, b"data").encode())]
    assignments_agree(blobs)
    for begin in range(0, len(blobs), 9):
        assignments_agree(blobs[begin : begin + 9])


@pytest.mark.parametrize("members", [1, 13, 70])
@pytest.mark.parametrize("shapes", [1, 5, 70])
@pytest.mark.parametrize("version", [1, 3])
def test_groups_whose_lists_have_few_or_many_shapes(version: int, members: int, shapes: int) -> None:
    """One shape is one list of names and counts; numbers differ. Some members are cut, some have a byte wrong."""
    random = Random(f"{members} {shapes}")
    listed = [
        [(random.choice(["t", "u", f"topic-{shape}", "é"]), random.randrange(4)) for _ in range(random.randrange(5))]
        for shape in range(shapes)
    ]
    for harm in (0, 0, 0.1, 0.5):
        blobs = []
        for _ in range(members):
            shape = random.choice(listed)
            owned = b"".join(
                struct.pack(f">H{len(name.encode())}si", len(name.encode()), name.encode(), items)
                + random.randbytes(4 * items)
                for name, items in shape
            )
            tail = struct.pack(">ih3s", random.randrange(-2, 9), 3, b"az1") if version == 3 else b""
            blob = struct.pack(">hih1sii", version, 1, 1, b"t", -1, len(shape)) + owned + tail
            if random.random() < harm:
                blob = random.choice([*damaged(blob)])
            blobs.append(blob)
        subscriptions_agree(blobs)


@pytest.mark.parametrize("version", range(1, 12))
def test_infos_with_one_thing_wrong(version: int) -> None:
    sums = ((TaskId(0, 1), -2), (TaskId(0, 2), 7), (TaskId(1, 2), 1 << 40))
    info = SubscriptionInfo(version, 11, ProcessId(1, -2), "h:9", sums, 3, 4, (("zone", "a"), ("", "é")))
    blobs = [None, *damaged(info.encode())]
    infos_agree(blobs)
    infos_agree(blobs[::-1])


@pytest.mark.parametrize("version", [10, 11])
def test_infos_of_named_topologies_with_one_thing_wrong(version: int) -> None:
    sums = ((TaskId(0, 1, "top"), -2), (TaskId(1, 2), 9), (TaskId(1, 3, ""), 9))
    infos_agree([*damaged(SubscriptionInfo(version, 11, ProcessId(1, 2), None, sums).encode())])


@pytest.mark.parametrize("version", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))])
def test_assigned_tasks_with_one_thing_wrong(version: int) -> None:
    standby = (
        (TaskId(1, 2), (TopicPartition("t", 2), TopicPartition("u", 9))),
        (TaskId(1, 3), (TopicPartition("t", 3), TopicPartition("u", 9))),
        (TaskId(2, 3), ()),
    )
    hosts = ((HostInfo("h", 9), (TopicPartition("t", 1),)),)
    tasks = (TaskId(0, 1), TaskId(0, 1), TaskId(3, 258))
    info = AssignmentInfo(version, 11, tasks, standby, hosts, hosts, 1, 5)
    assigned_agree([*damaged(info.encode())])


def test_a_member_that_is_cut_or_too_long_must_not_leave() -> None:
    for version in range(1, 12):
        blob = AssignmentInfo(version, 11, (TaskId(0, 1),), ((TaskId(1, 2), (TopicPartition("t", 2),)),)).encode()
        wrong = [blob[:size] for size in range(len(blob))] + [blob + b"\0", blob + blob]
        assert read_assigned([*wrong, blob]).errors.keys() == set(range(len(wrong)))
