"""Converts an assessment to tables of text, for the terminal and the page, and to values for JSON. Pure."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from bellwether_kafka.coordinator.assessment.model import Assessment, PastRow, Period, PolicyRow

DASH = "-"
LAST_CAUSES = 4
SOURCES = {"refreshes": "refreshes", "records": "records"}


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def document(one: Assessment) -> dict[str, Any]:
    """Returns an assessment as values for JSON, null if unknown."""
    return asdict(one)


def headline(one: Assessment) -> str:
    """Returns a headline such as `orders: classic, Stable, range, 4 members; can be led`."""
    parts = [part for part in (one.kind, one.state, one.protocol) if part]
    members = f"{one.members} member{'' if one.members == 1 else 's'}"
    return f"{one.group}: {', '.join([*parts, members])}; {one.verdict}"


def grids(one: Assessment) -> tuple[Grid, ...]:
    """Returns the tables: policies now, rebalances of the periods, policies in the past."""
    found = [_policies(one)] if one.rows else []
    found.append(_periods(one))
    found += [_past(period, one) for period in one.periods if period.policies]
    return tuple(found)


def lines(one: Assessment) -> tuple[str, ...]:
    """Returns the reasons for unknown values."""
    reasons = [*one.unknown, *(reason for period in one.periods for reason in period.unknown)]
    return tuple(dict.fromkeys(reasons))


def _policies(one: Assessment) -> Grid:
    by = "load" if one.now is not None and one.now.by_load else "count"
    columns = ("policy", "unowned", "cross rack", "MB/s", f"{one.currency}/h", f"imbalance by {by}", "moves")
    return Grid(
        f"{one.item}s now, and under each policy (broker-*: for comparison only)",
        columns,
        tuple(_policy(row) for row in one.rows),
    )


def _policy(row: PolicyRow) -> tuple[str, ...]:
    found = row.measures
    if found is None:
        return (row.policy, *[DASH] * 6)
    rate = DASH if found.bytes_per_s is None else f"{found.bytes_per_s / 1e6:,.3f}"
    counts = (str(found.unowned), _whole(found.cross_rack))
    return (row.policy, *counts, rate, _number(found.cost_per_hour, 4), f"{found.imbalance:.2f}", _whole(row.moves))


def _periods(one: Assessment) -> Grid:
    columns = ("from", "to", "by", "rebalances", "moved", "member-seconds", "waited", "ghosts", "storms", "causes")
    return Grid("what happened (seconds are lower bounds)", columns, tuple(_period(period) for period in one.periods))


def _period(period: Period) -> tuple[str, ...]:
    least, most = period.member_s_min, period.member_s_max
    spent = _number(least, 1) if most is None or most == least else f"{least:,.1f} to {most:,.1f}"
    causes = sorted(period.causes.items(), key=lambda item: (-item[1], item[0]))
    message = [f"{cause} ({times})" for cause, times in causes[:LAST_CAUSES]]
    more = [f"{len(causes) - LAST_CAUSES} more"] if len(causes) > LAST_CAUSES else []
    known = period.rebalances is not None
    return (
        _at(period.from_ms),
        _at(period.to_ms),
        SOURCES[period.source],
        _whole(period.rebalances),
        _whole(period.moved),
        spent,
        _number(period.waited_member_s, 1),
        _number(period.ghost_s, 1),
        str(len(period.storms)) if known else DASH,
        "; ".join([*message, *more]) or DASH,
    )


def _past(period: Period, one: Assessment) -> Grid:
    title = f"recorded rebalances under each policy, {_at(period.from_ms)} to {_at(period.to_ms)}"
    columns = ("policy", "rebalances", "moved", "cross rack", "imbalance", "GB/day", f"{one.currency}/day")
    return Grid(title, columns, tuple(_past_row(row) for row in period.policies))


def _past_row(row: PastRow) -> tuple[str, ...]:
    known = (_number(row.imbalance, 2), _number(row.gb_per_day, 3), _number(row.cost_per_day, 2))
    return (row.policy, str(row.rebalances), str(row.moved), f"{row.cross_rack:.1f}", *known)


def _number(value: float | None, digits: int) -> str:
    return DASH if value is None else f"{value:,.{digits}f}"


def _whole(value: int | None) -> str:
    return DASH if value is None else str(value)


def _at(ms: int) -> str:
    """Formats a time in UTC. A time of 0 is unknown and becomes a dash."""
    return DASH if ms <= 0 else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms / 1000))
