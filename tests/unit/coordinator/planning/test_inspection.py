"""The last gate refuses every decision that must not leave, and lets a good one pass."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, Memory, Plan, RawGroup, RawMember
from bellwether_kafka.coordinator.planning import inspect, record_bytes
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

CLUSTER = ClusterView.of({"t": [["a"]] * 4, "other": [["a"]] * 2})
OWN = "bw-1"


def metadata(*topics: str) -> bytes:
    return ConsumerProtocolSubscription(1, topics).encode()


RAW = RawGroup(
    "orders",
    3,
    "range",
    (RawMember(OWN, "bw", metadata()), RawMember("a", None, metadata("t")), RawMember("b", None, metadata("t"))),
    frozenset({OWN}),
)
GOOD = decide(RAW, CLUSTER, Memory.empty(), Policy(), 0)


def blob(*partitions: tuple[str, int]) -> bytes:
    return ConsumerProtocolAssignment(1, tuple(TopicPartition(*p) for p in partitions)).encode()


def sending(**blobs: bytes) -> Decision[PartitionPlan]:
    given = dict(GOOD.assignments) | {("bw-1" if name == "own" else name): data for name, data in blobs.items()}
    return replace(GOOD, assignments=tuple(given.items()))


def without(member_id: str) -> Decision[PartitionPlan]:
    return replace(GOOD, assignments=tuple(a for a in GOOD.assignments if a[0] != member_id))


def owned_by(owner: list[int], pending: list[bool] | None = None) -> Decision[PartitionPlan]:
    """A decision whose plan and bytes say this about t-0..t-3 ("other" sorts first and is nobody's)."""
    full = np.array([NOBODY, NOBODY, *owner], dtype=np.int32)
    owned = np.array([False, False, *(pending or [False] * 4)])
    sent = {m: [("t", p) for p in range(4) if owner[p] == m and not owned[2 + p]] for m in (0, 1)}
    return replace(sending(a=blob(*sent[0]), b=blob(*sent[1])), plan=replace(GOOD.plan, target=Plan(full, owned)))


def test_a_good_decision_may_leave() -> None:
    assert inspect(RAW, GOOD) == ()
    assert inspect(RAW, owned_by([1, 1, 0, 0])) == (), "any valid plan, whoever made it"


@pytest.mark.parametrize(
    ("make", "finding"),
    [
        (lambda: without("b"), "no assignment for b"),
        (lambda: without(OWN), "no assignment for bw-1"),
        (lambda: replace(GOOD, assignments=(*GOOD.assignments, ("b", blob()))), "more than one assignment for b"),
        (lambda: replace(GOOD, assignments=(*GOOD.assignments, ("z", blob()))), "not in this generation"),
        (lambda: sending(a=b""), "do not read back"),
        (lambda: sending(a=blob(("t", 0)) + b"\0"), "do not read back"),
        (lambda: sending(a=blob(("t", 0), ("t", 1)), b=blob(("t", 1))), "given more than once"),
        (lambda: sending(a=blob(("t", 7))), "does not exist"),
        (lambda: sending(a=blob(("nowhere", 0))), "unknown topic"),
        (lambda: sending(own=blob(("t", 0)), a=blob(("t", 1))), "Bellwether's own member would get partitions"),
        (lambda: sending(a=blob(("t", 0))), "not the plan without its pending partitions, first at"),
        (lambda: owned_by([0, 0, 1, NOBODY]), "has no owner"),
        (lambda: owned_by([0, 0, 1, 1], [False, False, True, False]), "pending though no other member claims it"),
    ],
)
def test_a_bad_decision_may_not(make: Callable[[], Decision], finding: str) -> None:
    findings = inspect(RAW, make())
    assert any(finding in text for text in findings), findings


def test_a_partition_of_a_topic_that_the_member_does_not_read() -> None:
    owner = np.array([0, NOBODY, 0, 0, 1, 1], dtype=np.int32)
    bad = replace(sending(a=blob(("other", 0), ("t", 0), ("t", 1))), plan=replace(GOOD.plan, target=Plan.of(owner)))
    assert any("does not subscribe" in finding for finding in inspect(RAW, bad))


def test_a_plan_for_other_members() -> None:
    other = replace(RAW, members=(*RAW.members[:2], RawMember("c", None, metadata("t"))))
    renamed = replace(GOOD, assignments=tuple((("c" if m == "b" else m), data) for m, data in GOOD.assignments))
    assert inspect(other, renamed) == ("the plan was made for other members",)


def test_a_record_over_four_fifths_of_the_limit() -> None:
    size = record_bytes(RAW, GOOD.assignments)
    assert size > sum(len(m.metadata) for m in RAW.members) + sum(len(data) for _, data in GOOD.assignments)
    assert inspect(RAW, GOOD, message_bytes_max=int(size / 0.8) + 2) == ()
    (finding,) = inspect(RAW, GOOD, message_bytes_max=int(size / 0.8) - 2)
    assert "message_bytes_max" in finding
