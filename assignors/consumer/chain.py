"""Policies as chains of stages. A hard stage must hold. A soft stage may only improve the plan, and never at the cost
of what an earlier stage achieved (ARCHITECTURE.md#chains-of-stages)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.plan_cost import crossing, imbalance
from bellwether_kafka.assignors.consumer.sticky import place
from bellwether_kafka.assignors.consumer.topic_spread import spread_topics, unevenness
from bellwether_kafka.assignors.consumer.validate import misplaced
from bellwether_kafka.assignors.shared import (
    NO_RACK,
    NOBODY,
    BoolArray,
    ClusterView,
    GroupView,
    IntArray,
    Plan,
    StageReport,
)


class ConsumerAssignor(Protocol):
    """The interface of built-in assignors and plug-ins: it takes frozen views and returns an owner array, without
    bytes, sockets or clocks.

    `assign` places every partition of every subscribed topic on one of its subscribers: it returns a member index per
    flat partition, NOBODY if no member subscribes. `cooperative` requests the step that leaves partitions pending while
    another member owns them.
    """

    name: str
    cooperative: bool

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The input of a stage. `before` is the owner array before this rebalance; `seed` is the only source of
    randomness."""

    group: GroupView
    cluster: ClusterView
    before: IntArray
    seed: int = 0


class PolicyStage(Protocol):
    """One step of a policy. `score` is lower for better plans; a hard stage holds if its score is 0.

    A stage with a method `narrow` gives the stages before it the problem that it returns, so that they plan what it
    need not change. A stage whose `needs_every_member` is true gets the problem of the group nonetheless.
    """

    @property
    def name(self) -> str: ...
    @property
    def hard(self) -> bool: ...
    def apply(self, problem: Problem, plan: Plan) -> Plan: ...
    def score(self, problem: Problem, plan: Plan) -> float: ...


class StageError(Exception):
    """Raised if a hard stage does not hold or returned no plan. The whole chain is then infeasible."""


def run(
    stages: Sequence[PolicyStage], problem: Problem, clock: shared.Clock = shared.no_clock
) -> tuple[Plan, tuple[StageReport, ...]]:
    """Runs the stages in order and returns the plan and a report per stage. Raises StageError or the exception of a
    hard stage; a soft stage that raises is skipped. `clock` returns seconds, which are only reported."""
    plan = Plan.of(np.full(problem.cluster.partition_total, NOBODY, dtype=np.int32))
    reports: list[StageReport] = []
    for i, stage in enumerate(stages):
        began = clock()
        narrow = _narrowed(stages, i, problem)
        plan, report = _hard(stage, problem, narrow, plan) if stage.hard else _soft(stage, stages[:i], narrow, plan)
        reports.append(replace(report, owner=plan.owner, took_s=clock() - began))
    return plan, tuple(reports)


def _narrowed(stages: Sequence[PolicyStage], at: int, problem: Problem) -> Problem:
    """Returns the problem that a stage gets: the group's, as the stages after it narrow it."""
    if getattr(stages[at], "needs_every_member", False):
        return problem
    for later in stages[at + 1 :]:
        narrow = getattr(later, "narrow", None)
        problem = problem if narrow is None else narrow(problem)
    return problem


def _hard(stage: PolicyStage, problem: Problem, narrow: Problem, plan: Plan) -> tuple[Plan, StageReport]:
    before = stage.score(problem, plan)
    proposal = _checked(stage.apply(narrow, plan), problem)
    after = stage.score(problem, proposal)
    if after > 0:
        raise StageError(f"stage {stage.name} does not hold: score {after:g}")
    outcome = getattr(stage, "outcome", None)  # stages with a more precise description of their result
    reason = "Required, and satisfied." if outcome is None else outcome(problem, plan)
    orders_of = getattr(stage, "orders", None)
    orders = "" if orders_of is None else orders_of(problem)
    basis = getattr(stage, "basis", "")
    if basis:
        reason = f"{reason} Weights: {basis}."
    report = StageReport(stage.name, True, before, after, True, reason, orders=orders, basis=basis)
    return proposal, replace(report, released=_released(stage, problem))


def _released(stage: PolicyStage, problem: Problem) -> BoolArray | None:
    narrow = getattr(stage, "narrow", None)
    return None if narrow is None else narrow(problem).before != problem.before


def _soft(stage: PolicyStage, earlier: Sequence[PolicyStage], problem: Problem, plan: Plan) -> tuple[Plan, StageReport]:
    before = stage.score(problem, plan)
    try:
        proposal = _checked(stage.apply(problem, plan), problem)
        after = stage.score(problem, proposal)
    except Exception as error:  # noqa: BLE001 - a stage may be third-party code, and the plan is valid without it
        return plan, StageReport(stage.name, False, before, before, False, f"It failed and was skipped: {error!r}.")
    if proposal is plan or np.array_equal(proposal.owner, plan.owner):
        return plan, StageReport(stage.name, False, before, before, True, "It found nothing to improve.")
    if not after < before:
        reason = f"Its plan was no better: {before:g} to {after:g}."
        return plan, StageReport(stage.name, False, before, after, False, reason)
    for other in earlier:
        was, would_be = other.score(problem, plan), other.score(problem, proposal)
        if would_be > was:
            reason = f"Its plan would worsen {other.name} from {was:g} to {would_be:g}."
            return plan, StageReport(stage.name, False, before, after, False, reason)
    return proposal, StageReport(stage.name, False, before, after, True, f"It went from {before:g} to {after:g}.")


def _checked(plan: Plan, problem: Problem) -> Plan:
    """Returns a read-only copy of the plan. Raises StageError if it has the wrong shape or invalid member indices."""
    owner = np.array(plan.owner, dtype=np.int32)
    if owner.shape != (problem.cluster.partition_total,):
        raise StageError(f"owners of shape {owner.shape} for {problem.cluster.partition_total} partitions")
    if len(owner) and not NOBODY <= int(owner.min()) <= int(owner.max()) < problem.group.size:
        raise StageError("an owner is not a member index")
    owner.flags.writeable = False
    return Plan.of(owner)


@dataclass(frozen=True, slots=True)
class PlacementStage:
    """Hard: every partition of a subscribed topic has an owner that subscribes to it. The score counts exceptions.

    `racks=False` hides the members' racks from the assignor, so that locality moves no partitions.
    """

    assignor: ConsumerAssignor
    racks: bool = True
    hard: bool = True

    @property
    def name(self) -> str:
        return f"placement by {self.assignor.name}"

    @property
    def basis(self) -> str:
        """Returns what the assignor weighs by, "" if it weighs nothing."""
        return getattr(self.assignor, "basis", "")

    @property
    def needs_every_member(self) -> bool:
        """Whether the places of all partitions follow from how many members subscribe, so that leaving out an evacuated
        member would move partitions of the others."""
        return getattr(self.assignor, "needs_every_member", False)

    def apply(self, problem: Problem, plan: Plan) -> Plan:  # noqa: ARG002 - a placement starts from scratch
        group = problem.group
        if not self.racks:
            group = replace(group, rack=np.full(group.size, NO_RACK, dtype=np.int32))
        return Plan.of(self.assignor.assign(group, problem.cluster))

    def score(self, problem: Problem, plan: Plan) -> float:
        unowned, foreign = misplaced(problem.group, problem.cluster, plan.owner)
        return float(np.count_nonzero(unowned) + np.count_nonzero(foreign))


@dataclass(frozen=True, slots=True)
class Balance:
    """Changes nothing, but its score prevents later stages from making the partition counts more uneven."""

    name: str = "balance"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:  # noqa: ARG002 - the interface of all stages
        return plan

    def score(self, problem: Problem, plan: Plan) -> float:
        return imbalance(problem.group, problem.cluster, plan.owner)[1]


@dataclass(frozen=True, slots=True)
class Locality:
    """Soft: sticky placement with racks, if fewer partitions then cross them. It is as even as the plan without."""

    name: str = "rack locality"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:  # noqa: ARG002 - a placement starts from scratch
        return Plan.of(place(problem.group, problem.cluster))

    def score(self, problem: Problem, plan: Plan) -> float:
        return float(crossing(problem.group, problem.cluster, plan.owner).sum())


@dataclass(frozen=True, slots=True)
class TopicBalance:
    """Soft: exchanges partitions between members with equal subscriptions until each topic is even. Each member's count
    stays the same."""

    name: str = "topic balance"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:
        return Plan.of(spread_topics(problem.group, problem.cluster, plan.owner, problem.before))

    def score(self, problem: Problem, plan: Plan) -> float:
        return unevenness(problem.group, problem.cluster, plan.owner)
