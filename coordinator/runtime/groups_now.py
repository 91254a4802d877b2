"""What the page and probes show of the process now: each group's role, last refresh and last rebalance, and whether the
process is ready."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.membership import MembershipView, NotLeading
from bellwether_kafka.coordinator.observation import (
    BELLWETHER,
    BROKER_TYPES,
    OLD_MS,
    STORM_MS,
    Emptying,
    Group,
    GroupObserver,
    Kept,
    LagTrends,
    Observation,
    Rebalances,
    known_cross_rack,
    role_status,
    shown_costs,
    unread,
    who_assigns,
    worst_first,
)
from bellwether_kafka.coordinator.runtime.service import Service
from bellwether_kafka.coordinator.settings import GroupSettings
from bellwether_kafka.coordinator.web import LedRebalances, Present, present

NAMED_MAX = 10  # groups in the answer to a probe


class Watched(Protocol):
    """What an observer knows of a group."""

    last: Observation | None
    rebalances: Rebalances


def group_now(
    status: Group, observer: Watched | None, led_rebalances: LedRebalances, trends: LagTrends, now_ms: int
) -> Group:
    """Returns the present state of one group. `status` is what the process knows of it. `observer` is None for a group
    that has a plan of this process. `now_ms` is since the epoch."""
    trend, since_ms = trends.of(status.group), now_ms - STORM_MS
    lines = [line for line in led_rebalances.lines() if line.group == status.group]
    led = sum(line.decided_at_ms >= since_ms and not line.by_order for line in lines)
    now = replace(status, rebalances=led)
    if trend is not None:
        now = replace(now, lag=trend.summary, curve=trend.curve)
    if lines:
        now = replace(now, cause=lines[0].cause, moved=lines[0].moved, cause_at_ms=lines[0].decided_at_ms)
    if observer is None:
        return _planned(replace(now, type="classic"), led_rebalances)
    seen = observer.last
    if seen is None:
        return replace(now, assigned_by=BELLWETHER) if status.leading else now
    # A led group is classic, whatever brokers showed before Bellwether led it.
    by, kind = (BELLWETHER, "classic") if status.leading else (who_assigns(seen), seen.kind)
    shown = sum(line.seen_at_ms >= since_ms for line in observer.rebalances.lines())
    return replace(
        now,
        type=kind,
        assigned_by=by,
        rebalances=shown if kind in BROKER_TYPES else led + shown,  # includes those by served plans
        trouble=_trouble(seen, now_ms),
        unknown=seen.unknown,
        anomalies=seen.anomalies,
        **shown_costs(seen),  # type: ignore[arg-type]  # its values are all counts
    )


def _planned(now: Group, led_rebalances: LedRebalances) -> Group:
    newest = led_rebalances.decision(now.group)
    if newest is None:
        return now
    cost = newest.cost
    return replace(
        now,
        assigned_by=BELLWETHER,
        items=len(newest.plan.owner),
        unowned=cost.unowned,
        cross_rack=known_cross_rack(newest.plan, newest.plan.owner, cost),
        anomalies=led_rebalances.anomalies(now.group),
    )


def _trouble(seen: Observation, now_ms: int) -> str:
    """Returns why the group's state is not known, "" if it is."""
    if seen.unknown is not None:
        return f"not known since {_clock(seen.unknown.since_ms)}: {seen.unknown.reason}"
    age_ms = now_ms - seen.seen_at_ms
    if seen.kind != "missing" and age_ms > OLD_MS:
        return f"the last refresh that was answered is {age_ms // 60_000} minutes old"
    return unread(seen)


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S UTC")


def statuses(named: Sequence[GroupSettings], service: Service) -> list[Group]:
    """Returns the status of the configured groups, followed by those that patterns have found."""
    names = {group.name for group in named}
    by_pattern = [GroupSettings(name=group) for group in sorted(list(service.observed)) if group not in names]  # noqa: C414 - of another thread
    return [_status(group, service) for group in (*named, *by_pattern)]


def _status(group: GroupSettings, service: Service) -> Group:
    """Returns one group as the page lists it."""
    runner, observer = service.runners.get(group.name), service.watched(group.name)
    seen = observer.last if observer is not None else None
    if runner is not None:
        member, role = runner.membership, runner.role
        state, others = member.state.name.lower(), _others(member) if role.leading or observer is None else _shown(seen)
        status = role_status(role, clocks.wall() - clocks.monotonic())
        return Group(
            group=group.name,
            mode=group.mode,
            state=state,
            leading=role.leading,
            role=status,
            generation=member.generation,
            members=others,
            emptying=_emptying(service, group.name),
            applied_plan=service.applied_plan(group.name),
        )
    state = (
        "not seen yet"
        if seen is None
        else seen.state.lower() or ("does not exist" if seen.kind == "missing" else "not known")
    )
    return Group(group=group.name, mode=group.mode, state=state, members=_shown(seen))


def _others(member: MembershipView) -> int:
    """Returns the number of members other than Bellwether."""
    return max(0, len(member.members) - 1)


def _shown(seen: Observation | None) -> int | None:
    """Returns the number of members in the last answer; None if there is none."""
    return len(seen.members) if seen is not None and seen.kind != "unknown" else None


def _emptying(service: Service, group: str) -> tuple[Emptying, ...]:
    return tuple(
        Emptying(
            order.where,
            order.sentence,
            absence.stage.value if absence is not None else "",
            absence.since_ms if absence is not None else None,
        )
        for order, absence in service.emptying(group)
    )


def rows(groups: Sequence[Group], service: Service, rebalances: LedRebalances, trends: LagTrends) -> list[Group]:
    """Returns the overview of these groups."""
    now_ms = int(clocks.wall() * 1000)
    return worst_first(
        group_now(status, service.watched(status.group), rebalances, trends, now_ms) for status in groups
    )


def present_of(observer: GroupObserver | None, newest: Kept[Present]) -> Present | None:
    """Returns what the page shows of an observed group; None if it is not observed or has not been refreshed yet."""
    if observer is None or observer.last is None:
        return None
    seen, lines = observer.last, observer.rebalances.lines()
    return newest.of((seen, lines), lambda: present(seen, lines))


def not_ready(service: Service) -> str | None:
    """Returns why the service is not ready, or None: it has not connected yet, is stuck, or serves none of its groups,
    because brokers refuse them or it has given them up. One whose patterns match no group is ready."""
    if not (service.connected or service.runners):
        return ": ".join(filter(None, ("not connected yet", service.connecting.trouble)))
    if stuck := service.loop_watch.stuck():
        return stuck
    out = kept_out(service)
    return in_words(out) if out and len(out) == len(service.runners) and not service.observed else None


def kept_out(service: Service) -> dict[str, str]:
    """Returns, by group, why the service is out of it until an operator acts: it has given the group up, or the brokers
    deny it."""
    runners = list(service.runners.items())
    given_up = {group: f"given up: {runner.fatal.message}" for group, runner in runners if runner.fatal is not None}
    denied = {
        group: f"denied: {runner.role.detail}" for group, runner in runners if runner.role.reason is NotLeading.DENIED
    }
    return dict(sorted({**denied, **given_up}.items()))


def in_words(out: Mapping[str, str]) -> str:
    shown = "; ".join(why if group in why else f"{group}: {why}" for group, why in [*out.items()][:NAMED_MAX])
    more = len(out) - NAMED_MAX
    return f"{shown}; and {more} groups more" if more > 0 else shown
