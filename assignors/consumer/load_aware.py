"""The policy `load-aware` for consumer groups: it evens out load per member instead of partition counts.

Members keep what they have, and partitions without an owner go to the least loaded subscriber. If a member then exceeds
the dead band, partitions move, within a limit per rebalance and never across racks if they were local. Two plans are
improved in this way, the present one and the count-balanced one of Kafka's sticky assignor, and the plan with the
better score wins. The score charges a plan for moving anything, so that noise moves no partitions. By that score the
winner is never worse than the count-balanced plan, because that is among the candidates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer import derived
from bellwether_kafka.assignors.consumer.plan_cost import crossing
from bellwether_kafka.assignors.consumer.sticky import place
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, FloatArray, GroupView, IntArray, LongArray

_REPEATS = 4


@dataclass(frozen=True, slots=True)
class LoadAware:
    """The assignor. `capacity` is by instance id, or by client id, with which a dynamic member's id begins; members not
    named have capacity 1."""

    weights: shared.Weights = field(default_factory=shared.Weights)
    capacity: Mapping[str, float] = field(default_factory=dict)
    rules: shared.Rules = field(default_factory=shared.Rules)

    name = "load"
    cooperative = False

    @property
    def basis(self) -> str:
        """Returns what the weights are made of."""
        return self.weights.source or "none are known, so counts are balanced"

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        """Returns an owner per flat partition, NOBODY if no member subscribes. Without usable weights it balances
        counts."""
        load = Load.of(group, cluster, self)
        if load.reason or not group.size:
            return by_counts(group, cluster)
        before = load.before
        kept = load.with_orphans(before)
        if load.score(before, kept)[0] <= 0:
            return kept
        counted = by_counts(group, cluster)
        limit = shared.moves(before, counted).moved + load.rules.limit(int((before != NOBODY).sum()))
        best = min([kept, counted], key=lambda owner: load.score(before, owner))
        for _ in range(_REPEATS):
            starts = kept, counted, by_counts(holding(group, best), cluster)
            candidates = [load.balanced(start) for start in starts]
            candidates += [load.balanced(start, home_first=True) for start in starts if load.crossing(start) > 0]
            fit = [owner for owner in candidates if shared.moves(before, owner).moved <= limit]
            better = min([best, *fit], key=lambda owner: load.score(before, owner))
            if np.array_equal(better, best):
                break
            kept = best = better
        return best


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """The weights and capacities of a group, and the plans that follow from them. `weight` is per flat partition, with
    mean 1. `reason` is why weights cannot be used, "" if they can."""

    group: GroupView
    cluster: ClusterView
    weight: FloatArray
    capacity: FloatArray
    rules: shared.Rules
    parts: tuple[derived.Component, ...]
    before: IntArray
    reason: str = ""

    @classmethod
    def of(cls, group: GroupView, cluster: ClusterView, policy: LoadAware) -> "Load":
        wanted = derived.wanted(group, cluster)
        weight, reason = policy.weights.dense(cluster, wanted)
        capacity, parts = capacities(group, policy.capacity), tuple(derived.components(group, len(cluster.topics)))
        rules = policy.rules.for_error(policy.weights.error_in(cluster, wanted), group.size)
        return cls(group, cluster, weight, capacity, rules, parts, derived.current_owner(group, cluster), reason)

    def per_member(self, owner: IntArray) -> FloatArray:
        """Returns the load per unit of capacity of each member."""
        assigned = owner != NOBODY
        return np.bincount(owner[assigned], self.weight[assigned], self.group.size) / self.capacity

    def imbalance(self, owner: IntArray) -> float:
        """Returns the fullest member's load relative to the mean of its component, in the worst component; 1 is
        perfect."""
        worst = 1.0
        for part in self.parts:
            full, capacity = self.per_member(owner)[part.members], self.capacity[part.members]
            mean = float((full * capacity).sum() / capacity.sum())
            if mean > 0:
                worst = max(worst, float(full.max()) / mean)
        return worst

    def crossing(self, owner: IntArray) -> float:
        """Returns the share of the load that members read across racks."""
        return float(self.weight[crossing(self.group, self.cluster, owner)].sum() / max(1.0, self.weight.sum()))

    def overload(self, owner: IntArray) -> float:
        """Returns by how much the fullest member exceeds the dead band, in mean loads, in the worst component."""
        load, worst = self.per_member(owner) * self.capacity, 0.0
        for part in self.parts:
            flats = part.flats(self.cluster)
            capacity, local = self.capacity[part.members], self._positions(part, owner[flats])
            worst = max(worst, shared.excess(load[part.members], capacity, self.weight[flats], local, self.rules.band))
        return worst

    def score(self, before: IntArray, owner: IntArray) -> tuple[float, int]:
        """Returns a score, lower is better: first overload, load across racks and the charge for moving anything; then
        the number of moves."""
        moved = shared.moves(before, owner).moved
        return self.overload(owner) + self.crossing(owner) + self.rules.moving_charge * (moved > 0), moved

    def with_orphans(self, before: IntArray) -> IntArray:
        """Keeps all owners and places partitions without an owner by weight."""
        owner = before.copy()
        for part in self.parts:
            flats = part.flats(self.cluster)
            if len(orphans := np.flatnonzero(owner[flats] == NOBODY)):
                items = self._items(part, flats, owner)
                items.deal(orphans)
                owner[flats] = part.members[items.owner]
        return owner

    def balanced(self, start: IntArray, *, home_first: bool = False) -> IntArray:
        """Returns a plan with less overload and less load across racks than `start`, or `start` itself."""
        owner = start.copy()
        for part in self.parts:
            if len(flats := part.flats(self.cluster)):
                items = self._items(part, flats, owner)
                items.run(self.rules, home_first=home_first)
                owner[flats] = part.members[items.owner]
        return owner

    def _positions(self, part: derived.Component, owner: IntArray) -> IntArray:
        """Returns the places of these owners among the members of a component."""
        position = np.full(self.group.size + 1, NOBODY, dtype=np.int32)  # the last entry is for NOBODY
        position[part.members] = np.arange(len(part.members), dtype=np.int32)
        return np.asarray(position[owner], dtype=np.int32)

    def _items(self, part: derived.Component, flats: LongArray, owner: IntArray) -> shared.Balancer:
        """Returns a balancer of a component's partitions over its members, in the component's own coordinates."""
        local = self._positions(part, owner[flats])
        return shared.Balancer(self.weight[flats], local, self.capacity[part.members], self._terms(part, flats))

    def _terms(self, part: derived.Component, flats: LongArray) -> shared.Terms:
        group, cluster = self.group, self.cluster
        subscribers = derived.topic_classes(group, len(cluster.topics)).of
        pairs = np.stack([group.rack[part.members], group.topic_set[part.members]], axis=1)
        nodes, place = np.unique(pairs, axis=0, return_inverse=True)
        both = np.stack([cluster.signature[flats], subscribers[cluster.topic_of()[flats]]], axis=1)
        kinds, sample, item = np.unique(both, axis=0, return_index=True, return_inverse=True)
        example = flats[sample]
        subscribed = derived.subscriptions(group, len(cluster.topics))[nodes[:, 1]][:, cluster.topic_of()[example]].T
        price = derived.remote_racks(cluster)[np.ix_(kinds[:, 0], nodes[:, 0])].astype(np.int32)
        return shared.Terms(item.reshape(-1).astype(np.int32), place.reshape(-1).astype(np.int32), subscribed, price)


def holding(group: GroupView, owner: IntArray) -> GroupView:
    """Returns the group as if its members had what this plan gives them."""
    nothing = np.zeros(0, dtype=np.int32)
    first = np.zeros(group.size + 1, dtype=np.int64)
    return replace(group, claims=nothing, claims_first=first, remembered=owner, remembered_generation=group.generation)


def by_counts(group: GroupView, cluster: ClusterView) -> IntArray:
    """Returns the plan of Kafka's sticky assignor without racks."""
    return place(replace(group, rack=np.full(group.size, NO_RACK, dtype=np.int32)), cluster)


def capacities(group: GroupView, named: Mapping[str, float]) -> FloatArray:
    """Returns the capacity of each member, 1 unless named."""
    capacity = np.ones(group.size, dtype=np.float64)
    for m, member in enumerate(group.members):
        value = named.get(member.instance_id or "", named.get(_client_of(member), 1.0))
        capacity[m] = value if np.isfinite(value) and value > 0 else 1.0
    return capacity


def capacities_of_nobody(group: GroupView, named: Mapping[str, float]) -> list[str]:
    """Returns the names that have a capacity and that no member has."""
    names = {name for member in group.members for name in (member.instance_id or "", _client_of(member))}
    return sorted(named.keys() - names)


def _client_of(member: shared.MemberView) -> str:
    return member.client_id or member.member_id.rsplit("-", 5)[0]  # <client id>-<uuid>
