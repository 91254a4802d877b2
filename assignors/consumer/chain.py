"""A policy is a chain of stages. Hard stages must hold; soft ones may only improve, and never at the cost of what
a stage before them reached (ARCHITECTURE.md#chains-of-stages).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.cost import crossing, imbalance
from bellwether_kafka.assignors.consumer.locality import improve
from bellwether_kafka.assignors.consumer.topic_spread import spread_topics, unevenness
from bellwether_kafka.assignors.consumer.validate import misplaced
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, GroupView, IntArray, Plan, StageReport


class ConsumerAssignor(Protocol):
    """The interface that built-in assignors and plug-ins share: frozen views in, an owner array out; no bytes, sockets
    or clocks.

    `assign` places every partition of every subscribed topic on one of its subscribers: it returns a member index for
    each flat partition, or NOBODY where no member subscribes. `cooperative` asks for the step that withholds what
    another member still owns.
    """

    name: str
    cooperative: bool

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What a stage sees. `before` is the owner array before this rebalance; `seed` is the only source of randomness."""

    group: GroupView
    cluster: ClusterView
    before: IntArray
    seed: int = 0


class PolicyStage(Protocol):
    """One step of a policy. `score` is lower for better plans; a hard stage holds where its score is 0."""

    @property
    def name(self) -> str: ...
    @property
    def hard(self) -> bool: ...
    def apply(self, problem: Problem, plan: Plan) -> Plan: ...
    def score(self, problem: Problem, plan: Plan) -> float: ...


class StageError(Exception):
    """A hard stage does not hold, or returned something that is no plan: the whole chain is void."""


def run(
    stages: Sequence[PolicyStage], problem: Problem, clock: shared.Clock = shared.no_clock
) -> tuple[Plan, tuple[StageReport, ...]]:
    """Runs the stages in order. Raises StageError or what a hard stage raises; a soft one that raises is skipped.
    `clock` gives seconds; it is only reported, nothing depends on it."""
    plan = Plan.of(np.full(problem.cluster.partition_total, NOBODY, dtype=np.int32))
    reports: list[StageReport] = []
    for i, stage in enumerate(stages):
        began = clock()
        plan, report = _hard(stage, problem, plan) if stage.hard else _soft(stage, stages[:i], problem, plan)
        reports.append(replace(report, owner=plan.owner, took_s=clock() - began))
    return plan, tuple(reports)


def _hard(stage: PolicyStage, problem: Problem, plan: Plan) -> tuple[Plan, StageReport]:
    before = stage.score(problem, plan)
    proposal = _checked(stage.apply(problem, plan), problem)
    after = stage.score(problem, proposal)
    if after > 0:
        raise StageError(f"stage {stage.name} does not hold: score {after:g}")
    outcome = getattr(stage, "outcome", None)  # of stages that know better than this sentence what they have done
    reason = "Required, and satisfied." if outcome is None else outcome(problem, before)
    orders = getattr(stage, "orders", "")
    return proposal, StageReport(stage.name, True, before, after, True, reason, orders=orders)


def _soft(stage: PolicyStage, earlier: Sequence[PolicyStage], problem: Problem, plan: Plan) -> tuple[Plan, StageReport]:
    before = stage.score(problem, plan)
    try:
        proposal = _checked(stage.apply(problem, plan), problem)
        after = stage.score(problem, proposal)
    except Exception as error:  # noqa: BLE001 - a stage may be anybody's code; without it the plan still stands
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
    """A plan of the right shape that nobody can change later."""
    owner = np.array(plan.owner, dtype=np.int32)
    if owner.shape != (problem.cluster.partition_total,):
        raise StageError(f"owners of shape {owner.shape} for {problem.cluster.partition_total} partitions")
    if len(owner) and not NOBODY <= int(owner.min()) <= int(owner.max()) < problem.group.size:
        raise StageError("an owner is not a member index")
    owner.flags.writeable = False
    return Plan.of(owner)


@dataclass(frozen=True, slots=True)
class PlacementStage:
    """Hard: every partition of a subscribed topic has an owner that subscribes to it. Scored by exceptions to that.

    `racks` False hides the members' racks from the assignor, so that locality does not pull partitions around.
    """

    assignor: ConsumerAssignor
    racks: bool = True
    hard: bool = True

    @property
    def name(self) -> str:
        return f"placement by {self.assignor.name}"

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
    """Changes nothing: it stands in a chain so that no later stage makes the partition counts more uneven."""

    name: str = "balance"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:  # noqa: ARG002 - the interface of all stages
        return plan

    def score(self, problem: Problem, plan: Plan) -> float:
        return imbalance(problem.group, problem.cluster, plan.owner)[1]


@dataclass(frozen=True, slots=True)
class Locality:
    """Soft: swaps partitions between members, counts unchanged, until the fewest possible cross racks."""

    name: str = "rack locality"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:
        return Plan.of(improve(problem.group, problem.cluster, plan.owner, problem.before))

    def score(self, problem: Problem, plan: Plan) -> float:
        return float(crossing(problem.group, problem.cluster, plan.owner).sum())


@dataclass(frozen=True, slots=True)
class TopicBalance:
    """Soft: swaps partitions between members with the same subscription, counts unchanged, until each topic is even."""

    name: str = "topic balance"
    hard: bool = False

    def apply(self, problem: Problem, plan: Plan) -> Plan:
        return Plan.of(spread_topics(problem.group, problem.cluster, plan.owner, problem.before))

    def score(self, problem: Problem, plan: Plan) -> float:
        return unevenness(problem.group, problem.cluster, plan.owner)
