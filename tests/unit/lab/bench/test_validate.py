"""The validator that judges every engine's answer, and the situations that it is asked about."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.protocol.bulk import owner_of, write_assignments
from bellwether_kafka.protocol.primitives import LocalProtocolError
from tests.lab.bench.own import run_own
from tests.lab.bench.scenario import RACKS, Scenario, Shape, disturbed, fresh
from tests.lab.bench.validate import check

SHAPES = [
    Shape("cooperative-sticky", 20, 10, 10, event, subscribe=subscribe)
    for event in ("fresh", "join", "leave", "churn")
    for subscribe in ("all", "mixed", "disjoint")
]


def scenario(shape: Shape) -> Scenario:
    if shape.event == "fresh":
        return fresh(shape, shape.members)
    start = fresh(shape, shape.settled_members)
    return disturbed(shape, start.numbers[plan(start)])


def plan(of: Scenario) -> IntArray:
    """Bellwether's own target as an owner array."""
    answer = run_own(of, warm_s=0, measure_s=0).assignments
    return owner_of(answer, of.cluster.topics, of.cluster.first)


def encoded(of: Scenario, owner: IntArray) -> list[bytes]:
    return write_assignments(of.cluster.topics, of.cluster.first, owner, len(of.member_ids))


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[] if shape.event == "join" else pytest.mark.slow) for shape in SHAPES], ids=str
)
def test_bellwethers_plans_hold_in_every_situation(shape: Shape) -> None:
    of = scenario(shape)
    assert len(of.member_ids) == shape.members
    verdict = check(of, encoded(of, plan(of)))
    assert (verdict.pending == 0) == (verdict.moved == 0)
    assert (of.claimed != NOBODY).any() == (shape.event != "fresh")


def test_churn_replaces_a_tenth_of_the_members() -> None:
    shape = Shape("cooperative-sticky", 20, 10, 10, "churn")
    present = shape.present
    assert (len(present), len(set(range(20)) - set(present)), present[-2:]) == (20, 2, [20, 21])


def test_most_members_of_skewed_racks_are_in_the_first() -> None:
    shape = Shape("cooperative-sticky", 20, 10, 10, racks=True, skewed=True)
    racks = [shape.rack_of(member) for member in shape.present]
    assert [racks.count(rack) for rack in RACKS] == [16, 2, 2]


def test_a_partition_without_an_owner_is_refused() -> None:
    of = scenario(Shape("cooperative-sticky", 20, 10, 10, "fresh"))
    owner = plan(of)
    owner[3] = NOBODY
    with pytest.raises(AssertionError, match="pending, though no member claims it"):
        check(of, encoded(of, owner))


def test_an_uneven_plan_is_refused() -> None:
    of = scenario(Shape("cooperative-sticky", 20, 10, 10, "fresh"))
    owner = plan(of)
    owner[np.flatnonzero(owner == 1)[0]] = 0
    with pytest.raises(AssertionError, match="more than 5"):
        check(of, encoded(of, owner))


@pytest.mark.parametrize(("subscribe", "partition"), [("mixed", -1), ("disjoint", 0)])
def test_a_topic_that_its_owner_does_not_want_is_refused(subscribe: str, partition: int) -> None:
    of = scenario(Shape("cooperative-sticky", 20, 10, 10, "fresh", subscribe=subscribe))
    owner = plan(of)
    unsubscribed = int(np.flatnonzero(of.numbers == 1)[0])
    owner[partition] = unsubscribed
    with pytest.raises(AssertionError, match="does not subscribe"):
        check(of, encoded(of, owner))


def test_uneven_mixed_subscriptions_are_refused() -> None:
    of = scenario(Shape("cooperative-sticky", 20, 10, 10, "fresh", subscribe="mixed"))
    owner = plan(of)
    whole, other = np.flatnonzero(of.numbers % 2 == 0)[:2].tolist()
    owner[np.flatnonzero(owner == other)[:2]] = whole
    with pytest.raises(AssertionError, match="mixed subscriptions are uneven"):
        check(of, encoded(of, owner))


def test_a_partition_that_is_given_twice_is_refused() -> None:
    of = scenario(Shape("cooperative-sticky", 20, 10, 10, "fresh"))
    blobs = encoded(of, plan(of))
    with pytest.raises(LocalProtocolError, match="more than once"):
        check(of, [blobs[0], blobs[0], *blobs[2:]])
