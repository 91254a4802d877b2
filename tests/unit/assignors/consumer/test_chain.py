"""The chain's law: hard stages hold, soft ones may only improve and never spoil what came before them."""

from dataclasses import dataclass

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.chain import Balance, Locality, PlacementStage, Problem, StageError, run
from bellwether_kafka.assignors.consumer.range import RangeAssignor
from bellwether_kafka.assignors.consumer.sticky import StickyAssignor
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray, Plan
from tests.kit.consumers import cluster_of, members_of

CLUSTER = cluster_of({"t": 4}, 1, "ab")
GROUP = GroupView.of(CLUSTER, members_of([["t"]] * 2, ["b", "a"]))
PROBLEM = Problem(GROUP, CLUSTER, GROUP.remembered)
PLACED = PlacementStage(StickyAssignor(), racks=False)


@dataclass(frozen=True)
class Wants:
    """A soft stage that proposes a fixed plan and scores by distance from it."""

    owner: tuple[int, ...]
    name: str = "wants"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:
        return Plan.of(np.array(self.owner, dtype=np.int32))

    def score(self, problem: Problem, plan: Plan) -> float:
        return float((plan.owner != np.resize(self.owner, plan.owner.shape)).sum())


class Fails(Wants):
    def apply(self, problem: Problem, plan: Plan) -> Plan:
        raise RuntimeError("boom")


class Meddles(Wants):
    def apply(self, problem: Problem, plan: Plan) -> Plan:
        plan.owner[:] = 0
        return plan


def test_a_soft_stage_that_improves_is_taken() -> None:
    plan, reports = run([PLACED, Balance(), Wants((1, 1, 0, 0))], PROBLEM)
    assert plan.owner.tolist() == [1, 1, 0, 0]
    assert reports[-1].taken
    assert reports[-1].after == 0 < reports[-1].before


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        pytest.param(Wants((0, 0, 0, 1)), "worsen balance", id="breaks a soft stage before it"),
        pytest.param(Wants((1, 1, 0, -1)), "worsen placement", id="breaks a hard stage before it"),
        pytest.param(Wants((1, 1, 0)), "failed", id="wrong shape"),
        pytest.param(Wants((1, 1, 0, 5)), "failed", id="no such member"),
        pytest.param(Fails((1, 1, 0, 0)), "boom", id="raises"),
        pytest.param(Meddles((1, 1, 1, 1)), "read-only", id="writes into the plan it was given"),
    ],
)
def test_a_soft_stage_that_spoils_something_is_not(stage: Wants, reason: str) -> None:
    plain, _ = run([PLACED, Balance()], PROBLEM)
    plan, reports = run([PLACED, Balance(), stage], PROBLEM)
    assert plan.owner.tolist() == plain.owner.tolist()
    assert not reports[-1].taken
    assert reason in reports[-1].reason


def test_a_soft_stage_that_finds_nothing_is_content() -> None:
    plain, _ = run([PLACED], PROBLEM)
    _, reports = run([PLACED, Balance(), Wants(tuple(plain.owner.tolist()))], PROBLEM)
    assert [(r.taken, r.reason) for r in reports[1:]] == [(True, "It found nothing to improve.")] * 2


def test_a_soft_stage_that_worsens_itself_is_not_taken() -> None:
    wanted = run([PLACED, Balance()], PROBLEM)[0].owner

    class Backwards(Wants):
        def score(self, problem: Problem, plan: Plan) -> float:
            return float((plan.owner != wanted).sum())

    _, reports = run([PLACED, Backwards((1, 1, 0, 0))], PROBLEM)
    assert (reports[-1].taken, reports[-1].before) == (False, 0)


def test_a_hard_stage_that_does_not_hold_invalidates_the_chain() -> None:
    with pytest.raises(StageError, match="strict"):
        run([PLACED, WantsHard((1, 1, 0, 0), "strict", hard=True)], PROBLEM)


class WantsHard(Wants):
    def score(self, problem: Problem, plan: Plan) -> float:
        return 1.0


def test_a_placement_does_not_hold_where_partitions_have_no_owner_or_one_that_does_not_subscribe() -> None:
    cluster = cluster_of({"t": 2, "u": 1})
    group = GroupView.of(cluster, members_of([["t"], ["u"]]))

    class Careless(RangeAssignor):
        def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
            return np.array([-1, 1, 1], dtype=np.int32)

    with pytest.raises(StageError, match="placement by range does not hold: score 2"):
        run([PlacementStage(Careless())], Problem(group, cluster, group.remembered))


def test_the_stock_stages_report_in_sentences() -> None:
    plan, reports = run([PLACED, Balance(), Locality()], PROBLEM)
    assert plan.owner.tolist() == [1, 0, 1, 0]
    assert [r.stage for r in reports] == ["placement by sticky", "balance", "rack locality"]
    assert all(r.reason.endswith(".") for r in reports)
    assert [r.hard for r in reports] == [True, False, False]


def test_the_name_of_a_placement_is_its_assignor() -> None:
    assert PlacementStage(RangeAssignor()).name == "placement by range"
