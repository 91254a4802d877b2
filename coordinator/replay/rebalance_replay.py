"""Replays recorded rebalances of consumer groups to see whether the present code, or another policy, plans the same.

Pure. Each rebalance is planned separately, with the plan recorded before it as its memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors import consumer, shared
from bellwether_kafka.coordinator.events import ACTIVE, OBSERVED, PLANNED
from bellwether_kafka.coordinator.replay.recorded import (
    ANOTHERS,
    DIFFERENCES_MAX,
    Difference,
    PlanCost,
    Record,
    Replayed,
    cluster_of,
    planned_again,
    raw_of,
)


@dataclass(slots=True)
class RecordedRebalance:
    """A snapshot and the plan made from it: (owner, previous owner, pending) by (topic, partition). `source` is that of
    the decision."""

    snapshot: Record
    source: str
    plan: dict[tuple[str, int], tuple[str, str | None, bool]] = field(default_factory=dict)


def rebalances_of(
    snapshots: Iterable[Record], assignments: Iterable[Record], sources: Mapping[tuple[str, int, int], str]
) -> list[RecordedRebalance]:
    """Returns snapshots with their plans, in order, without those whose plan was not recorded. `sources` are those of
    decisions by group, generation and time; PLANNED if missing."""
    by_key = {_key(row): RecordedRebalance(row, sources.get(_key(row), PLANNED)) for row in snapshots}
    for part in assignments:
        if rebalance := by_key.get(_key(part)):
            for entry in part["entries"]:
                if entry["role"] == ACTIVE and entry["task"] is None:
                    plan = entry["member"], entry["previous"], entry["withheld"]
                    rebalance.plan[entry["topic"], entry["partition"]] = plan
    kept = [rebalance for rebalance in by_key.values() if rebalance.plan]
    return sorted(kept, key=lambda r: (r.snapshot["decided_at_ms"], r.snapshot["generation"]))


def replay_rebalances(
    rebalances: Sequence[RecordedRebalance], policies: Mapping[str, consumer.Policy], weights: shared.Weights
) -> Iterator[Replayed]:
    """Yields the results of each recorded rebalance of one group, under each of these policies, or without any under
    the recorded one."""
    for number, rebalance in enumerate(rebalances):
        before = rebalances[number - 1] if number and _follows(rebalance, rebalances[number - 1]) else None
        name = rebalance.snapshot["policy"]
        for policy in policies.values() or (consumer.Policy(name),):
            yield _replayed(rebalance, before, policy.with_weights(weights))


def _follows(rebalance: RecordedRebalance, before: RecordedRebalance) -> bool:
    """Returns whether the leader remembered the rebalance before. If generations are missing in between, another member
    led or the recording has a gap."""
    former, generation = int(before.snapshot["generation"]), int(rebalance.snapshot["generation"])
    return generation == former + 1


def _replayed(rebalance: RecordedRebalance, before: RecordedRebalance | None, policy: consumer.Policy) -> Replayed:
    snapshot = rebalance.snapshot
    raw = raw_of(snapshot)
    replayed = Replayed(
        group=snapshot["group"],
        generation=snapshot["generation"],
        decided_at_ms=snapshot["decided_at_ms"],
        policy=policy.name,
        recorded_policy=OBSERVED if rebalance.source == OBSERVED else snapshot["policy"],
        members=len(raw.others),
        partitions=len(rebalance.plan),
        differs=len(rebalance.plan),
    )
    now = planned_again(snapshot, raw, cluster_of(snapshot), _memory(rebalance, before), policy)
    if isinstance(now, shared.Refusal):
        return replace(replayed, failed=now.reason)
    keys = [member.key for member in now.plan.group.members]
    recorded = _owner(now.plan.group, now.cluster, {tp: owner for tp, (owner, _, _) in rebalance.plan.items()})
    different = np.flatnonzero(recorded != now.plan.owner)
    listed = tuple(
        Difference(
            "-".join(map(str, now.cluster.name(flat))), _name(keys, recorded[flat]), _name(keys, now.plan.owner[flat])
        )
        for flat in different[:DIFFERENCES_MAX].tolist()
    )
    return replace(
        replayed,
        members=now.plan.group.size,
        partitions=int((now.plan.owner != shared.NOBODY).sum()),
        differs=len(different),
        differences=listed,
        recorded=_cost(now, recorded),
        now=_cost(now, now.plan.owner),
        caveat=_caveat(rebalance, policy) if len(different) else "",
    )


def _caveat(rebalance: RecordedRebalance, policy: consumer.Policy) -> str:
    if policy.name == consumer.LOAD_AWARE:
        return "weights and capacities are not recorded"
    if rebalance.source == OBSERVED:
        return ANOTHERS
    return f"what was sent was a {rebalance.source}" if rebalance.source != PLANNED else ""


def _memory(rebalance: RecordedRebalance, before: RecordedRebalance | None) -> shared.Memory:
    """Returns the leader's memory: the plan that it sent in the rebalance before. If `before` is None, it is made of
    the previous owners in the recorded plan."""
    source = before or rebalance
    raw, cluster = raw_of(source.snapshot), cluster_of(source.snapshot)
    group = consumer.group_view(
        consumer.decode_group(raw), cluster, shared.Memory.empty(), cooperative=False, kind=shared.ClaimKind.HISTORY
    )
    if before is not None:
        delivered = {tp: owner for tp, (owner, _, pending) in before.plan.items() if not pending}
        owner = _owner(group, cluster, delivered)
        digests = consumer.static_digests(raw.others)
        return shared.Memory.of(raw.generation, cluster, owner, group.members, digests=digests)
    owner = _owner(group, cluster, {tp: previous for tp, (_, previous, _) in rebalance.plan.items()})
    return shared.Memory.of(raw.generation - 1, cluster, owner, group.members)


def _owner(
    group: shared.GroupView, cluster: shared.ClusterView, names: Mapping[tuple[str, int], str | None]
) -> shared.IntArray:
    """Returns an array of owners from member keys. Partitions of members that are not in the group have no owner."""
    position = {member.key: i for i, member in enumerate(group.members)}
    owner = np.full(cluster.partition_total, shared.NOBODY, dtype=np.int32)
    for (topic, partition), name in names.items():
        flat = cluster.flat(topic, partition)
        if flat is not None and name in position:
            owner[flat] = position[name]
    return owner


def _name(keys: Sequence[str], owner: int) -> str | None:
    return None if owner == shared.NOBODY else keys[int(owner)]


def _cost(decision: shared.Decision[consumer.PartitionPlan], owner: shared.IntArray) -> PlanCost:
    cost = consumer.score(decision.plan.group, decision.cluster, owner)
    return PlanCost(shared.moves(decision.plan.before, owner).moved, cost.unowned, cost.cross_rack, cost.spread)


def _key(record: Record) -> tuple[str, int, int]:
    return record["group"], record["generation"], record["decided_at_ms"]
