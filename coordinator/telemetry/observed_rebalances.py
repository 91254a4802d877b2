"""Publishes rebalances of groups that are only observed, with the same events as those of led groups.

They are derived from refreshes, without further requests. The assignment is the observed one, and the snapshot has the
inputs of Bellwether's shadow plan. Values that a refresh does not show are -1, null or empty: the generation, the
policy and the leader's durations.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, Cost, Moves
from bellwether_kafka.coordinator.events import OBSERVED, STANDBY, UNKNOWN, active_entries, copy_entry
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation import (
    UNKNOWN_CAUSE,
    Observation,
    SeenRebalance,
    Shadow,
    at_rest,
    moves_between,
)
from bellwether_kafka.coordinator.planning import TaskRequest, pack
from bellwether_kafka.coordinator.telemetry.event_records import EventRecord, parts, snapshot_record

OfferLater = Callable[[str, Callable[[], Iterator[EventRecord]]], None]

UNKNOWN_MOVES = Moves(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
UNKNOWN_COST = Cost(UNKNOWN, UNKNOWN, UNKNOWN)


class ObservedRebalances:
    """Publishes the rebalances of all observed groups. Register its `on_*` methods with the runtime, which must call
    `on_rebalance` before it calls `on_observation` with the refresh that showed the end. Groups that another Bellwether
    process leads are skipped, since that process publishes them."""

    def __init__(self, offer_later: OfferLater) -> None:
        self._offer_later = offer_later
        self._rest: dict[str, Observation] = {}  # the last refresh that showed the group at rest

    def on_rebalance(self, seen: Observation, ended: SeenRebalance) -> None:
        if not seen.bellwether_members:
            before = self._rest.get(seen.group_id)
            self._offer_later("decision", partial(rebalance_events, before, seen, ended))

    def on_observation(self, seen: Observation) -> None:
        if at_rest(seen):
            self._rest[seen.group_id] = seen

    def on_gone(self, group: str) -> None:
        self._rest.pop(group, None)


def rebalance_events(before: Observation | None, seen: Observation, ended: SeenRebalance) -> Iterator[EventRecord]:
    """Yields all events about one rebalance. `before` is the last refresh at rest before it, None if there is none;
    `seen` is the one that showed its end."""
    had, shadow = owners_of(before), seen.shadow
    head = {"group": seen.group_id, "generation": UNKNOWN, "decided_at_ms": seen.seen_at_ms}
    members_before = len(before.members) if before is not None else None
    yield "decision", {**head, "members_before": members_before, **_seen_record(seen, ended, had)}
    if shadow is None:
        return
    yield from (("assignment", record) for record in parts(head, _held_entries(seen, shadow, had or {})))
    if shadow.decision.plan.replayable:
        yield "snapshot", {**snapshot_record(shadow.decision), **head}
    if isinstance(shadow.inputs, TaskRequest):
        yield "round", {**head, "policy": shadow.decision.policy, "inputs": pack(shadow.inputs)}


def owners_of(seen: Observation | None) -> Mapping[str, str] | None:
    """Returns the key of the owner by name of the partition or task, or None if the assignment is unknown."""
    if seen is not None and not seen.members:
        return {}
    if seen is None or seen.shadow is None:
        return None
    plan, present = seen.shadow.decision.plan, seen.shadow.present
    owned = np.flatnonzero(present != NOBODY)
    keys = [owner.key for owner in plan.owners]
    return dict(zip(plan.names(owned), [keys[owner] for owner in present[owned].tolist()], strict=True))


def _seen_record(seen: Observation, ended: SeenRebalance, had: Mapping[str, str] | None) -> dict[str, Any]:
    """Returns the fields of the decision event. Without a shadow plan the cost is unknown, and so are `owned` and the
    moves unless the group is empty."""
    shadow, has = seen.shadow, owners_of(seen)
    cost = shadow.current if shadow is not None else UNKNOWN_COST
    moves = moves_between(had, has) if had is not None and has is not None else UNKNOWN_MOVES
    kind = "streams" if seen.protocol == STREAMS_PROTOCOL else "consumer"
    return {
        "kind": shadow.decision.plan.words.kind if shadow is not None else kind,
        "protocol": seen.protocol,
        "policy": "",
        "source": OBSERVED,
        "cause_kind": ended.kind.value if ended.cause else UNKNOWN_CAUSE,
        "cause": ended.cause,
        "members": len(seen.members),
        "owned": len(has) if has is not None else UNKNOWN,
        **asdict(moves),
        **asdict(cost),
        "withheld": UNKNOWN,
        "metadata_ms": float(UNKNOWN),
        "plan_ms": float(UNKNOWN),
        "sync_ms": float(UNKNOWN),
        "lasted_ms_min": ended.lasted_ms_min,
        "lasted_ms_max": ended.lasted_ms_max,
        "followup": False,
        "warnings": [seen.trouble] if seen.trouble else [],
    }


def _held_entries(seen: Observation, shadow: Shadow, had: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yields the observed assignment. Warm-ups are listed as standbys, since brokers do not show the difference."""
    plan = shadow.decision.plan
    items = np.arange(len(shadow.present))
    yield from active_entries(plan, shadow.present, [had.get(n) for n in plan.names(items)], [False] * len(items))
    owner_of = {member: owner for owner in plan.owners for member in owner.members}
    placed = [(owner_of[m.member_id], m.standby) for m in seen.members if m.member_id in owner_of]
    yield from (copy_entry(task, STANDBY, owner.key, owner.rack) for owner, tasks in placed for task in tasks)
