"""A decision as a picture of its group: who holds what, in which rack, local or not, what moves and why. Plain values
that become JSON as they are; the status page, `/decisions` and the command line draw them. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bellwether_kafka.assignors.consumer import Decision, crossing
from bellwether_kafka.assignors.explain import stage_of
from bellwether_kafka.assignors.shared import FOREIGN_RACK, NO_RACK, NOBODY, ClusterView, GroupView, IntArray
from bellwether_kafka.assignors.streams import StreamsDecision
from bellwether_kafka.coordinator.planning import Cause, Planned, PlannedTasks, Timings, cause, report, streams_cause

Flats = npt.NDArray[np.integer[Any]]

ITEMS_MAX = 20_000  # partitions or copies of tasks that a picture shows one by one
MOVES_MAX = 500
LOCAL, CROSS_RACK, NEUTRAL, STANDBY, WARMUP = "local", "cross-rack", "neutral", "standby", "warm-up"


@dataclass(frozen=True, slots=True)
class Item:
    """A partition ("orders-3") or a copy of a task ("1_5"). `state` is one of the five words of this module; withheld
    ones are handed out one round later. `lag` is in records, with the age of its report; None where nothing is known.
    """

    name: str
    state: str
    withheld: bool = False
    lag: int | None = None
    lag_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """A member of a consumer group, or a process of a Streams application (then `members` are its threads)."""

    name: str
    rack: str | None
    members: tuple[str, ...]
    items: tuple[Item, ...]
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """`source` is None for what nobody held before, `target` for what nobody holds now."""

    item: str
    source: str | None
    target: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class StageLine:
    stage: str
    taken: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One round of one group. Counts are of partitions or tasks; `truncated`: not every item or move is listed."""

    group: str
    kind: str
    generation: int
    protocol: str
    policy: str
    source: str
    decided_at_ms: int
    cause: str
    holders: tuple[Holder, ...]
    racks: tuple[str, ...]
    total: int
    unowned: int
    cross_rack: int
    withheld: int
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


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a decision came about, as far as it was carried out: why there was a round (None: tell it from the decision
    before), which answer was sent, why others were not, seconds."""

    cause: Cause | None = None
    source: str = "dry run"
    not_taken: tuple[str, ...] = ()
    timings: Timings | None = None


DRY = Circumstances()


def consumer_picture(planned: Planned) -> Picture:
    """Of a plain consumer group."""
    return consumers_of(planned.chosen.decision, planned.previous, _how(planned))


def streams_picture(planned: PlannedTasks) -> Picture:
    """Of a Streams application."""
    return tasks_of(planned.chosen.decision, planned.previous, _how(planned))


def consumers_of(decision: Decision, previous: Decision | None = None, how: Circumstances = DRY) -> Picture:
    """Of any decision on a consumer group, delivered or not; `previous` is the one before it."""
    group, cluster, plan = decision.group, decision.cluster, decision.plan
    after = decision.score_after
    listed = np.flatnonzero(plan.owner != NOBODY)[:ITEMS_MAX]
    names = _names(cluster, listed)
    states = _states(group, cluster, plan.owner)
    items: dict[int, list[Item]] = defaultdict(list)
    for flat, name in zip(listed.tolist(), names, strict=True):
        items[int(plan.owner[flat])].append(Item(name, states[flat], bool(plan.withheld[flat])))
    holders = tuple(
        Holder(m.member_id, m.rack, (m.member_id,), tuple(items[i]), m.degraded) for i, m in enumerate(group.members)
    )
    changed = np.flatnonzero((decision.before != plan.owner) & (decision.before != NOBODY))
    return Picture(
        group=decision.raw.group_id,
        kind="consumer",
        generation=decision.raw.generation,
        protocol=decision.raw.protocol,
        policy=decision.policy,
        source=how.source,
        decided_at_ms=decision.decided_at_ms,
        cause=(how.cause or cause(previous, decision)).sentence,
        holders=holders,
        racks=_racks(cluster.racks, holders),
        total=after.owned + after.unowned,
        unowned=after.unowned,
        cross_rack=after.cross_rack,
        withheld=int(plan.withheld.sum()),
        kept=decision.moves.kept,
        moved=decision.moves.moved,
        new=decision.moves.new,
        lost=decision.moves.lost,
        moves=_consumer_moves(decision, changed[:MOVES_MAX]),
        stages=tuple(StageLine(s.stage, s.taken, s.reason) for s in decision.stages),
        warnings=(*decision.warnings, *how.not_taken),
        took_ms=_took(how.timings),
        truncated=after.owned > ITEMS_MAX or len(changed) > MOVES_MAX,
    )


def tasks_of(decision: StreamsDecision, previous: StreamsDecision | None = None, how: Circumstances = DRY) -> Picture:
    """Of any decision on a Streams application, delivered or not."""
    found = report(decision)
    view, plan = decision.view, decision.plan
    holders = tuple(
        Holder(str(p.process_id), p.rack, p.members, items)
        for p, items in zip(view.processes, _task_items(decision), strict=True)
    )
    changed = np.flatnonzero((decision.before != plan.active) & (decision.before != NOBODY))
    placed = int((plan.active != NOBODY).sum())
    return Picture(
        group=decision.raw.group_id,
        kind="streams",
        generation=decision.raw.generation,
        protocol=decision.raw.protocol,
        policy=decision.policy,
        source=how.source,
        decided_at_ms=decision.decided_at_ms,
        cause=(how.cause or streams_cause(previous, decision)).sentence,
        holders=holders,
        racks=_racks(view.tasks.racks, holders),
        total=view.tasks.size,
        unowned=view.tasks.size - placed,
        cross_rack=found.cross_rack,
        withheld=found.withheld,
        kept=decision.moves.kept,
        moved=decision.moves.moved,
        new=decision.moves.new,
        lost=decision.moves.lost,
        moves=_task_moves(decision, changed[:MOVES_MAX]),
        stages=(
            *(StageLine(s.stage, s.taken, s.reason) for s in decision.stages),
            *(StageLine(note, True, note) for note in plan.notes),
        ),
        warnings=(*decision.warnings, *how.not_taken),
        took_ms=_took(how.timings),
        probing_at_ms=decision.probing_at_ms,
        truncated=view.tasks.size + len(plan.standby_task) > ITEMS_MAX or len(changed) > MOVES_MAX,
    )


def _how(planned: Planned | PlannedTasks) -> Circumstances:
    chosen = planned.chosen
    return Circumstances(planned.cause, chosen.source.value, chosen.reasons, planned.timings)


def _consumer_moves(decision: Decision, flats: Flats) -> tuple[Move, ...]:
    members, owner = decision.group.members, decision.plan.owner
    moves = []
    for flat, name in zip(flats.tolist(), _names(decision.cluster, flats), strict=True):
        target = None if owner[flat] == NOBODY else members[owner[flat]].member_id
        moves.append(Move(name, members[decision.before[flat]].member_id, target, f"by {stage_of(decision, flat)}"))
    return tuple(moves)


def _task_moves(decision: StreamsDecision, tasks: Flats) -> tuple[Move, ...]:
    processes, active = decision.view.processes, decision.plan.active
    moves = []
    for task in tasks.tolist():
        target = None if active[task] == NOBODY else str(processes[active[task]].process_id)
        later = "handed out when its owner has given it up" if decision.withheld[task] else "handed out now"
        source = str(processes[decision.before[task]].process_id)
        moves.append(Move(str(decision.view.tasks.task_id(task)), source, target, later))
    return tuple(moves)


def _task_items(decision: StreamsDecision) -> list[tuple[Item, ...]]:
    view, table, plan = decision.view, decision.view.tasks, decision.plan
    items: list[list[Item]] = [[] for _ in view.processes]
    for task in np.flatnonzero(plan.active != NOBODY)[:ITEMS_MAX].tolist():
        process = int(plan.active[task])
        state = _task_state(decision, task, int(view.rack[process]))
        items[process].append(Item(str(table.task_id(task)), state, bool(decision.withheld[task])))
    index = {p.process_id: i for i, p in enumerate(view.processes)}
    for copy in decision.copy_lags()[:ITEMS_MAX]:
        lag = copy.lag if copy.lag >= 0 else None
        state = WARMUP if copy.warmup else STANDBY
        items[index[copy.process_id]].append(Item(str(copy.task), state, False, lag, copy.age_ms))
    return [tuple(of) for of in items]


def _task_state(decision: StreamsDecision, task: int, rack: int) -> str:
    table = decision.view.tasks
    if rack == NO_RACK or not table.racks_known:
        return NEUTRAL
    remote = rack == FOREIGN_RACK or table.source_remote[table.source_signature[task], rack] > 0
    return CROSS_RACK if remote else LOCAL


def _states(group: GroupView, cluster: ClusterView, owner: IntArray) -> list[str]:
    crossed = crossing(group, cluster, owner)
    known = np.logical_or.reduce(cluster.signature_racks, axis=1)[cluster.signature]
    neutral = (owner == NOBODY) | ~known | (group.rack[owner] == NO_RACK)
    states: list[str] = np.where(neutral, NEUTRAL, np.where(crossed, CROSS_RACK, LOCAL)).tolist()
    return states


def _names(cluster: ClusterView, flats: Flats) -> list[str]:
    topic = np.searchsorted(cluster.first, flats, side="right") - 1
    numbers = flats - cluster.first[topic]
    return [f"{cluster.topics[t]}-{p}" for t, p in zip(topic.tolist(), numbers.tolist(), strict=True)]


def _racks(known: Sequence[str], holders: Iterable[Holder]) -> tuple[str, ...]:
    return tuple(sorted({*known, *(h.rack for h in holders if h.rack)}))


def _took(timings: Timings | None) -> dict[str, float]:
    if timings is None:
        return {}
    seconds = {"metadata": timings.metadata_s, "plan": timings.plan_s, "sync": timings.sync_s}
    return {name: round(value * 1000, 2) for name, value in seconds.items()}
