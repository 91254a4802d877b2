"""Replays recorded consumer groups under other policies, to compare their costs. Pure.

A recording consists of a group's snapshots in order. Each policy plans all of them with its own memory: the partitions
that members own in a rebalance are those that this policy assigned in the rebalance before, not those that the recorded
leader assigned. Recorded follow-up rebalances, which only assign pending partitions, are skipped; each policy makes as
many follow-ups as it needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer import (
    BROKER_SIDE,
    Load,
    PartitionPlan,
    Policy,
    broker_side,
    crossing,
)
from bellwether_kafka.coordinator.replay.recorded import Record, cluster_of, planned_again, raw_of
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition

FOLLOWUPS_MAX = 8


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The result of one policy in one recorded rebalance, with its follow-up rebalances.

    `moved` partitions changed owner. `paused` ones had no owner for a rebalance or longer: all partitions of an eager
    group, the pending ones of a cooperative group, None for tasks. `imbalance` is the load of the fullest member over
    the mean, by weight if weights are known, else by count. `cross_rack` counts partitions read across racks,
    `cross_share` is their share of the load and `cross_bytes_per_s` their measured traffic. `failed` is why there is no
    plan, "" if there is one.
    """

    group: str
    generation: int
    decided_at_ms: int
    policy: str
    members: int
    partitions: int = 0
    rebalances: int = 0
    moved: int = 0
    paused: int | None = 0
    cross_rack: int = 0
    cross_share: float = 0.0
    cross_bytes_per_s: float = 0.0
    imbalance: float = 0.0
    failed: str = ""


class _PolicyReplay:
    """One policy over the snapshots of one group."""

    def __init__(self, policy: Policy, weights: shared.Weights) -> None:
        self._policy = policy.with_weights(weights)
        self._weights = weights
        self._memory = shared.Memory.empty()
        self._given: dict[str, tuple[int, tuple[TopicPartition, ...]]] = {}

    def step(self, snapshot: Record) -> PolicyOutcome:
        """Plans one recorded rebalance and the follow-up rebalances that this policy needs."""
        cluster, recorded = cluster_of(snapshot), raw_of(snapshot)
        had = self._memory
        rebalances, pending = 0, 0
        generation = max(snapshot["generation"], self._memory.generation + 1)
        while True:
            # The members with the owned partitions that this policy gave them. Unreadable ones are unchanged.
            members = tuple(self._member(m, recorded) for m in recorded.members)
            raw = replace(recorded, generation=generation + rebalances, members=members)
            decision = planned_again(snapshot, raw, cluster, self._memory, self._policy)
            if isinstance(decision, shared.Refusal):
                return _failed(snapshot, self._policy.name, decision.reason)
            self._remember(decision)
            rebalances += 1
            pending += int(decision.plan.pending.sum())
            if not decision.followup or rebalances > FOLLOWUPS_MAX:
                break
        return self._outcome(snapshot, decision, had, rebalances, pending)

    def _member(self, member: shared.RawMember, raw: shared.RawGroup) -> shared.RawMember:
        if member.member_id in raw.own_member_ids:
            return member
        try:
            subscription = ConsumerProtocolSubscription.decode(member.metadata)
        except RemoteProtocolError:
            return member
        generation, owned = self._given.get(member.member_id, (-1, ()))
        keeps = self._policy.cooperative(raw.protocol)
        claims = tuple(tp for tp in owned if tp.topic in subscription.topics) if keeps else ()
        claiming = replace(subscription, owned_partitions=claims, generation_id=generation, user_data=None)
        return replace(member, metadata=claiming.encode())

    def _remember(self, decision: shared.Decision[PartitionPlan]) -> None:
        self._memory = decision.plan.memory
        self._given = {
            member: (decision.raw.generation, ConsumerProtocolAssignment.decode(blob).partitions)
            for member, blob in decision.assignments
        }

    def _outcome(
        self,
        snapshot: Record,
        decision: shared.Decision[PartitionPlan],
        had: shared.Memory,
        rebalances: int,
        pending: int,
    ) -> PolicyOutcome:
        group, cluster, owner = decision.plan.group, decision.cluster, decision.plan.owner
        before = had.owner_in(cluster, [m.key for m in group.members])
        changed = shared.moves(before, owner)
        eager = not self._policy.cooperative(decision.raw.protocol)
        load = Load.of(group, cluster, replace(self._policy.load, weights=self._weights))
        return PolicyOutcome(
            group=group.group_id,
            generation=snapshot["generation"],
            decided_at_ms=snapshot["decided_at_ms"],
            policy=self._policy.name,
            members=group.size,
            partitions=int((owner != shared.NOBODY).sum()),
            rebalances=rebalances,
            moved=changed.moved,
            paused=int((before != shared.NOBODY).sum()) if eager else pending,
            cross_rack=decision.cost.cross_rack,
            cross_share=load.crossing(owner),
            cross_bytes_per_s=self._crossed(decision),
            imbalance=load.imbalance(owner),
        )

    def _crossed(self, decision: shared.Decision[PartitionPlan]) -> float:
        across = np.flatnonzero(crossing(decision.plan.group, decision.cluster, decision.plan.owner)).tolist()
        return sum((self._weights.of.get(decision.cluster.name(flat), 0.0) for flat in across), 0.0)


def replay_policies(
    snapshots: Iterable[Record], policies: Sequence[str], weights: shared.Weights
) -> Iterator[PolicyOutcome]:
    """Yields the results of each policy for the snapshots of one group, in the order of time and generation."""
    ordered = sorted(snapshots, key=lambda s: (s["decided_at_ms"], s["generation"]))
    asked = [s for n, s in enumerate(ordered) if n == 0 or _world(ordered[n - 1]) != _world(s)]
    for name in policies:
        replay = _PolicyReplay(broker_side(name) if name in BROKER_SIDE else Policy(name), weights)
        for snapshot in asked:
            yield replay.step(snapshot)


def _world(snapshot: Record) -> tuple[Any, ...]:
    """Returns the snapshot without owned partitions. If it equals the one before, the rebalance is a follow-up or a
    repetition."""
    return (snapshot["protocol"], snapshot["topics"], snapshot["placements"], _subscriptions(snapshot["members"]))


def _subscriptions(members: Sequence[Record]) -> list[tuple[Any, ...]]:
    subscriptions: list[tuple[Any, ...]] = []
    for m in members:
        try:
            subscription = ConsumerProtocolSubscription.decode(bytes(m["metadata"]))
        except RemoteProtocolError:
            subscriptions.append((m["member_id"], bytes(m["metadata"])))
        else:
            subscriptions.append((m["member_id"], subscription.topics, subscription.rack_id))
    return subscriptions


def _failed(snapshot: Record, policy: str, reason: str) -> PolicyOutcome:
    return PolicyOutcome(
        group=snapshot["group"],
        generation=snapshot["generation"],
        decided_at_ms=snapshot["decided_at_ms"],
        policy=policy,
        members=len(snapshot["members"]),
        failed=reason,
    )


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
