"""Summarises the costs of policies over a recording. Pure."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from bellwether_kafka.coordinator.replay.policy_replay import PolicyOutcome

DAY_S = 86_400


class PolicySummary(TypedDict):
    """The cost of a policy over a recording. `moved`, `paused` and `cross_rack`
    count partitions or tasks of all rebalances; `paused` is None for tasks, of which it is not known; shares and
    `imbalance` are means over them. `cost_per_day` has the currency of the price."""

    policy: str
    snapshots: int
    failed: int
    rebalances: int
    moved: int
    paused: int | None
    cross_rack: int
    cross_share: float
    cross_gb_per_day: float
    cost_per_day: float
    imbalance: float


def summary(outcomes: Sequence[PolicyOutcome], price_per_gb: float) -> list[PolicySummary]:
    """Returns one row per policy, in their order. Traffic and cost per day are sums over all groups of their means over
    time."""
    rows: list[PolicySummary] = []
    for name in dict.fromkeys(o.policy for o in outcomes):
        mine = [o for o in outcomes if o.policy == name]
        made = [o for o in mine if not o.failed]
        groups = dict.fromkeys(o.group for o in made)
        per_s = sum(_mean([o.cross_bytes_per_s for o in made if o.group == group]) for group in groups)
        gb_per_day = per_s * DAY_S / 1e9
        rows.append(
            {
                "policy": name,
                "snapshots": len(mine),
                "failed": len(mine) - len(made),
                "rebalances": sum(o.rebalances for o in made),
                "moved": sum(o.moved for o in made),
                "paused": _sum([o.paused for o in made]),
                "cross_rack": sum(o.cross_rack for o in made),
                "cross_share": _mean([o.cross_share for o in made]),
                "cross_gb_per_day": gb_per_day,
                "cost_per_day": gb_per_day * price_per_gb,
                "imbalance": _mean([o.imbalance for o in made]),
            }
        )
    return rows


def _sum(values: Sequence[int | None]) -> int | None:
    counts = [value for value in values if value is not None]
    return sum(counts) if values and len(counts) == len(values) else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
