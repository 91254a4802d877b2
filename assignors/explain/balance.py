"""The fullest owner of a plan over the mean. Pure."""

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import NOBODY, FloatArray, GroupPlan, IntArray, Weights


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
