"""Explains why a partition or a task is where it is: the previous owner, the stage that decided, and the cost of each
alternative.

Elasticsearch's allocation explain is the model. Pure: it reads the decision and decides nothing again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bellwether_kafka.assignors.shared import NOBODY, Alternative, Decision, GroupPlan, Owner

ALTERNATIVES_MAX = 50
NO_NAMES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one item. `stage` is the stage that placed it; `before` and `after` are its owners, None for
    none."""

    item: str
    before: str | None
    after: str | None
    stage: str
    pending: bool
    sentence: str
    alternatives: tuple[Alternative, ...]


def explain(decision: Decision[GroupPlan], item: int, names: Mapping[str, str] = NO_NAMES) -> Explanation:
    """Explains the place of one item: a flat partition of a consumer group's cluster, or the index of an application's
    task. `names` are what the sentence calls owners instead of their own names."""
    plan = decision.plan
    name, owners = plan.name(item), plan.owners
    before, after = _name(owners, int(plan.before[item])), _name(owners, int(plan.owner[item]))
    stage, pending = plan.placed_by(item, decision.policy, decision.stages), bool(plan.pending[item])
    report = next((report for report in decision.stages if report.stage == stage), None)
    why = (report.orders or report.basis) if report is not None else ""
    had, has = (owner and names.get(owner, owner) for owner in (before, after))
    sentence = _sentence(name, had, has, f"{stage}: {why}" if why else stage, pending=pending)
    sentence += "".join(f" Rejected: {claim}." for claim in plan.rejected_claims(item))
    return Explanation(name, before, after, stage, pending, sentence, plan.alternatives(item, ALTERNATIVES_MAX))


def _name(owners: Sequence[Owner], owner: int) -> str | None:
    return None if owner == NOBODY else owners[owner].name


def _sentence(item: str, before: str | None, after: str | None, stage: str, *, pending: bool) -> str:
    by = f" ({stage})" if stage else ""
    if after is None:
        return f"{item} has no owner: no member that may have it can be given it."
    if before == after:
        return f"{item} stays with {after}{by}."
    if before is None:
        return f"{item} had no owner and goes to {after}{by}."
    later = ", one rebalance later, when its owner has given it up" if pending else ""
    return f"{item} goes from {before} to {after}{later}{by}."
