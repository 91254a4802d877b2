"""Decisions as event records: projections onto the Avro schemas of `pipeline/schemas`. Pure.

A member is named by what survives a restart: its instance id, else its member id; a Streams process by its process id.
Large plans are cut into parts, so that no event outgrows a broker's limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bellwether_kafka.assignors.consumer import Decision
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, IntArray, MemberView
from bellwether_kafka.assignors.streams import StreamsDecision
from bellwether_kafka.coordinator.planning import Planned, PlannedTasks, TaskRequest, Timings, pack, report

ENTRIES_MAX = 1_000  # per event; about 100 bytes each
UNKNOWN = -1
ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"

Event = tuple[str, dict[str, Any]]


def decision_events(planned: Planned) -> Iterator[Event]:
    """Everything to be published about one plan of a consumer group."""
    decision = planned.chosen.decision
    yield "decision", decision_record(planned)
    yield from (
        ("assignment", record) for record in _parts(_head(decision, "decided_at_ms"), assignment_entries(decision))
    )
    yield from (("membership", record) for record in membership_records(planned.previous, decision))
    yield "snapshot", snapshot_record(decision)


def streams_events(planned: PlannedTasks) -> Iterator[Event]:
    """Everything to be published about one plan of a Streams application."""
    decision = planned.chosen.decision
    yield "decision", streams_decision_record(planned)
    yield from (("assignment", record) for record in _parts(_head(decision, "decided_at_ms"), task_entries(decision)))
    yield from (("membership", record) for record in process_records(planned.previous, decision))
    head = {"group": decision.raw.group_id, "sampled_at_ms": decision.decided_at_ms}
    yield from (("lag", record) for record in chunks(head, copy_lag_entries(decision)))
    if isinstance(planned.inputs, TaskRequest):
        yield "round", {**_head(decision, "decided_at_ms"), "policy": decision.policy, "inputs": pack(planned.inputs)}


def decision_record(planned: Planned) -> dict[str, Any]:
    decision, score, why = planned.chosen.decision, planned.chosen.decision.score_after, planned.cause
    return {
        "group": decision.raw.group_id,
        "kind": "consumer",
        "generation": decision.raw.generation,
        "decided_at_ms": decision.decided_at_ms,
        "protocol": decision.raw.protocol,
        "policy": decision.policy,
        "source": planned.chosen.source.value,
        "cause_kind": why.kind.value,
        "cause": why.sentence,
        "members": decision.group.size,
        "owned": score.owned,
        "unowned": score.unowned,
        **_moves(decision),
        "withheld": int(decision.plan.withheld.sum()),
        "cross_rack": score.cross_rack,
        "spread": score.spread,
        **_times(planned.timings),
        "followup": decision.followup,
        "warnings": list(decision.warnings),
    }


def streams_decision_record(planned: PlannedTasks) -> dict[str, Any]:
    decision, why = planned.chosen.decision, planned.cause
    told = report(decision)
    return {
        "group": decision.raw.group_id,
        "kind": "streams",
        "generation": decision.raw.generation,
        "decided_at_ms": decision.decided_at_ms,
        "protocol": decision.raw.protocol,
        "policy": decision.policy,
        "source": planned.chosen.source.value,
        "cause_kind": why.kind.value,
        "cause": why.sentence,
        "members": len(decision.raw.others),
        "owned": int((decision.plan.active != NOBODY).sum()),
        "unowned": int((decision.plan.active == NOBODY).sum()),
        **_moves(decision),
        "withheld": told.withheld,
        "cross_rack": told.cross_rack,
        "spread": told.tasks_max - told.tasks_min,
        **_times(planned.timings),
        "followup": decision.followup,
        "warnings": list(decision.warnings),
    }


def assignment_entries(decision: Decision) -> Iterator[dict[str, Any]]:
    """One entry per partition with an owner in the target."""
    group, places = decision.group, Places(decision.cluster)
    keys = [member.key for member in group.members]
    racks = [member.rack for member in group.members]
    flats = np.flatnonzero(decision.plan.owner != NOBODY).tolist()
    owner, before, withheld = decision.plan.owner.tolist(), decision.before.tolist(), decision.plan.withheld.tolist()
    for flat in flats:
        yield {
            **places(flat),
            "task": None,
            "role": ACTIVE,
            "member": keys[owner[flat]],
            "rack": racks[owner[flat]],
            "previous": keys[before[flat]] if before[flat] != NOBODY else None,
            "withheld": withheld[flat],
        }


def task_entries(decision: StreamsDecision) -> Iterator[dict[str, Any]]:
    """One entry per source partition of an active task, and one per standby or warm-up copy of a task."""
    view, plan, places = decision.view, decision.plan, Places(decision.tasks.cluster)
    names = [str(process.process_id) for process in view.processes]
    task_of = decision.tasks.task_of
    active, before, withheld = plan.active.tolist(), decision.before.tolist(), decision.withheld.tolist()
    for flat in np.flatnonzero(task_of != NOBODY).tolist():
        task = int(task_of[flat])
        if active[task] == NOBODY:
            continue
        yield {
            **places(flat),
            "task": str(view.tasks.task_id(task)),
            "role": ACTIVE,
            "member": names[active[task]],
            "rack": view.processes[active[task]].rack,
            "previous": names[before[task]] if before[task] != NOBODY else None,
            "withheld": withheld[task],
        }
    copies = zip(plan.standby_task.tolist(), plan.standby_process.tolist(), plan.warmup.tolist(), strict=True)
    for task, process, warmup in copies:
        task_id = view.tasks.task_id(task)
        yield {
            "topic": "",
            "partition": task_id.partition,
            "task": str(task_id),
            "role": WARMUP if warmup else STANDBY,
            "member": names[process],
            "rack": view.processes[process].rack,
            "previous": None,
            "withheld": False,
            "leader_rack": None,
            "replica_racks": [],
        }


def copy_lag_entries(decision: StreamsDecision) -> list[dict[str, Any]]:
    """How far each standby and warm-up copy is behind, from what the processes reported when they joined; offsets are
    not known, only what lies between."""
    return [
        {
            "topic": "",
            "partition": copy.task.partition,
            "task": str(copy.task),
            "role": WARMUP if copy.warmup else STANDBY,
            "member": str(copy.process_id),
            "committed": UNKNOWN,
            "end": UNKNOWN,
            "lag": max(copy.lag, UNKNOWN) if decision.lags_known else UNKNOWN,
        }
        for copy in decision.copy_lags()
    ]


def membership_records(previous: Decision | None, decision: Decision) -> list[dict[str, Any]]:
    """What changed among the members since the previous plan; all of them joined where there is none."""
    before = {m.key: m for m in previous.group.members} if previous is not None else {}
    after = {m.key: m for m in decision.group.members}
    head = _head(decision, "changed_at_ms")

    def record(change: str, member: MemberView) -> dict[str, Any]:
        names = {"member": member.key, "member_id": member.member_id, "instance_id": member.instance_id}
        return {**head, "change": change, **names, "rack": member.rack}

    found = [record("left", m) for key, m in before.items() if key not in after]
    for key, member in after.items():
        old = before.get(key)
        if old is None:
            found.append(record("joined", member))
        elif old.member_id != member.member_id:
            found.append(record("restarted", member))
        elif frozenset(old.topics) != frozenset(member.topics):
            found.append(record("resubscribed", member))
    return found


def process_records(previous: StreamsDecision | None, decision: StreamsDecision) -> list[dict[str, Any]]:
    """The same for the processes of an application."""
    before = {str(p.process_id): p for p in previous.view.processes} if previous is not None else {}
    after = {str(p.process_id): p for p in decision.view.processes}
    changes = [("left", n, p) for n, p in before.items() if n not in after]
    changes += [("joined", n, p) for n, p in after.items() if n not in before]
    head = _head(decision, "changed_at_ms")
    return [
        {**head, "change": change, "member": name, "member_id": p.members[0], "instance_id": None, "rack": p.rack}
        for change, name, p in changes
    ]


def snapshot_record(decision: Decision) -> dict[str, Any]:
    """What `decide` was given, except for memory, which a replay builds up by itself."""
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
            }
            for m in raw.members
        ],
    }


class Places:
    """Names and racks of flat partitions, as entries of events have them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._topic: IntArray = cluster.topic_of()
        self._first = cluster.first
        self._topics = cluster.topics
        self._racks = cluster.racks
        self._leader = cluster.leader_rack
        self._signature = cluster.signature
        self._held = [[cluster.racks[r] for r in np.flatnonzero(row)] for row in cluster.signature_racks]

    def __call__(self, flat: int) -> dict[str, Any]:
        topic, leader = int(self._topic[flat]), int(self._leader[flat])
        return {
            "topic": self._topics[topic],
            "partition": flat - int(self._first[topic]),
            "leader_rack": self._racks[leader] if leader != NO_RACK else None,
            "replica_racks": self._held[int(self._signature[flat])],
        }


def _placement_codes(cluster: ClusterView) -> IntArray:
    """One number per (leader rack, replica racks)."""
    codes: IntArray = cluster.signature * (len(cluster.racks) + 1) + cluster.leader_rack + 1
    return codes


def _racks(cluster: ClusterView, code: int) -> list[str | None]:
    """Replica racks, the leader's first (None where it is unknown)."""
    signature, leader = divmod(code, len(cluster.racks) + 1)
    head = cluster.racks[leader - 1] if leader else None
    held = [cluster.racks[r] for r in np.flatnonzero(cluster.signature_racks[signature])]
    return [head, *(rack for rack in held if rack != head)]


def _parts(head: Mapping[str, Any], entries: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    part: list[dict[str, Any]] = []
    number = 0
    for entry in entries:
        part.append(entry)
        if len(part) == ENTRIES_MAX:
            yield {**head, "part": number, "entries": part}
            number, part = number + 1, []
    if part or not number:
        yield {**head, "part": number, "entries": part}


def chunks(head: Mapping[str, Any], entries: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Samples of many partitions as several events."""
    for start in range(0, len(entries), ENTRIES_MAX):
        yield {**head, "entries": list(entries[start : start + ENTRIES_MAX])}


def _head(decision: Decision | StreamsDecision, time_field: str) -> dict[str, Any]:
    raw = decision.raw
    return {"group": raw.group_id, "generation": raw.generation, time_field: decision.decided_at_ms}


def _moves(decision: Decision | StreamsDecision) -> dict[str, int]:
    moves = decision.moves
    return {"kept": moves.kept, "moved": moves.moved, "new": moves.new, "lost": moves.lost}


def _times(timings: Timings) -> dict[str, float]:
    return {
        "metadata_ms": timings.metadata_s * 1000,
        "plan_ms": timings.plan_s * 1000,
        "sync_ms": timings.sync_s * 1000,
    }
