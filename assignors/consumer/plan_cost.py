"""The cost of a plan, the one scoring that the chain, metrics and dry runs share, and of what a partition could have
instead."""

from typing import TYPE_CHECKING

import numpy as np

from bellwether_kafka.assignors.consumer.derived import components, mismatched, wanted
from bellwether_kafka.assignors.shared import NOBODY, Alternative, BoolArray, ClusterView, Cost, GroupView, IntArray

if TYPE_CHECKING:
    from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan


def score(group: GroupView, cluster: ClusterView, owner: IntArray) -> Cost:
    """Returns the cost of a plan. A partition without an owner only counts as `unowned`, and only if its topic is
    subscribed. Members without a rack and partitions with unknown replica racks never cross racks. `spread` is that of
    the worst component."""
    return Cost(
        unowned=int((wanted(group, cluster) & (owner == NOBODY)).sum()),
        cross_rack=int(crossing(group, cluster, owner).sum()),
        spread=imbalance(group, cluster, owner)[0],
    )


def crossing(group: GroupView, cluster: ClusterView, owner: IntArray) -> BoolArray:
    """Marks partitions whose owner's rack holds no replica, where the owner's rack and the racks of the replicas are
    known."""
    flats = np.flatnonzero(owner != NOBODY)
    result = np.zeros(len(owner), dtype=np.bool_)
    result[flats] = mismatched(cluster, group.rack[owner[flats]], flats)
    return result


def imbalance(group: GroupView, cluster: ClusterView, owner: IntArray) -> tuple[int, float]:
    """Returns (the worst spread, the standard deviation) over all components, as work cannot move between
    components."""
    count = np.bincount(owner[owner != NOBODY], minlength=group.size)
    parts = [count[c.members] for c in components(group, len(cluster.topics))]
    if not parts:
        return 0, 0.0
    worst = max(int(part.max() - part.min()) for part in parts)
    # In integers, so that equal counts of other members give the same figure to the last digit.
    squares = sum(int((part * part).sum()) - int(part.sum()) ** 2 / len(part) for part in parts)
    return worst, float(np.sqrt(squares / sum(map(len, parts))))


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
