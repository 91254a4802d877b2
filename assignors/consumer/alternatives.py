"""The members that could have a partition instead, and what each of them would cost."""

from typing import TYPE_CHECKING

import numpy as np

from bellwether_kafka.assignors.consumer.plan_cost import crossing, imbalance
from bellwether_kafka.assignors.shared import NOBODY, Alternative, IntArray

if TYPE_CHECKING:
    from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan


def alternatives(plan: "PartitionPlan", flat: int, most: int) -> tuple[Alternative, ...]:
    """Returns up to `most` alternatives for one partition: one per subscriber of its topic, the planned owner first,
    then the previous one."""
    group, owner = plan.group, plan.owner
    topic = plan.cluster.index[plan.cluster.name(flat).topic]
    allowed = [m for m in range(group.size) if topic in group.topic_sets[group.topic_set[m]]]
    order = sorted(allowed, key=lambda m: (m != owner[flat], m != plan.before[flat], m))[:most]
    partition_counts = np.bincount(owner[owner != NOBODY], minlength=group.size)
    now, spread = _crossing(plan, flat, owner), imbalance(group, plan.cluster, owner)[0]
    return tuple(_alternative(plan, flat, member, int(partition_counts[member]), now, spread) for member in order)


def _alternative(plan: "PartitionPlan", flat: int, member: int, item_count: int, now: int, spread: int) -> Alternative:
    view = plan.group.members[member]
    if member == plan.owner[flat]:
        return Alternative(view.member_id, view.rack, item_count, True, True, 0, spread, "The plan chose it.")
    moved = np.array(plan.owner)
    moved[flat] = member
    then = _crossing(plan, flat, moved) - now
    worse = imbalance(plan.group, plan.cluster, moved)[0]
    verdict = _verdict(then, worse - spread, held_before=member == plan.before[flat])
    return Alternative(view.member_id, view.rack, item_count, True, False, then, worse, verdict)


def _verdict(cross: int, spread: int, *, held_before: bool) -> str:
    costs = ["it would be read from another rack"] * (cross > 0)
    costs += [f"the counts would be {spread} further apart"] * (spread > 0)
    gains = ["it would be local"] * (cross < 0) + [f"the counts would be {-spread} closer"] * (spread < 0)
    remains = "it would stay where it was" if held_before else ""
    parts = [*(["but " + " and ".join(costs)] if costs else []), *gains]
    text = ", ".join(filter(None, [remains, *parts])) or "no better and no worse: an equal plan"
    return f"{text[0].upper()}{text[1:]}."


def _crossing(plan: "PartitionPlan", flat: int, owner: IntArray) -> int:
    return int(crossing(plan.group, plan.cluster, owner)[flat])
