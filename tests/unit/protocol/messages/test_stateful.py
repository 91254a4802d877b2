"""The userData of stateful members: golden bytes, and every refusal."""

from dataclasses import replace

import pytest

from bellwether_kafka.protocol.messages import (
    STANDBY,
    WARMUP,
    Copy,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    Task,
)
from bellwether_kafka.protocol.primitives import LocalProtocolError, ProcessId, RemoteProtocolError

PROCESS = ProcessId.of_bytes(bytes.fromhex("00112233445566778899aabbccddeeff"))
SUBSCRIPTION = StatefulSubscription(
    PROCESS,
    rack="az1",
    capacity=4,
    tags=(("zone", "a"),),
    tasks=(StatefulTaskState(Task(0, 2), 90, 100), StatefulTaskState(Task(1, 0), 7, 7, running=True)),
)
GOLDEN = (
    "0001 00112233445566778899aabbccddeeff 0003617a31 00000004"
    " 00000001 00047a6f6e65 000161"
    " 00000002 00000000 00000002 00 000000000000005a 0000000000000064"
    " 00000001 00000000 01 0000000000000007 0000000000000007"
)
ASSIGNMENT = StatefulAssignment(
    groups=((0, ("orders", "users")), (1, ("clicks",))),
    active=(Task(0, 2),),
    copies=(Copy(Task(1, 0), WARMUP), Copy(Task(1, 3), STANDBY)),
)
GOLDEN_ASSIGNMENT = (
    "0001 00000002 00000000 00000002 00066f7264657273 00057573657273 00000001 00000001 0006636c69636b73"
    " 00000001 00000000 00000002"
    " 00000002 00000001 00000000 01 00000001 00000003 00"
)


def blob(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def test_golden_bytes_of_a_subscription() -> None:
    assert SUBSCRIPTION.encode() == blob(GOLDEN)
    assert StatefulSubscription.decode(blob(GOLDEN)) == SUBSCRIPTION


def test_golden_bytes_of_an_assignment() -> None:
    assert ASSIGNMENT.encode() == blob(GOLDEN_ASSIGNMENT)
    read = StatefulAssignment.decode(blob(GOLDEN_ASSIGNMENT))
    assert read == ASSIGNMENT
    assert (read.warmup, read.standby) == ((Task(1, 0),), (Task(1, 3),))
    assert [str(task) for task in read.active] == ["0_2"]


def test_the_least_that_a_member_can_say() -> None:
    least = StatefulSubscription(PROCESS)
    assert least.encode() == blob("0001 00112233445566778899aabbccddeeff ffff 00000001 00000000 00000000")
    assert StatefulSubscription.decode(least.encode()) == least
    assert StatefulAssignment().encode() == blob("0001 00000000 00000000 00000000")


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = b"\0\2" + SUBSCRIPTION.encode()[2:] + b"more"
    assert StatefulSubscription.decode(later) == replace(SUBSCRIPTION, version=2)
    later = b"\0\2" + ASSIGNMENT.encode()[2:] + b"more"
    assert StatefulAssignment.decode(later) == replace(ASSIGNMENT, version=2)


def test_only_this_version_is_written() -> None:
    for message in (replace(SUBSCRIPTION, version=2), replace(ASSIGNMENT, version=2)):
        with pytest.raises(LocalProtocolError, match="version 2 cannot be written, only 1"):
            message.encode()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"capacity": 0}, "capacity 0 is below 1"),
        ({"tasks": (StatefulTaskState(Task(0, 1)), StatefulTaskState(Task(0, 1), 5))}, "a task is named twice"),
        ({"tasks": (StatefulTaskState(Task(-1, 0)),)}, "task -1_0 is below 0"),
        ({"tasks": (StatefulTaskState(Task(0, -1)),)}, "task 0_-1 is below 0"),
        ({"tasks": (StatefulTaskState(Task(0, 0), -2),)}, "task 0_0 has a position or an end below -1"),
        ({"tasks": (StatefulTaskState(Task(0, 0), 0, -5),)}, "task 0_0 has a position or an end below -1"),
    ],
)
def test_what_cannot_be_meant_is_neither_written_nor_read(changes: dict[str, object], complaint: str) -> None:
    wrong = replace(SUBSCRIPTION, **changes)  # type: ignore[arg-type]  # wrong values are the point
    with pytest.raises(LocalProtocolError, match=complaint):
        wrong.encode()
    with pytest.raises(RemoteProtocolError, match=complaint):
        StatefulSubscription.decode(_unchecked(wrong))


def _unchecked(message: StatefulSubscription) -> bytes:
    """The bytes of a message that encode refuses."""

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, signed=True)

    tasks = b"".join(
        number(s.task.group, 4)
        + number(s.task.partition, 4)
        + bytes([s.running])
        + number(s.position, 8)
        + number(s.end, 8)
        for s in message.tasks
    )
    return (
        blob("0001 00112233445566778899aabbccddeeff ffff")
        + number(message.capacity, 4)
        + number(0, 4)
        + number(len(message.tasks), 4)
        + tasks
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "2 bytes needed"),
        ("0000", "version 0 is below 1"),
        ("ffff", "version -1 is below 1"),
        ("0001 0011", "16 bytes needed"),
        (GOLDEN[:-4], "bytes left"),
        (GOLDEN.replace("00000002 00000000 00000002 00", "7fffffff 00000000 00000002 00"), "count 2147483647"),
        (GOLDEN.replace("00000002 00000000 00000002 00", "ffffffff 00000000 00000002 00"), "count -1"),
        (GOLDEN.replace("00000002 00 ", "00000002 02 "), "neither running"),
        (GOLDEN.replace("617a31", "ff7a31"), "not utf-8"),
    ],
)
def test_bad_subscriptions_are_refused(raw: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        StatefulSubscription.decode(blob(raw))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("0000", "version 0 is below 1"),
        (GOLDEN_ASSIGNMENT[:-2], "count 2 before"),
        (GOLDEN_ASSIGNMENT.replace("00000000 01 00000001", "00000000 02 00000001"), "kind 2 is neither"),
        (GOLDEN_ASSIGNMENT.replace("0001 00000002 00000000 00000002", "0001 00ffffff 00000000 00000002"), "count"),
    ],
)
def test_bad_assignments_are_refused(raw: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        StatefulAssignment.decode(blob(raw))


def test_an_empty_rack_is_no_rack() -> None:
    raw = blob("0001 00112233445566778899aabbccddeeff 0000 00000001 00000000 00000000")
    assert StatefulSubscription.decode(raw).rack is None
