"""Converts an assessment to tables of text, for the terminal and the page, and to values for JSON. Pure."""

import time
from collections.abc import Sequence
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


def document(assessment: Assessment) -> dict[str, Any]:
    """Returns an assessment as values for JSON, null if unknown."""
    return asdict(assessment)


def headline(assessment: Assessment) -> str:
    """Returns a headline such as `orders: classic, Stable, range, 4 members; can be led`."""
    parts = [part for part in (assessment.kind, assessment.state, assessment.protocol) if part]
    members = f"{assessment.members} member{'' if assessment.members == 1 else 's'}"
    return f"{assessment.group}: {', '.join([*parts, members])}; {assessment.verdict}"


def grids(assessment: Assessment) -> tuple[Grid, ...]:
    """Returns the tables: policies now, rebalances of the periods, policies in the past."""
    tables = [_policies(assessment)] if assessment.rows else []
    tables.append(_periods(assessment))
    tables += [_past(period, assessment) for period in assessment.periods if period.policies]
    return tuple(tables)


def lines(assessment: Assessment) -> tuple[str, ...]:
    """Returns the reasons for unknown values."""
    reasons = [*assessment.unknown, *(reason for period in assessment.periods for reason in period.unknown)]
    return tuple(dict.fromkeys(reasons))


def _policies(assessment: Assessment) -> Grid:
    release = modelled_release(assessment.rows)
    what = f"Kafka {release}'s, for comparison only" if release else "for comparison only"
    title = f"{assessment.item}s now, and under each policy (broker-*: {what})"
    return policy_grid(title, assessment.rows, assessment.currency)


def modelled_release(rows: Sequence[PolicyRow]) -> str:
    """Returns the release of Kafka whose assignors are among these rows, "" if none are."""
    return next((row.release for row in rows if row.release), "")


def policy_grid(title: str, rows: Sequence[PolicyRow], currency: str) -> Grid:
    """Returns a table of assignments by policy."""
    measured = [row.measures for row in rows if row.measures is not None]
    by = "load" if measured and measured[0].by_load else "count"
    columns = ("policy", "unowned", "cross rack", "MB/s", f"{currency}/h", f"imbalance by {by}", "moves")
    return Grid(title, columns, tuple(_policy(row) for row in rows))


def _policy(row: PolicyRow) -> tuple[str, ...]:
    measures = row.measures
    if measures is None:
        return (row.policy, *[DASH] * 6)
    rate = DASH if measures.bytes_per_s is None else f"{measures.bytes_per_s / 1e6:,.3f}"
    counts = (str(measures.unowned), _whole(measures.cross_rack))
    return (
        row.policy,
        *counts,
        rate,
        _number(measures.cost_per_hour, 4),
        f"{measures.imbalance:.2f}",
        _whole(row.moves),
    )


def _periods(assessment: Assessment) -> Grid:
    columns = ("from", "to", "by", "rebalances", "moved", "member-seconds", "waited", "ghosts", "storms", "causes")
    return Grid(
        "what happened (seconds are lower bounds)", columns, tuple(_period(period) for period in assessment.periods)
    )


def _period(period: Period) -> tuple[str, ...]:
    least, most = period.member_s_min, period.member_s_max
    spent = _number(least, 1) if most is None or most == least else f"{least:,.1f} to {most:,.1f}"
    causes = sorted(period.causes.items(), key=lambda item: (-item[1], item[0]))
    message = [f"{cause} ({times})" for cause, times in causes[:LAST_CAUSES]]
    more = [f"{len(causes) - LAST_CAUSES} more"] if len(causes) > LAST_CAUSES else []
    recorded = period.rebalances is not None
    return (
        _at(period.from_ms),
        _at(period.to_ms),
        SOURCES[period.source],
        _whole(period.rebalances),
        _whole(period.moved),
        spent,
        _number(period.waited_member_s, 1),
        _number(period.ghost_s, 1),
        str(len(period.storms)) if recorded else DASH,
        "; ".join([*message, *more]) or DASH,
    )


def _past(period: Period, assessment: Assessment) -> Grid:
    title = f"recorded rebalances under each policy, {_at(period.from_ms)} to {_at(period.to_ms)}"
    columns = ("policy", "rebalances", "moved", "cross rack", "imbalance", "GB/day", f"{assessment.currency}/day")
    return Grid(title, columns, tuple(_past_row(row) for row in period.policies))


def _past_row(row: PastRow) -> tuple[str, ...]:
    numbers = (_number(row.imbalance, 2), _number(row.gb_per_day, 3), _number(row.cost_per_day, 2))
    return (row.policy, str(row.rebalances), str(row.moved), f"{row.cross_rack:.1f}", *numbers)


def _number(value: float | None, digits: int) -> str:
    return DASH if value is None else f"{value:,.{digits}f}"


def _whole(value: int | None) -> str:
    return DASH if value is None else str(value)


def _at(ms: int) -> str:
    """Formats a time in UTC. A time of 0 is unknown and becomes a dash."""
    return DASH if ms <= 0 else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms / 1000))
