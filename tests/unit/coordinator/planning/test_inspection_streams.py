"""The last gate for Streams bytes: each of these would stop an instance or run a task twice."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.planning import inspect
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.streams import OWN, Thread, group, led

RAW = group(Thread("a", 1), Thread("b", 2))
GOOD = led(RAW)


def sending(blobs: Mapping[str, bytes | None]) -> Decision[TaskPlan]:
    given = {**dict(GOOD.assignments), **blobs}
    return replace(GOOD, assignments=tuple((m, b) for m, b in given.items() if b is not None))


def blob(assignment: ConsumerProtocolAssignment, info: AssignmentInfo | None) -> bytes:
    return replace(assignment, user_data=info.encode() if info is not None else None).encode()


A_GETS = ConsumerProtocolAssignment.decode(dict(GOOD.assignments)["a"])
A_INFO = AssignmentInfo.decode(A_GETS.user_data or b"")


def test_a_good_decision_passes() -> None:
    assert inspect(RAW, GOOD) == ()


@pytest.mark.parametrize(
    ("blobs", "finding"),
    [
        ({"a": None}, "no assignment for a"),
        ({"stranger": b"x"}, "an assignment for stranger"),
        ({"a": b""}, "do not read back"),
        ({"a": blob(A_GETS, None)}, "does not read back"),
        ({"a": blob(A_GETS, replace(A_INFO, active_tasks=A_INFO.active_tasks[:-1]))}, "not one active task for each"),
        ({"a": blob(A_GETS, replace(A_INFO, active_tasks=A_INFO.active_tasks[::-1]))}, "not in the order"),
        ({"a": blob(A_GETS, replace(A_INFO, error_code=3))}, "error code"),
        ({"a": blob(replace(A_GETS, partitions=A_GETS.partitions[1:]), A_INFO)}, "is sent to another member"),
        ({OWN: dict(GOOD.assignments)["a"]}, "Bellwether's own member would get tasks"),
        ({OWN: ConsumerProtocolAssignment().encode()}, "Bellwether's own assignment does not read back"),
    ],
)
def test_bytes_that_must_not_leave(blobs: Mapping[str, bytes | None], finding: str) -> None:
    findings = inspect(RAW, sending(blobs))
    assert findings
    assert finding in findings[0]


def test_a_plan_for_other_members_does_not_pass() -> None:
    other = group(Thread("a", 1), Thread("b", 2), Thread("c", 3))
    assert inspect(other, GOOD) == ("the plan was made for other members",)
    assert inspect(other, replace(GOOD, raw=other))[0] == "no assignment for c"


def test_what_is_held_back_must_be_what_is_pending() -> None:
    lie = replace(GOOD, plan=replace(GOOD.plan, pending=np.ones_like(GOOD.plan.pending)))
    assert inspect(RAW, lie) == ("8 tasks are neither sent nor pending, or both",)


def test_a_shutdown_passes() -> None:
    raw = group(Thread("a", 1, error_code=4), Thread("b", 2))
    assert inspect(raw, led(raw)) == ()


def test_partitions_nobody_subscribes_to_are_found() -> None:
    raw = group(replace(Thread("a", 1), topics=("orders",)), Thread("b", 2))
    assert any("subscribe" in finding for finding in inspect(raw, replace(GOOD, raw=raw)))
    assert TopicPartition("shop-by-user-repartition", 0) in A_GETS.partitions
