"""Replays recorded groups under other policies: what would they have cost? Pure Python over `decide`.

`pipeline.records.history` runs it on Spark and on one machine.

A recording is a group's snapshots in order. Each policy lives through all of them with a memory of its own: what
members own in a rebalance is what that policy gave them in the rebalance before, not what the recorded leader gave
them. Rebalances that only hand out what was withheld are not replayed; each policy has as many of its own as it needs.
For consumer groups.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer import (
    BROKER_SIDE,
    LOAD_AWARE,
    Load,
    PartitionPlan,
    Policy,
    broker_side,
    crossing,
    decide,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition

FOLLOWUPS_MAX = 8
DAY_S = 86_400
PRICE_PER_GB = 0.01  # what clouds take for a gigabyte between zones, each way

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BacktestOutcome:
    """One policy in one recorded rebalance, its follow-up rebalances included.

    `moved` partitions changed owner; `paused` were without an owner for a rebalance or more (all that a range or sticky
    group has, what was withheld from a cooperative one). `imbalance` is the fullest member over the mean, by weight if
    weights are known, else by count; `cross_rack` counts partitions, `cross_share` is their share of the load and
    `cross_bytes_per_s` that load in bytes, as far as it was measured.
    `failed` says why there is no plan, "" if there is one.
    """

    group: str
    generation: int
    decided_at_ms: int
    policy: str
    members: int
    partitions: int
    rounds: int
    moved: int
    paused: int
    cross_rack: int
    cross_share: float
    cross_bytes_per_s: float
    imbalance: float
    failed: str = ""


OUTCOME_SCHEMA = (
    "group string, generation int, decided_at_ms long, policy string, members int, partitions int, rounds int,"
    " moved long, paused long, cross_rack long, cross_share double, cross_bytes_per_s double,"
    " imbalance double, failed string"
)


def cluster_of(snapshot: Record) -> shared.ClusterView:
    """The cluster as the recorded decision saw it."""
    placements = [tuple(row) for row in snapshot["placements"]]
    layout = {topic["name"]: [placements[row] for row in topic["placements"]] for topic in snapshot["topics"]}
    return shared.ClusterView.of(layout, unreadable=frozenset(snapshot["unreadable"]))


def raw_of(snapshot: Record) -> shared.RawGroup:
    listed = snapshot["members"]
    members = tuple(shared.RawMember(m["member_id"], m["instance_id"], bytes(m["metadata"])) for m in listed)
    own = frozenset(m["member_id"] for m in listed if m["own"])
    return shared.RawGroup(snapshot["group"], snapshot["generation"], snapshot["protocol"], members, own)


class Replay:
    """One policy living through the snapshots of one group."""

    def __init__(self, policy: Policy, weights: shared.Weights) -> None:
        self._policy = replace(policy, load=replace(policy.load, weights=weights))
        self._weights = weights
        self._memory = shared.Memory.empty()
        self._given: dict[str, tuple[int, tuple[TopicPartition, ...]]] = {}

    def step(self, snapshot: Record) -> BacktestOutcome:
        """One recorded rebalance and the follow-up rebalances that this policy needs."""
        cluster, recorded = cluster_of(snapshot), raw_of(snapshot)
        had = self._memory
        rounds, withheld = 0, 0
        generation = max(snapshot["generation"], self._memory.generation + 1)
        while True:
            # The members as they would have joined under this policy. Bytes that cannot be read stay as they are.
            members = tuple(self._member(m, recorded) for m in recorded.members)
            raw = replace(recorded, generation=generation + rounds, members=members)
            decision = decide(raw, cluster, self._memory, self._policy, snapshot["decided_at_ms"], snapshot["seed"])
            if isinstance(decision, shared.Refusal):
                return _failed(snapshot, self._policy.name, decision.reason)
            self._remember(decision)
            rounds += 1
            withheld += int(decision.plan.withheld.sum())
            if not decision.followup or rounds > FOLLOWUPS_MAX:
                break
        return self._outcome(snapshot, decision, had, rounds, withheld)

    def _member(self, member: shared.RawMember, raw: shared.RawGroup) -> shared.RawMember:
        if member.member_id in raw.own_member_ids:
            return member
        try:
            said = ConsumerProtocolSubscription.decode(member.metadata)
        except RemoteProtocolError:
            return member
        generation, owned = self._given.get(member.member_id, (-1, ()))
        keeps = self._policy.cooperative(raw.protocol)
        claims = tuple(tp for tp in owned if tp.topic in said.topics) if keeps else ()
        told = replace(said, owned_partitions=claims, generation_id=generation, user_data=None)
        return replace(member, metadata=told.encode())

    def _remember(self, decision: shared.Decision[PartitionPlan]) -> None:
        self._memory = decision.plan.memory
        self._given = {
            member: (decision.raw.generation, ConsumerProtocolAssignment.decode(blob).partitions)
            for member, blob in decision.assignments
        }

    def _outcome(
        self, snapshot: Record, decision: shared.Decision[PartitionPlan], had: shared.Memory, rounds: int, withheld: int
    ) -> BacktestOutcome:
        group, cluster, owner = decision.plan.group, decision.cluster, decision.plan.owner
        before = had.owner_in(cluster, [m.key for m in group.members])
        changed = shared.moves(before, owner)
        eager = not self._policy.cooperative(decision.raw.protocol)
        load = Load.of(group, cluster, replace(self._policy.load, weights=self._weights))
        return BacktestOutcome(
            group=group.group_id,
            generation=snapshot["generation"],
            decided_at_ms=snapshot["decided_at_ms"],
            policy=self._policy.name,
            members=group.size,
            partitions=int((owner != shared.NOBODY).sum()),
            rounds=rounds,
            moved=changed.moved,
            paused=int((before != shared.NOBODY).sum()) if eager else withheld,
            cross_rack=decision.cost.cross_rack,
            cross_share=load.crossing(owner),
            cross_bytes_per_s=self._crossed(decision),
            imbalance=load.imbalance(owner),
        )

    def _crossed(self, decision: shared.Decision[PartitionPlan]) -> float:
        across = np.flatnonzero(crossing(decision.plan.group, decision.cluster, decision.plan.owner)).tolist()
        return sum((self._weights.of.get(decision.cluster.name(flat), 0.0) for flat in across), 0.0)


def replay(snapshots: Iterable[Record], policies: Sequence[str], weights: shared.Weights) -> Iterator[BacktestOutcome]:
    """Every policy through the snapshots of one group, which are taken in the order of their generations."""
    ordered = sorted(snapshots, key=lambda s: (s["decided_at_ms"], s["generation"]))
    asked = [s for n, s in enumerate(ordered) if n == 0 or _world(ordered[n - 1]) != _world(s)]
    for name in policies:
        one = Replay(broker_side(name) if name in BROKER_SIDE else Policy(name), weights)
        for snapshot in asked:
            yield one.step(snapshot)


def recommendation(outcomes: Sequence[BacktestOutcome], price_per_gb: float = PRICE_PER_GB) -> str:
    """In words: which policy, and what the others would have cost. Ranks by load beyond a tenth over the mean, then by
    load across racks, then by moves."""
    table = summary(outcomes, price_per_gb)
    if not table:
        return "Nothing was recorded, so nothing can be recommended."
    best = table[0]
    first = (
        f"Recommended: {best['policy']}. Over {best['snapshots']} recorded rebalances its fullest member had on average"
        f" {best['imbalance']:.2f} times the mean, {best['cross_share']:.1%} of the load crossed racks"
        f" ({_money(best)} at {price_per_gb} per GB),"
        f" {best['moved']} partitions moved and {best['paused']} were paused."
    )
    return "\n".join([first, *map(_sentence, table[1:])])


def _sentence(row: Mapping[str, Any]) -> str:
    failed = f", no plan in {row['failed']} rounds" if row["failed"] else ""
    return (
        f"{row['policy']}: {row['imbalance']:.2f} times the mean,"
        f" {row['cross_share']:.1%} across racks ({_money(row)}),"
        f" {row['moved']} moved, {row['paused']} paused{failed}."
    )


def _money(row: Mapping[str, Any]) -> str:
    return f"{row['cross_gb_per_day']:.3g} GB or {row['cost_per_day']:.2f} a day"


def summary(outcomes: Sequence[BacktestOutcome], price_per_gb: float = PRICE_PER_GB) -> list[dict[str, Any]]:
    """One row per policy, best first, by name where two are as good: Spark has outcomes in any order. Traffic and money
    of a day are of all groups together, on average over time."""
    rows = []
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
                "rounds": sum(o.rounds for o in made),
                "moved": sum(o.moved for o in made),
                "paused": sum(o.paused for o in made),
                "cross_rack": sum(o.cross_rack for o in made),
                "cross_share": _mean([o.cross_share for o in made]),
                "cross_gb_per_day": gb_per_day,
                "cost_per_day": gb_per_day * price_per_gb,
                "imbalance": _mean([o.imbalance for o in made]),
            }
        )
    return sorted(rows, key=lambda row: (rank(row), row["policy"]))


def rank(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Lower is better: rebalances without a plan, overload beyond a tenth together with load across racks, then
    moves."""
    return row["failed"], round(max(0.0, row["imbalance"] - 1.1) + row["cross_share"], 3), row["moved"]


def _world(snapshot: Record) -> tuple[Any, ...]:
    """Everything but claims: where it is the same as before, the rebalance is a follow-up or a repetition."""
    return (snapshot["protocol"], snapshot["topics"], snapshot["placements"], _subscriptions(snapshot["members"]))


def _subscriptions(members: Sequence[Record]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for m in members:
        try:
            said = ConsumerProtocolSubscription.decode(bytes(m["metadata"]))
        except RemoteProtocolError:
            found.append((m["member_id"], bytes(m["metadata"])))
        else:
            found.append((m["member_id"], said.topics, said.rack_id))
    return found


def _failed(snapshot: Record, policy: str, reason: str) -> BacktestOutcome:
    head = snapshot["group"], snapshot["generation"], snapshot["decided_at_ms"], policy
    return BacktestOutcome(*head, len(snapshot["members"]), 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, reason)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


BACKTEST_POLICIES = ("kafka", "sticky-min-churn", "rack-first", "topic-balance", LOAD_AWARE)
