"""Summarises the costs of policies over a recording, as figures and as text. Pure."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from bellwether_kafka.coordinator.replay.policy_replay import PolicyOutcome

DAY_S = 86_400
PRICE_PER_GB = 0.01  # a usual price of clouds for a gigabyte between zones, in each direction


class PolicySummary(TypedDict):
    """The cost of a policy over a recording, in the JSON of `simulate --history`. `moved`, `paused` and `cross_rack`
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


def recommendation(outcomes: Sequence[PolicyOutcome], price_per_gb: float = PRICE_PER_GB) -> str:
    """Returns a text with the recommended policy and the costs of the others, ranked by `rank`."""
    table = summary(outcomes, price_per_gb)
    if not table:
        return "Nothing was recorded, so nothing can be recommended."
    best = table[0]
    first = (
        f"Recommended: {best['policy']}. Over {best['snapshots']} recorded rebalances its fullest member had on average"
        f" {best['imbalance']:.2f} times the mean, {best['cross_share']:.1%} of the load crossed racks"
        f" ({_money(best)} at {price_per_gb} per GB),"
        f" {_moved(best)}{_failed(best)}."
    )
    return "\n".join([first, *map(_sentence, table[1:])])


def _sentence(row: PolicySummary) -> str:
    return (
        f"{row['policy']}: {row['imbalance']:.2f} times the mean,"
        f" {row['cross_share']:.1%} across racks ({_money(row)}),"
        f" {_moved(row)}{_failed(row)}."
    )


def _failed(row: PolicySummary) -> str:
    return f", no plan in {row['failed']} rebalances" if row["failed"] else ""


def _moved(row: PolicySummary) -> str:
    return f"{row['moved']} moved" + (f", {row['paused']} paused" if row["paused"] is not None else "")


def _money(row: PolicySummary) -> str:
    return f"{row['cross_gb_per_day']:.3g} GB or {row['cost_per_day']:.2f} a day"


def summary(outcomes: Sequence[PolicyOutcome], price_per_gb: float = PRICE_PER_GB) -> list[PolicySummary]:
    """Returns one row per policy, the best first, and equally good ones by name. Traffic and cost per day are sums over
    all groups of their means over time."""
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
    return sorted(rows, key=lambda row: (rank(row), row["policy"]))


def rank(row: PolicySummary) -> tuple[float, ...]:
    """Returns a key by which lower is better: rebalances without a plan; then overload beyond a tenth plus the share of
    load across racks; then moves."""
    return row["failed"], round(max(0.0, row["imbalance"] - 1.1) + row["cross_share"], 3), row["moved"]


def _sum(values: Sequence[int | None]) -> int | None:
    counts = [value for value in values if value is not None]
    return sum(counts) if values and len(counts) == len(values) else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
