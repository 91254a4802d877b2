"""The traffic of members across racks: bytes per second from rack to rack, by the measured weights of partitions. Pure.

A member reads a partition from its leader. If brokers let consumers fetch from the closest replica (KIP-392,
`replica.selector.class`), a replica in the member's own rack serves it instead. Without that setting, and for a member
that sends no client.rack, such a replica saves nothing. Standbys' reads of changelogs are not counted, nor are members
and leaders without a known rack.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, Decision, GroupPlan, IntArray, Weights

GIGABYTE = 1e9
HOUR_S = 3600

Pair = tuple[str, str]  # the rack of the serving replica, the rack of the reading member


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per second `between` different racks, and in `total`. `weighed` of `owned` partitions have a weight.
    `partitions` counts those read across racks, with or without a weight."""

    between: Mapping[Pair, float]
    partitions: Mapping[Pair, int]
    total: float
    weighed: int
    owned: int

    @property
    def crossing(self) -> float:
        return sum(self.between.values())


def cost_per_hour(bytes_per_s: float, price_per_gb: float) -> float:
    """Returns the cost in the currency of the price. A gigabyte is 10^9 bytes, as on bills."""
    return bytes_per_s * HOUR_S / GIGABYTE * price_per_gb


def traffic_of(
    decision: Decision[GroupPlan], weights: Weights, *, follower_fetching: bool, present: bool = False
) -> Traffic:
    """Returns the traffic of the target, or, with `present`, of the owners before the decision."""
    plan = decision.plan
    owner = shared.lookup(plan.before if present else plan.owner, plan.item_of, NOBODY)
    racks, leader_only = [holder.rack for holder in plan.owners], [holder.leader_only for holder in plan.owners]
    return flows(plan.cluster, owner, racks, weights, follower_fetching, leader_only=leader_only)


def flows(
    cluster: ClusterView,
    owner: IntArray,
    racks: Sequence[str | None],
    weights: Weights,
    follower_fetching: bool,
    *,
    leader_only: Sequence[bool] = (),
) -> Traffic:
    """Returns the traffic of these owners. `owner` has a position in `racks`, or NOBODY, for each flat partition.
    `leader_only` marks owners that fetch from leaders whatever the brokers allow; () for none."""
    names = sorted({*cluster.racks, *(rack for rack in racks if rack)})
    code = {name: i for i, name in enumerate(names)}
    own = np.array([code[rack] if rack else NO_RACK for rack in racks] + [NO_RACK], dtype=np.int64)
    broker = np.array([code[rack] for rack in cluster.racks] + [NO_RACK], dtype=np.int64)  # NO_RACK, -1, is the last
    flats = np.flatnonzero(owner != NOBODY)
    weight = weights.raw(cluster)[flats]
    reader, source = own[owner[flats]], broker[cluster.leader_rack[flats]]
    if follower_fetching:
        has_replica = np.zeros((len(cluster.signature_racks), len(names) + 1), dtype=np.bool_)
        has_replica[:, broker[:-1]] = cluster.replica_racks
        near = has_replica[cluster.signature[flats], reader]
        if any(leader_only):
            near &= ~np.array(leader_only, dtype=np.bool_)[owner[flats]]
        source = np.where(near, reader, source)
    weighed = ~np.isnan(weight)
    crossed = (reader != NO_RACK) & (source != NO_RACK) & (reader != source)
    crossings, at = np.unique(source[crossed] * len(names) + reader[crossed], return_inverse=True)
    pairs = [(names[pair // len(names)], names[pair % len(names)]) for pair in crossings.tolist()]
    sums = np.bincount(at.reshape(-1), weights=np.nan_to_num(weight[crossed]), minlength=len(pairs)).tolist()
    counts = np.bincount(at.reshape(-1), minlength=len(pairs)).tolist()
    return Traffic(
        between={pair: value for pair, value in zip(pairs, sums, strict=True) if value},
        partitions=dict(zip(pairs, counts, strict=True)),
        total=float(weight[weighed].sum()),
        weighed=int(weighed.sum()),
        owned=len(flats),
    )
