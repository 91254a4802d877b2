"""The rebalances and ghosts of a period, from refreshes of a group or from recorded events. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bellwether_kafka.assignors.consumer import BROKER_SIDE, BUILT_IN, POLICIES
from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, LOAD_AWARE, STREAMS_POLICIES
from bellwether_kafka.coordinator.assessment.ghosts import GhostRefreshes
from bellwether_kafka.coordinator.assessment.model import AS_RECORDED, PastRow, Period, Storm
from bellwether_kafka.coordinator.events import OBSERVED
from bellwether_kafka.coordinator.observation import (
    STORM_MIN,
    STORM_MS,
    UNKNOWN_CAUSE,
    Observation,
    Rebalances,
    SeenRebalance,
)
from bellwether_kafka.coordinator.planning import UNIFORM
from bellwether_kafka.coordinator.replay import (
    History,
    PolicyOutcome,
    PolicySummary,
    replay_policies,
    replay_task_policies,
    summary,
)
from bellwether_kafka.protocol.primitives import TopicPartition

WAIT_MS_MIN = 5_000  # live members usually rejoin faster
CAME, GONE = "joined", "left or died"
DAY_S = 86_400
ONE_REFRESH = (
    "one refresh shows no rebalances: observe for longer with --for, or give recorded rebalances with --history"
)
UNPROVEN = "ghosts of members other than Streams threads cannot be proven without client_ids_unique = true"
COOPERATIVE = "members of a cooperative group keep consuming what they keep: member-seconds are not counted"
UNRECORDED = "how a member ended is not recorded: the cost of waiting for sessions and ghosts is not known"
NO_GHOSTS = "ghosts: what they have cost is not recorded"
LEADERS_PART = "member-seconds: the leader's own part; how long members took to join is not recorded"
BETWEEN_REFRESHES = "the length of a rebalance is known only between two refreshes"
Record = Mapping[str, Any]
Happened = tuple[int, str]  # epoch ms and cause


def period_of_refreshes(refreshes: Sequence[Observation], ghosts: GhostRefreshes) -> Period:
    """Returns the period of these refreshes of one group, which are at least one and in order. `ghosts` are the ghosts
    that they showed."""
    from_ms, to_ms = refreshes[0].seen_at_ms, refreshes[-1].seen_at_ms
    if len(refreshes) < 2:
        return Period("refreshes", from_ms, to_ms, unknown=(ONE_REFRESH,))
    seen = list(_rebalances(refreshes))
    ended = [(rebalance, size) for rebalance, size in seen if not rebalance.running]
    running = next((rebalance for rebalance, _ in seen if rebalance.running), None)
    least: float | None = sum(rebalance.lasted_ms_min * size for rebalance, size in seen) / 1000
    longest = [(rebalance.lasted_ms_max, size) for rebalance, size in seen]
    known_longest = [lasted * size for lasted, size in longest if lasted is not None]
    most: float | None = sum(known_longest) / 1000 if len(known_longest) == len(longest) else None
    unknown = [BETWEEN_REFRESHES] if most is None else []
    if refreshes[-1].kind != "classic" or _cooperative(refreshes[-1].protocol):
        least, most = None, None
        unknown = [COOPERATIVE]
    unknown += [UNPROVEN] * ghosts.blind
    waits = [
        rebalance.lasted_ms_min * size
        for rebalance, size in ended
        if rebalance.lasted_ms_min >= WAIT_MS_MIN and GONE in rebalance.cause
    ]
    happened = [(rebalance.seen_at_ms, rebalance.cause) for rebalance, _ in seen]
    return Period(
        "refreshes",
        from_ms,
        to_ms,
        rebalances=len(seen),
        causes=dict(Counter(rebalance.cause or UNKNOWN_CAUSE for rebalance, _ in seen)),
        moved=sum(rebalance.moves.moved for rebalance, _ in ended if rebalance.moves is not None),
        member_s_min=least,
        member_s_max=most,
        waited_member_s=sum(waits) / 1000,
        ghost_s=_kept_s(ghosts),
        ghosts=ghosts.ghosts,
        storms=storms(happened),
        stuck_ms=running.lasted_ms_min if running is not None else 0,
        unknown=tuple(unknown),
    )


def _kept_s(ghosts: GhostRefreshes) -> float | None:
    if ghosts.blind and not ghosts.ghosts:
        return None
    return sum(ghost.to_ms - ghost.from_ms for ghost in ghosts.ghosts) / 1000


def _rebalances(refreshes: Sequence[Observation]) -> Iterator[tuple[SeenRebalance, int]]:
    """Yields the rebalances in order, each with the number of members that waited in it: the largest of the refreshes
    around it."""
    rebalances = Rebalances()
    newest: SeenRebalance | None = None
    size = 0
    for refresh in refreshes:
        rebalances.observe(refresh)
        size = max(size, len(refresh.members))
        last = next((rebalance for rebalance in rebalances.lines() if not rebalance.running), None)
        if last is not None and last is not newest:
            yield last, size
            newest, size = last, len(refresh.members)
    yield from ((rebalance, size) for rebalance in rebalances.lines() if rebalance.running)


def period_of_records(group: str, history: History, from_ms: int, to_ms: int, per_gb: float | None) -> Period:
    """Returns the period of the group's events in `history` between these moments."""
    snapshots = [s for s in history.snapshots.get(group, ()) if from_ms <= s["decided_at_ms"] <= to_ms]
    plans = [p for p in history.assignments.get(group, ()) if from_ms <= p["decided_at_ms"] <= to_ms]
    made = [d for d in history.decisions.get(group, ()) if from_ms <= d["decided_at_ms"] <= to_ms]
    led = [decision for decision in made if decision["source"] != OBSERVED]
    times = [record["decided_at_ms"] for record in (*snapshots, *plans, *made)]
    if not times:
        return Period("records", from_ms, to_ms, unknown=(f"nothing was recorded of {group} in this time",))
    tasks = [r for r in history.rebalances.get(group, ()) if from_ms <= r["decided_at_ms"] <= to_ms]
    weights = history.weights()
    period = Period("records", max(from_ms, min(times)), min(to_ms, max(times)))
    outcomes = _replayed(snapshots, tasks, weights)
    past = _past(plans, summary(outcomes, per_gb or 0.0), weights, per_gb)
    unknown = [UNRECORDED if led or not made else NO_GHOSTS]
    unknown += ["no traffic was recorded: bytes across racks are not known"] * (not weights.of)
    unknown += _unplanned(outcomes)
    if not made:
        message = "no decision was recorded: causes and times are not known; record again with bellwether debug history"
        rebalances = len({(record["generation"], record["decided_at_ms"]) for record in (*snapshots, *plans)})
        return replace(period, rebalances=rebalances, policies=past, unknown=(message, *unknown))
    eager = not any(_cooperative(decision["protocol"]) for decision in made)
    least, most = _spent(made, led)
    unknown += (
        ([LEADERS_PART] * bool(led) + [BETWEEN_REFRESHES] * (not led and most is None)) if eager else [COOPERATIVE]
    )
    moved = [decision["moved"] for decision in made if decision["moved"] >= 0]
    unknown += [f"moved: not known of {len(made) - len(moved)} of {len(made)} rebalances"] * (len(moved) < len(made))
    happened = sorted((decision["decided_at_ms"], decision["cause"]) for decision in made)
    return replace(
        period,
        rebalances=len(made),
        causes=dict(Counter(decision["cause_kind"] for decision in made)),
        moved=sum(moved) if moved else None,
        member_s_min=least if eager else None,
        member_s_max=most if eager else None,
        waited_member_s=_waited(made) if not led else None,
        storms=storms(happened),
        policies=past,
        unknown=tuple(unknown),
    )


def _spent(made: Sequence[Record], led: Sequence[Record]) -> tuple[float, float | None]:
    """Returns a lower and an upper bound of the member-seconds. For led rebalances only the leader's own part is known,
    so there is no upper bound."""
    by_leader = sum(
        decision["members"] * (decision["metadata_ms"] + decision["plan_ms"] + decision["sync_ms"]) for decision in led
    )
    seen = [decision for decision in made if decision["source"] == OBSERVED]
    least = sum(rebalance["lasted_ms_min"] * _held_up(rebalance) for rebalance in seen)
    longest = [
        rebalance["lasted_ms_max"] * _held_up(rebalance) for rebalance in seen if rebalance["lasted_ms_max"] is not None
    ]
    most = sum(longest) / 1000 if not led and len(longest) == len(seen) else None
    return (by_leader + least) / 1000, most


def _waited(seen: Sequence[Record]) -> float:
    long = [rebalance for rebalance in seen if rebalance["lasted_ms_min"] >= WAIT_MS_MIN and GONE in rebalance["cause"]]
    return float(sum(rebalance["lasted_ms_min"] * _held_up(rebalance) for rebalance in long)) / 1000


def _held_up(seen: Record) -> int:
    """Returns the number of members that waited in a rebalance: the largest of the refreshes around it."""
    return max(int(seen["members"]), int(seen["members_before"] or 0))


def storms(happened: Sequence[Happened]) -> tuple[Storm, ...]:
    """Returns the storms, each of at least `STORM_MIN` rebalances, of which any `STORM_MIN` in a row are within
    `STORM_MS`. `happened` is in the order of time."""
    runs: list[list[Happened]] = []
    for last in range(STORM_MIN - 1, len(happened)):
        first = last - STORM_MIN + 1
        if happened[last][0] - happened[first][0] > STORM_MS:
            continue
        if runs and runs[-1][-1] in happened[first:last]:
            runs[-1].append(happened[last])
        else:
            runs.append(list(happened[first : last + 1]))
    return tuple(Storm(run[0][0], run[-1][0], len(run), _behind(run)) for run in runs)


def _behind(happened: Sequence[Happened]) -> str:
    """Returns the most frequent cause. If all causes differ, returns how often members joined and left."""
    ((cause, times),) = Counter(cause for _, cause in happened).most_common(1)
    if times > 1 or not cause:
        return f"{cause} ({times} times)" if cause else ""
    counts = {words: sum(words in cause for _, cause in happened) for words in (CAME, GONE)}
    return ", ".join(f"members {words} ({count} times)" for words, count in counts.items() if count) or cause


def _replayed(snapshots: Sequence[Record], tasks: Sequence[Record], weights: Weights) -> list[PolicyOutcome]:
    """Returns the results of each policy in the recorded rebalances of a consumer group, else of an application."""
    names = (*POLICIES, *BROKER_SIDE) if snapshots else (*STREAMS_POLICIES, BROKER_STICKY)
    usable = [name for name in names if weights.of or name != LOAD_AWARE]
    if snapshots:
        return list(replay_policies(snapshots, usable, weights))
    return list(replay_task_policies(tasks, usable, weights))


def _unplanned(outcomes: Sequence[PolicyOutcome]) -> list[str]:
    """Returns a sentence for each reason why rebalances were not planned again."""
    reasons = Counter(outcome.failed for outcome in outcomes if outcome.failed)
    return [f"{count} of {len(outcomes)} plans of policies could not be made: {why}" for why, count in reasons.items()]


def _past(
    plans: Sequence[Record], costs_of: Sequence[PolicySummary], weights: Weights, per_gb: float | None
) -> tuple[PastRow, ...]:
    """Returns the costs of the recorded plans, then those of each policy that has a plan in the same rebalances."""
    rows = [_recorded(plans, weights, per_gb)] if plans else []
    for costs in costs_of:
        decided = costs["snapshots"] - costs["failed"]
        gb = costs["cross_gb_per_day"] if weights.of else None
        money = costs["cost_per_day"] if gb is not None and per_gb is not None else None
        across, moved = costs["cross_rack"] / max(1, decided), costs["moved"]
        row = PastRow(costs["policy"], costs["rebalances"], moved, across, costs["imbalance"], gb, money)
        rows += [row] * (decided > 0)
    return tuple(rows)


def _recorded(plans: Sequence[Record], weights: Weights, per_gb: float | None) -> PastRow:
    """Returns the costs of the recorded plans, as means over the plans."""
    rebalances = len({(plan["generation"], plan["decided_at_ms"]) for plan in plans})
    active = [e for part in plans for e in part["entries"] if e["role"] == "active"]
    across = [e for e in active if e["rack"] and e["replica_racks"] and e["rack"] not in e["replica_racks"]]
    gained = [(part, e) for part in plans for e in part["entries"] if e["previous"] not in (None, e["member"])]
    items = {(p["generation"], p["decided_at_ms"], e["task"] or (e["topic"], e["partition"])) for p, e in gained}
    gb = None
    if weights.of:
        per_s = sum(weights.of.get(TopicPartition(e["topic"], e["partition"]), 0.0) for e in across) / rebalances
        gb = per_s * DAY_S / 1e9
    money = gb * per_gb if gb is not None and per_gb is not None else None
    return PastRow(AS_RECORDED, rebalances, len(items), len(across) / rebalances, None, gb, money)


def _cooperative(protocol: str) -> bool:
    """Returns whether members continue to consume during a rebalance."""
    assignor = BUILT_IN.get(protocol)
    return protocol == UNIFORM or (assignor is not None and assignor.cooperative)
