"""Replays recorded rebalances of consumer groups one by one: would today's code, or another policy, have decided the
same?

Each rebalance is decided on its own, from what its leader had: the members' bytes, the cluster, the seed, the orders on
placement that stood, and as memory the plan that was recorded before it. (A backtest instead lets each policy live with
what it gave itself.) What is not
recorded: weights and capacities, so `load-aware` may differ for want of them, and userData echoed to old clients, on
which no plan depends. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bellwether_kafka.assignors import consumer, shared
from bellwether_kafka.pipeline.records.backtest import Record, cluster_of, raw_of

DIFFERENCES_MAX = 100
COPY_ROLE = "active"
ANOTHERS = "the group was only observed"
PLANNED = "plan"  # other answers are sent when it is late
OBSERVED = "observed"  # it was another leader's, and the snapshot is what Bellwether's own plan was made from


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition with another owner (instance id, else member id; None for nobody)."""

    item: str
    recorded: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class PlanCost:
    moved: int
    unowned: int
    cross_rack: int
    spread: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """One rebalance. `differs` counts partitions, of which `differences` lists the first. `failed`: why there is no
    plan now, "" if there is one. `doubt`: why a difference need not mean anything, "" if it does."""

    group: str
    generation: int
    decided_at_ms: int
    policy: str
    recorded_policy: str
    members: int
    partitions: int
    differs: int
    differences: tuple[Difference, ...] = ()
    recorded: PlanCost | None = None
    now: PlanCost | None = None
    failed: str = ""
    doubt: str = ""

    @property
    def same(self) -> bool:
        return not self.differs and not self.failed


@dataclass(slots=True)
class Round:
    """A snapshot and the plan that was made from it: (owner, previous owner, withheld) by (topic, partition). `source`:
    which answer that was."""

    snapshot: Record
    source: str
    plan: dict[tuple[str, int], tuple[str, str | None, bool]] = field(default_factory=dict)


def rounds_of(
    snapshots: Iterable[Record], assignments: Iterable[Record], sources: Mapping[tuple[str, int, int], str]
) -> list[Round]:
    """Snapshots with their plans, in order; those whose plan was not recorded are left out. `sources`: by group,
    generation and time which answer was sent, the plan where nothing is said."""
    found = {_key(snapshot): Round(snapshot, sources.get(_key(snapshot), PLANNED)) for snapshot in snapshots}
    for part in assignments:
        if one := found.get(_key(part)):
            for entry in part["entries"]:
                if entry["role"] == COPY_ROLE and entry["task"] is None:
                    plan = entry["member"], entry["previous"], entry["withheld"]
                    one.plan[entry["topic"], entry["partition"]] = plan
    kept = [one for one in found.values() if one.plan]
    return sorted(kept, key=lambda r: (r.snapshot["decided_at_ms"], r.snapshot["generation"]))


def replay_rounds(
    rounds: Sequence[Round], policies: Mapping[str, consumer.Policy], weights: shared.Weights
) -> Iterator[Replayed]:
    """Every recorded rebalance of one group under each of these policies; none: under the one that it was made by."""
    for number, one in enumerate(rounds):
        before = rounds[number - 1] if number and _follows(one, rounds[number - 1]) else None
        name = one.snapshot["policy"]
        for policy in policies.values() or (consumer.Policy(name),):
            yield _replayed(one, before, replace(policy, load=replace(policy.load, weights=weights)))


def _follows(one: Round, before: Round) -> bool:
    """Whether this leader remembered that rebalance: between rebalances that are apart, others led or the record has a
    gap."""
    former, generation = int(before.snapshot["generation"]), int(one.snapshot["generation"])
    return generation == former + 1


def _replayed(one: Round, before: Round | None, policy: consumer.Policy) -> Replayed:
    snapshot = one.snapshot
    recorded_policy = OBSERVED if one.source == OBSERVED else snapshot["policy"]
    head = (snapshot["group"], snapshot["generation"], snapshot["decided_at_ms"], policy.name, recorded_policy)
    cluster, raw, rules = cluster_of(snapshot), raw_of(snapshot), rules_of(snapshot)
    if rules:
        policy = replace(policy, stages=(*policy.stages, consumer.OperatorRules(rules)))
    now = consumer.decide(raw, cluster, _memory(one, before), policy, snapshot["decided_at_ms"], snapshot["seed"])
    if isinstance(now, shared.Refusal):
        return Replayed(*head, len(raw.others), len(one.plan), len(one.plan), failed=now.reason)
    keys = [member.key for member in now.plan.group.members]
    recorded = _owner(now.plan.group, now.cluster, {tp: owner for tp, (owner, _, _) in one.plan.items()})
    different = np.flatnonzero(recorded != now.plan.owner)
    listed = tuple(
        Difference(
            "-".join(map(str, now.cluster.name(flat))), _name(keys, recorded[flat]), _name(keys, now.plan.owner[flat])
        )
        for flat in different[:DIFFERENCES_MAX].tolist()
    )
    return Replayed(
        *head,
        members=now.plan.group.size,
        partitions=int((now.plan.owner != shared.NOBODY).sum()),
        differs=len(different),
        differences=listed,
        recorded=_cost(now, recorded),
        now=_cost(now, now.plan.owner),
        doubt=_doubt(one, policy) if len(different) else "",
    )


def _doubt(one: Round, policy: consumer.Policy) -> str:
    if policy.name == consumer.LOAD_AWARE:
        return "weights and capacities are not recorded"
    if one.source == OBSERVED:
        return ANOTHERS
    return f"what was sent was a {one.source}" if one.source != PLANNED else ""


def _memory(one: Round, before: Round | None) -> shared.Memory:
    """What the leader remembered: the plan that it had sent in the rebalance before; where that was not its own or is
    not recorded, what the recorded plan names as previous."""
    source = before or one
    raw, cluster = raw_of(source.snapshot), cluster_of(source.snapshot)
    group = consumer.group_view(
        consumer.decode_group(raw), cluster, shared.Memory.empty(), cooperative=False, kind=shared.ClaimKind.HISTORY
    )
    if before is not None:
        held = {tp: owner for tp, (owner, _, withheld) in before.plan.items() if not withheld}
        owner = _owner(group, cluster, held)
        digests = consumer.static_digests(raw.others)
        return shared.Memory.of(raw.generation, cluster, owner, group.members, digests=digests)
    owner = _owner(group, cluster, {tp: previous for tp, (_, previous, _) in one.plan.items()})
    return shared.Memory.of(raw.generation - 1, cluster, owner, group.members)


def _owner(
    group: shared.GroupView, cluster: shared.ClusterView, names: Mapping[tuple[str, int], str | None]
) -> shared.IntArray:
    """An owner array from member keys; a member that is gone owns nothing."""
    position = {member.key: i for i, member in enumerate(group.members)}
    owner = np.full(cluster.partition_total, shared.NOBODY, dtype=np.int32)
    for (topic, partition), name in names.items():
        flat = cluster.flat(topic, partition)
        if flat is not None and name in position:
            owner[flat] = position[name]
    return owner


def _name(keys: Sequence[str], owner: Any) -> str | None:
    return None if owner == shared.NOBODY else keys[int(owner)]


def _cost(decision: shared.Decision[consumer.PartitionPlan], owner: shared.IntArray) -> PlanCost:
    found = consumer.score(decision.plan.group, decision.cluster, owner)
    return PlanCost(shared.moves(decision.plan.before, owner).moved, found.unowned, found.cross_rack, found.spread)


def rules_of(snapshot: Record) -> tuple[shared.Rule, ...]:
    """Operators' orders on placement; versions that recorded none have none."""
    return tuple(shared.Rule(**rule) for rule in snapshot.get("rules", ()))


def _key(record: Record) -> tuple[str, int, int]:
    return record["group"], record["generation"], record["decided_at_ms"]
