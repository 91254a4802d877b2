"""Explains decisions: why an item is where it is, what a move gains, and how full the fullest owner is. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import (
    NOBODY,
    Alternative,
    Decision,
    FloatArray,
    GroupPlan,
    IntArray,
    LongArray,
    Owner,
    Weights,
)

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


NEARER = "no longer read from another rack"
FARTHER = "read from another rack then"


def gains(plan: GroupPlan, before: IntArray, items: LongArray) -> list[str]:
    """Describes the gain of each of these items, which all have an owner in `before`; "" for none. A longer way to read
    is stated too. Balance is only stated if the item leaves the owner that had more, and the two come closer."""
    if not len(items):
        return []  # true of most rebalances; the rest reads every partition of the group
    owners = len(plan.owners)
    had = np.bincount(before[before != NOBODY], minlength=owners)
    has = np.bincount(plan.owner[plan.owner != NOBODY], minlength=owners)
    _, far = plan.read_remotely(before)
    _, far_then = plan.read_remotely(plan.owner)
    gains = []
    for item in items.tolist():
        source, target = int(before[item]), int(plan.owner[item])
        reasons = (
            [NEARER] if far[item] and not far_then[item] else [FARTHER] if far_then[item] and not far[item] else []
        )
        if target != NOBODY and abs(has[source] - has[target]) < had[source] - had[target]:
            reasons.append(f"{had[source]} and {had[target]} become {has[source]} and {has[target]}")
        gains.append(", ".join(reasons) if target != NOBODY else "")
    return gains


def imbalance(plan: GroupPlan, owner: IntArray, weights: Weights) -> tuple[float, bool]:
    """Returns the fullest owner over the mean of all owners, and whether that is by load. Without weights every item
    counts for one, however many partitions it reads."""
    flats = shared.lookup(owner, plan.item_of, NOBODY)
    owned = flats != NOBODY
    weight, reason = weights.dense(plan.cluster, owned)
    full = np.bincount(flats[owned], weight[owned], len(plan.owners)) if not reason else _counts(plan, owner)
    mean = float(full.mean()) if len(full) else 0.0
    return (float(full.max()) / mean if mean > 0 else 1.0), not reason


def _counts(plan: GroupPlan, owner: IntArray) -> FloatArray:
    return np.bincount(owner[owner != NOBODY], minlength=len(plan.owners)).astype(np.float64)
