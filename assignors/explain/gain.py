"""What a move gains: whether what moves is read nearer, and whether owners become more even. Pure.

A move may gain neither, and still be right: a pin, a weight, or the policy's own order of members ask for more than
these two.
"""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, GroupPlan, IntArray, LongArray

NEARER = "no longer read from another rack"
FARTHER = "read from another rack then"


def gains(plan: GroupPlan, before: IntArray, items: LongArray) -> list[str]:
    """In words, of each of these items, which all have an owner in `before`; "" for neither. Costs, too, are said. Of
    balance only where the item leaves the one of the two that had more."""
    if not len(items):
        return []  # most rebalances: the rest looks at every partition of the group
    owners = len(plan.owners)
    had = np.bincount(before[before != NOBODY], minlength=owners)
    has = np.bincount(plan.owner[plan.owner != NOBODY], minlength=owners)
    _, far = plan.read_remotely(before)
    _, far_then = plan.read_remotely(plan.owner)
    found = []
    for item in items.tolist():
        source, target = int(before[item]), int(plan.owner[item])
        reasons = (
            [NEARER] if far[item] and not far_then[item] else [FARTHER] if far_then[item] and not far[item] else []
        )
        if target != NOBODY and abs(has[source] - has[target]) < had[source] - had[target]:
            reasons.append(f"{had[source]} and {had[target]} become {has[source]} and {has[target]}")
        found.append(", ".join(reasons) if target != NOBODY else "")
    return found
