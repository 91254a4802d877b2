"""What a move gains: whether the item is read from nearer, and whether owners become more even. Pure.

A move may gain neither and still be right, because of a pin, a weight, or the policy's own order of members.
"""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, GroupPlan, IntArray, LongArray

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
