"""Checks in one observation whether a member that was absent has its share again. Pure."""

from collections.abc import Sequence

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, GroupPlan, IntArray, Rule
from bellwether_kafka.coordinator.membership import GroupState
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation.observation import Observation


def unready(seen: Observation, where: str, rules: Sequence[Rule]) -> str:
    """Returns a sentence on what the member named by `where` ("member:ID") still lacks of its planned items and their
    state; "" if nothing. `rules` are the operator's rules in force."""
    if seen.unknown is not None:
        return f"Whether it is ready is not known: {seen.unknown.reason}."
    if seen.state != GroupState.STABLE:
        return f"The group is not Stable ({seen.state or 'it does not exist'})."
    if seen.shadow is None:
        return f"There is no plan for it: {seen.no_plan}."
    plan, present = seen.shadow.decision.plan, seen.shadow.present
    its = plan.named(where)
    if not its.any():
        return f"{where} is not in the group."
    if any(rule.empties and (plan.named(rule.where) & its).any() for rule in rules):
        return f"{where} waits for the end of the order to empty it; bellwether orders shows when that ends."
    coming = np.flatnonzero(_among(plan.owner, its) & ~_among(present, its))
    if len(coming):
        names = plan.names(coming)
        return f"{where} does not have {listed(names)} yet."
    return _warming_up(plan, its, where)


def _warming_up(plan: GroupPlan, its: BoolArray, where: str) -> str:
    processes = {plan.owners[i].name for i in np.flatnonzero(its).tolist()}
    behind = {str(c.task): c.lag for c in plan.state.copies if c.warmup and str(c.process_id) in processes}
    if not behind:
        return ""
    task, lag = max(behind.items(), key=lambda entry: entry[1])
    return f"{where} restores {plan.words.items(len(behind))}; {task} is {max(0, lag)} records behind."


def _among(owner: IntArray, owners: BoolArray) -> BoolArray:
    """Returns for each item whether one of these owners has it."""
    among: BoolArray = np.isin(owner, np.flatnonzero(owners))
    return among
