"""A count is refused where its items cannot be in the bytes left: many items of the smallest size can."""

import struct

import pytest

from bellwether_kafka.protocol.bulk import read_infos
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Copy,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    SubscriptionInfo,
    Task,
)
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition

MANY = 200
TASKS = tuple(TaskId(0, p) for p in range(MANY))
EMPTY_NAMES = tuple(TopicPartition("", p) for p in range(MANY))
HOSTS = tuple((HostInfo("", p), ()) for p in range(MANY))


@pytest.mark.parametrize(
    "message",
    [
        ConsumerProtocolSubscription(0, ("",) * MANY),
        ConsumerProtocolAssignment(0, EMPTY_NAMES),
        StatefulSubscription(tags=(("", ""),) * MANY),
        StatefulSubscription(tasks=tuple(StatefulTaskState(Task(0, p)) for p in range(MANY))),
        StatefulAssignment(groups=tuple((g, ()) for g in range(MANY))),
        StatefulAssignment(groups=((0, ("",) * MANY),)),
        StatefulAssignment(active=tuple(Task(0, p) for p in range(MANY))),
        StatefulAssignment(copies=tuple(Copy(Task(0, p)) for p in range(MANY))),
        *[SubscriptionInfo(v, 11, task_offset_sums=tuple((task, -2) for task in TASKS)) for v in (7, 10, 11)],
        SubscriptionInfo(1, -1, task_offset_sums=tuple((task, -2) for task in TASKS)),
        SubscriptionInfo(11, 11, client_tags=(("", ""),) * MANY),
        *[AssignmentInfo(v, -1, TASKS, next_rebalance_ms=(1 << 63) - 1) for v in (1, 2)],
        AssignmentInfo(1, -1, (), tuple((task, ()) for task in TASKS)),
        AssignmentInfo(1, -1, (), ((TASKS[0], EMPTY_NAMES),)),
        *[AssignmentInfo(v, -1 if v < 3 else 11, partitions_by_host=HOSTS) for v in (2, 5)],
        *[AssignmentInfo(v, -1 if v < 3 else 11, (), (), ((HostInfo("", 1), EMPTY_NAMES),)) for v in (2, 5)],
    ],
)
def test_many_of_the_smallest_items_are_read(message: object) -> None:
    blob = message.encode()  # type: ignore[attr-defined]  # all messages have it
    assert type(message).decode(blob) == message  # type: ignore[attr-defined]


def test_many_empty_subtopologies_are_read() -> None:
    head = struct.pack(">iiqqi", 7, 7, 1, 2, 0)
    blob = head + struct.pack(">i", MANY) + b"".join(struct.pack(">ii", number, 0) for number in range(MANY))
    assert SubscriptionInfo.decode(blob) == SubscriptionInfo(7, 7, ProcessId(1, 2))
    assert not read_infos([blob]).errors
