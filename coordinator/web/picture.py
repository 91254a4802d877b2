"""A decision as a picture of its group: owners with their items and racks, and moves with their reasons. It consists of
plain values for JSON, which the status page, `/decisions` and the command line draw. Pure.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from bellwether_kafka.assignors.explain import gains
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, GroupPlan, IntArray, LongArray
from bellwether_kafka.coordinator.observation import LagReport, known_cross_rack
from bellwether_kafka.coordinator.planning import Planned, cause

ITEMS_MAX = 20_000  # partitions or copies of tasks that a picture lists
MOVES_MAX = 500
DRY_CAUSE = "if a rebalance began now"
LOCAL, CROSS_RACK, NEUTRAL, STANDBY, WARMUP = "local", "cross-rack", "neutral", "standby", "warm-up"


@dataclass(frozen=True, slots=True)
class PictureItem:
    """A partition ("orders-3") or a copy of a task ("1_5"). `state` is one of this module's five states. A `pending`
    item is assigned one rebalance later. `lag` is in records, None if unknown; `lag_age_ms` is the age of its report.
    """

    name: str
    state: str
    pending: bool = False
    lag: int | None = None
    lag_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """A member of a consumer group, or a process of a Streams application (then `members` are its threads)."""

    name: str
    rack: str | None
    members: tuple[str, ...]
    items: tuple[PictureItem, ...]
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A move of an item. `source` is None if it had no owner before, `target` if it has none now. `gain` describes the
    effect on racks and balance."""

    item: str
    source: str | None
    target: str | None
    reason: str
    gain: str = ""


@dataclass(frozen=True, slots=True)
class StageLine:
    stage: str
    taken: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One rebalance of one group. Counts are of partitions or tasks. `truncated` is true if not every item or move is
    listed. `cross_rack` is None if no rack is known. `generation` is None for a dry run. `lag_report` is set once the
    page was open."""

    group: str
    kind: str
    generation: int | None
    protocol: str
    policy: str
    source: str
    decided_at_ms: int
    cause: str
    holders: tuple[Holder, ...]
    racks: tuple[str, ...]
    total: int
    unowned: int
    cross_rack: int | None
    pending: int
    kept: int
    moved: int
    new: int
    lost: int
    moves: tuple[Move, ...]
    stages: tuple[StageLine, ...]
    warnings: tuple[str, ...]
    took_ms: dict[str, float]
    probing_at_ms: int | None = None
    truncated: bool = False
    lag_report: LagReport | None = None
    lag_notes: tuple[str, ...] = ()


def picture_of(decision: Decision[GroupPlan], previous: Decision[GroupPlan] | None = None) -> Picture:
    """Returns the picture of a dry run. `previous` is the decision before it, None for a plan of the present group."""
    plan, cost = decision.plan, decision.cost
    placed = int(np.count_nonzero(plan.owner != NOBODY))
    holders = tuple(
        Holder(owner.name, owner.rack, owner.members, tuple(items), owner.degraded)
        for owner, items in zip(plan.owners, _items(plan), strict=True)
    )
    changed = np.flatnonzero((plan.before != plan.owner) & (plan.before != NOBODY))
    return Picture(
        group=decision.raw.group_id,
        kind=plan.words.kind,
        generation=None,
        protocol=decision.raw.protocol,
        policy=decision.policy,
        source="dry run",
        decided_at_ms=decision.decided_at_ms,
        cause=cause(previous, decision).sentence if previous is not None else DRY_CAUSE,
        holders=holders,
        racks=tuple(sorted({*plan.cluster.racks, *(h.rack for h in holders if h.rack)})),
        total=placed + cost.unowned,
        unowned=cost.unowned,
        cross_rack=known_cross_rack(plan, plan.owner, cost),
        pending=int(plan.pending.sum()),
        **asdict(decision.moves),
        moves=moves_from(decision, plan.before, changed[:MOVES_MAX]),
        stages=(
            *(StageLine(s.stage, s.taken, s.reason) for s in decision.stages),
            *(StageLine(note, True, note) for note in decision.notes),
        ),
        warnings=decision.warnings,
        took_ms={},
        probing_at_ms=decision.probing_at_ms,
        truncated=placed + len(plan.state.copies) > ITEMS_MAX or len(changed) > MOVES_MAX,
    )


def rebalance_picture(planned: Planned[GroupPlan]) -> Picture:
    """Returns the picture of a decision that was carried out."""
    decision, timings = planned.decision, planned.timings
    seconds = {"metadata": timings.metadata_s, "plan": timings.plan_s, "sync": timings.sync_s}
    return replace(
        picture_of(decision, planned.previous),
        generation=decision.raw.generation,
        source=planned.source.value,
        cause=planned.cause.sentence,
        warnings=(*decision.warnings, *planned.reasons),
        took_ms={name: round(value * 1000, 2) for name, value in seconds.items()},
    )


def moves_from(decision: Decision[GroupPlan], before: IntArray, items: LongArray) -> tuple[Move, ...]:
    """Returns the moves of these items, all of which have an owner in `before`."""
    plan, moves = decision.plan, []
    for item, name, gain in zip(items.tolist(), plan.names(items), gains(plan, before, items), strict=True):
        target = None if plan.owner[item] == NOBODY else plan.owners[plan.owner[item]].name
        source = plan.owners[before[item]].name
        moves.append(Move(name, source, target, plan.why_moved(item, decision.stages), gain))
    return tuple(moves)


def items_of(
    plan: GroupPlan, owner: IntArray, pending: BoolArray, lags: Mapping[str, int] | None = None
) -> list[list[PictureItem]]:
    """Returns the partitions or active tasks of each owner of the plan, given `owner`, the owners of all items. `lags`
    are known lags by name."""
    known_lags = lags or {}
    items: list[list[PictureItem]] = [[] for _ in plan.owners]
    listed = np.flatnonzero(owner != NOBODY)[:ITEMS_MAX]
    rack_known, remote = plan.read_remotely(owner)
    states = np.where(~rack_known, NEUTRAL, np.where(remote, CROSS_RACK, LOCAL)).tolist()
    for item, name in zip(listed.tolist(), plan.names(listed), strict=True):
        items[int(owner[item])].append(PictureItem(name, states[item], bool(pending[item]), known_lags.get(name)))
    return items


def _items(plan: GroupPlan) -> list[list[PictureItem]]:
    """Returns the planned items of each owner: partitions or active tasks, then copies of tasks."""
    items = items_of(plan, plan.owner, plan.pending)
    index = {owner.name: i for i, owner in enumerate(plan.owners)}
    for copy in plan.state.copies[:ITEMS_MAX]:
        state, lag = WARMUP if copy.warmup else STANDBY, copy.lag if copy.lag >= 0 else None
        items[index[str(copy.process_id)]].append(PictureItem(str(copy.task), state, False, lag, copy.age_ms))
    return items
