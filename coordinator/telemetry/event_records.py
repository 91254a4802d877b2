"""Converts decisions to event records for the Avro schemas of `coordinator/events/schemas`. Pure.

A member is identified by its instance id, which survives a restart, else by its member id; a Streams process by its
process id. Large plans are split into several events, so that none exceeds a broker's size limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, GroupPlan, IntArray, Owner, Rule
from bellwether_kafka.coordinator.events import STANDBY, UNKNOWN, WARMUP, assignment_entries
from bellwether_kafka.coordinator.planning import Planned, TaskRequest, pack

RULE_FIELDS = "kind", "item", "where", "order"
ENTRIES_MAX = 1_000  # per event; about 100 bytes each

EventRecord = tuple[str, dict[str, Any]]


def decision_events(planned: Planned[GroupPlan]) -> Iterator[EventRecord]:
    """Yields all events about one plan."""
    decision = planned.decision
    head = _head(decision, "decided_at_ms")
    yield "decision", decision_record(planned)
    yield from (("assignment", record) for record in parts(head, assignment_entries(decision.plan)))
    yield from (("membership", record) for record in membership_records(planned.previous, decision))
    if decision.plan.replayable:
        yield "snapshot", snapshot_record(decision, planned.rules)
    sampled = {"group": decision.raw.group_id, "sampled_at_ms": decision.decided_at_ms}
    yield from (("lag", record) for record in chunks(sampled, copy_lag_entries(decision.plan)))
    if isinstance(planned.inputs, TaskRequest):
        yield "round", {**head, "policy": decision.policy, "inputs": pack(planned.inputs)}


def decision_record(planned: Planned[GroupPlan]) -> dict[str, Any]:
    decision, why, timings = planned.decision, planned.cause, planned.timings
    return {
        "group": decision.raw.group_id,
        "kind": decision.plan.words.kind,
        "generation": decision.raw.generation,
        "decided_at_ms": decision.decided_at_ms,
        "protocol": decision.raw.protocol,
        "policy": decision.policy,
        "source": planned.source.value,
        "cause_kind": why.kind.value,
        "cause": why.sentence,
        "members": len(decision.raw.others),
        "owned": int(np.count_nonzero(decision.plan.owner != NOBODY)),
        "withheld": int(decision.plan.pending.sum()),
        **asdict(decision.moves),
        **asdict(decision.cost),
        "metadata_ms": timings.metadata_s * 1000,
        "plan_ms": timings.plan_s * 1000,
        "sync_ms": timings.sync_s * 1000,
        "followup": decision.followup,
        "warnings": list(decision.warnings),
    }


def copy_lag_entries(plan: GroupPlan) -> list[dict[str, Any]]:
    """Returns the lag of each standby and warm-up copy, as processes reported it when they joined. They report no
    offsets, so these are UNKNOWN."""
    return [
        {
            "topic": "",
            "partition": copy.task.partition,
            "task": str(copy.task),
            "role": WARMUP if copy.warmup else STANDBY,
            "member": str(copy.process_id),
            "committed": UNKNOWN,
            "end": UNKNOWN,
            "lag": max(copy.lag, UNKNOWN),
        }
        for copy in plan.state.copies
    ]


def membership_records(previous: Decision[GroupPlan] | None, decision: Decision[GroupPlan]) -> list[dict[str, Any]]:
    """Returns the changes of owners since the previous plan. If there is none, all of them count as joined."""
    before = {owner.key: owner for owner in previous.plan.owners} if previous is not None else {}
    after = {owner.key: owner for owner in decision.plan.owners}
    changes = [("left", owner) for key, owner in before.items() if key not in after]
    changes += [(change, owner) for key, owner in after.items() if (change := _change(before.get(key), owner))]
    head = _head(decision, "changed_at_ms")
    return [
        {
            **head,
            "change": change,
            "member": owner.key,
            "member_id": owner.members[0],
            "instance_id": owner.instance_id,
            "rack": owner.rack,
        }
        for change, owner in changes
    ]


def _change(old: Owner | None, now: Owner) -> str:
    if old is None:
        return "joined"
    if old.name != now.name:
        return "restarted"
    return "resubscribed" if old.topics != now.topics else ""


def snapshot_record(decision: Decision[GroupPlan], rules: tuple[Rule, ...] = ()) -> dict[str, Any]:
    """Returns the inputs of `decide`, except for its memory, which a replay builds up again."""
    raw, cluster = decision.raw, decision.cluster
    rows: dict[tuple[str | None, ...], int] = {}
    codes, first = np.unique(_placement_codes(cluster), return_inverse=True)
    row_of = np.array([rows.setdefault(tuple(_racks(cluster, int(code))), len(rows)) for code in codes], dtype=np.int64)
    row = row_of[first.reshape(-1)].tolist() if len(codes) else []
    return {
        **_head(decision, "decided_at_ms"),
        "protocol": raw.protocol,
        "policy": decision.policy,
        "seed": decision.seed,
        "topics": [
            {"name": topic, "placements": row[int(cluster.first[t]) : int(cluster.first[t + 1])]}
            for t, topic in enumerate(cluster.topics)
        ],
        "placements": [list(racks) for racks in rows],
        "unreadable": sorted(cluster.unreadable),
        "members": [
            {
                "member_id": m.member_id,
                "instance_id": m.instance_id,
                "own": m.member_id in raw.own_member_ids,
                "metadata": m.metadata,
                "rack": m.rack,
                "leader_only": m.leader_only,
            }
            for m in raw.members
        ],
        "rules": [{name: getattr(rule, name) for name in RULE_FIELDS} for rule in rules],
    }


def _placement_codes(cluster: ClusterView) -> IntArray:
    """Returns for each partition a number that encodes its leader's rack and its replicas' racks."""
    codes: IntArray = cluster.signature * (len(cluster.racks) + 1) + cluster.leader_rack + 1
    return codes


def _racks(cluster: ClusterView, code: int) -> list[str | None]:
    """Returns the racks of the replicas, the leader's first (None if unknown)."""
    signature, leader = divmod(code, len(cluster.racks) + 1)
    head = cluster.racks[leader - 1] if leader else None
    replica_racks = [cluster.racks[r] for r in np.flatnonzero(cluster.replica_racks[signature])]
    return [head, *(rack for rack in replica_racks if rack != head)]


def parts(head: Mapping[str, Any], entries: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Splits an assignment into events of at most ENTRIES_MAX entries. An empty one yields one event."""
    part, number = list(islice(entries, ENTRIES_MAX)), 0
    while part or not number:
        yield {**head, "part": number, "entries": part}
        part, number = list(islice(entries, ENTRIES_MAX)), number + 1


def chunks(head: Mapping[str, Any], entries: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Splits samples into events of at most ENTRIES_MAX entries."""
    for start in range(0, len(entries), ENTRIES_MAX):
        yield {**head, "entries": list(entries[start : start + ENTRIES_MAX])}


def _head(decision: Decision[GroupPlan], time_field: str) -> dict[str, Any]:
    raw = decision.raw
    return {"group": raw.group_id, "generation": raw.generation, time_field: decision.decided_at_ms}
