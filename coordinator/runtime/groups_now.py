"""Input of the overview: each group's role, last refresh and last rebalance, at present."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from bellwether_kafka.coordinator.observation import Observation, Rebalances, known_cross_rack
from bellwether_kafka.coordinator.web import OFTEN_MS, GroupNow, GroupStatus, LagTrends, LedRebalances

BROKER, BELLWETHER, MEMBER, NOBODY, UNKNOWN = "its broker", "Bellwether", "a member", "nobody", "unknown"
CONSUMERS = "its consumers"
BROKER_TYPES = ("consumer", "streams")
OLD_MS = 300_000  # groups are refreshed at least every two minutes


class Watched(Protocol):
    """What an observer knows of a group."""

    last: Observation | None
    rebalances: Rebalances


def group_now(
    status: GroupStatus, observer: Watched | None, led_rebalances: LedRebalances, trends: LagTrends, now_ms: int
) -> GroupNow:
    """Returns the present state of one group. `observer` is None for a group that has a plan of this process. `now_ms`
    is since the epoch."""
    trend, since_ms = trends.of(status.group), now_ms - OFTEN_MS
    lag, curve = (trend.summary, trend.curve) if trend is not None else (None, None)
    recent = [line for line in led_rebalances.lines() if line.decided_at_ms >= since_ms and not line.by_order]
    led = sum(line.group == status.group for line in recent)
    if observer is None:
        return _planned(GroupNow(status, "classic", UNKNOWN, lag, curve, rebalances=led), led_rebalances)
    seen = observer.last
    if seen is None:
        by = BELLWETHER if status.leading else UNKNOWN
        return GroupNow(status, "", by, lag, curve, rebalances=led)
    # A led group is classic, whatever brokers showed before Bellwether led it.
    by, kind = (BELLWETHER, "classic") if status.leading else (_assigned_by(seen), seen.kind)
    shown = sum(line.seen_at_ms >= since_ms for line in observer.rebalances.lines())
    rebalances = shown if kind in BROKER_TYPES else led + shown  # includes those by served plans
    about = GroupNow(status, kind, by, lag, curve, rebalances=rebalances, trouble=_trouble(seen, now_ms))
    return _with_costs(replace(about, anomalies=seen.anomalies, unknown=seen.unknown), seen)


def _planned(now: GroupNow, led_rebalances: LedRebalances) -> GroupNow:
    newest = led_rebalances.decision(now.status.group)
    if newest is None:
        return now
    cost = newest.cost
    return replace(
        now,
        assigned_by=BELLWETHER,
        items=len(newest.plan.owner),
        unowned=cost.unowned,
        cross_rack=known_cross_rack(newest.plan, newest.plan.owner, cost),
        anomalies=led_rebalances.anomalies(now.status.group),
    )


def _trouble(seen: Observation, now_ms: int) -> str:
    """Returns why the group's state is not known, "" if it is. A missing shadow plan is not such a trouble."""
    if seen.unknown is not None:
        return f"not known since {_clock(seen.unknown.since_ms)}: {seen.unknown.reason}"
    if seen.kind == "missing":
        return seen.trouble
    age_ms = now_ms - seen.seen_at_ms
    return f"the last refresh that was answered is {age_ms // 60_000} minutes old" if age_ms > OLD_MS else ""


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S UTC")


def _with_costs(now: GroupNow, seen: Observation) -> GroupNow:
    shadow = seen.shadow
    if shadow is None:
        return now
    return replace(
        now,
        items=len(shadow.present),
        unowned=shadow.current.unowned,
        cross_rack=shadow.cross_rack,
        cross_rack_planned=shadow.cross_rack_planned,
        moves=shadow.moves.moved + shadow.moves.new,
    )


def _assigned_by(seen: Observation) -> str:
    if seen.kind in BROKER_TYPES:
        return BROKER
    if seen.bellwether_members:
        return BELLWETHER
    if seen.kind == "unknown":
        return UNKNOWN
    return CONSUMERS if seen.self_assigned else MEMBER if seen.members else NOBODY
