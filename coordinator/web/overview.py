"""All groups, those that need attention first, with the problems of each from a table of rules. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from bellwether_kafka.coordinator.membership import NotLeading
from bellwether_kafka.coordinator.observation import (
    OF_ASSIGNMENT,
    ONLY_BELLWETHER,
    RELEASE,
    SELF_ASSIGNED,
    Anomaly,
    AnomalyKind,
    LagSummary,
    LagVerdict,
    Unknown,
    unknown_values,
    values_of,
)
from bellwether_kafka.coordinator.web.status import GroupStatus
from bellwether_kafka.coordinator.web.trends import Curve

Level = Literal["bad", "warn", "info"]

OFTEN_MS = 600_000
OFTEN = 3  # rebalances within OFTEN_MS
# Reasons for not leading that are no problem, and temporary ones; all others need an operator.
NO_PROBLEM = frozenset({NotLeading.EMPTY, NotLeading.STANDBY, NotLeading.ORDERED_OUT})
PASSING = frozenset(
    {
        NotLeading.STARTING,
        NotLeading.JOINING,
        NotLeading.TAKING_OVER,
        NotLeading.REBALANCING,
        NotLeading.LEAVING,
        NotLeading.STOPPED,
    }
)


class OverviewReason(StrEnum):
    """The problems that a group may have, the worst first."""

    NOT_LED = "not_led"
    NOBODY_READS = "nobody_reads"
    STOPPED = "stopped"
    STALLED = "stalled"
    FALLING_BEHIND = "falling_behind"
    NO_OWNER = "no_owner"
    WRONG_ASSIGNMENT = "wrong_assignment"
    REBALANCES_OFTEN = "rebalances_often"
    NOT_SEEN = "not_seen"
    SELF_ASSIGNED = "self_assigned"
    UNUSUAL = "unusual"
    WAITS = "waits"


@dataclass(frozen=True, slots=True)
class GroupProblem:
    """A problem of a group. `words` is a short text for a badge; `detail` is a sentence."""

    reason: OverviewReason
    level: Level
    words: str
    detail: str


@dataclass(frozen=True, slots=True)
class GroupNow:
    """The present state of one group. `type` is Kafka's group type, `assigned_by` the assignor for display. `lag` is
    None if offsets could not be read. Counts are of partitions or tasks, and None without a plan: `items`, `unowned`
    and `cross_rack` are those of the present assignment, `cross_rack_planned` and `moves` those of Bellwether's plan.
    `rebalances` is the number within OFTEN_MS, without those that orders caused. `trouble` is why the group cannot be
    observed, "" if it can."""

    status: GroupStatus
    type: str
    assigned_by: str
    lag: LagSummary | None = None
    curve: Curve | None = None
    items: int | None = None
    unowned: int | None = None
    cross_rack: int | None = None
    cross_rack_planned: int | None = None
    moves: int | None = None
    rebalances: int = 0
    trouble: str = ""
    unknown: Unknown | None = None
    anomalies: tuple[Anomaly, ...] = ()

    def judged(self, verdict: LagVerdict) -> int:
        """Returns the number of partitions with this verdict."""
        return self.lag.verdicts.get(verdict.value, 0) if self.lag is not None else 0


@dataclass(frozen=True, slots=True)
class Row:
    """One group in the overview. `problems` are its problems, the worst first."""

    now: GroupNow
    problems: tuple[GroupProblem, ...]


@dataclass(frozen=True, slots=True)
class OverviewRule:
    """A rule: the condition under which a problem exists, and its texts."""

    reason: OverviewReason
    level: Level
    holds: Callable[[GroupNow], bool]
    words: str
    detail: Callable[[GroupNow], str]


def _role(now: GroupNow) -> NotLeading | None:
    role = now.status.role
    return NotLeading(role.reason) if role is not None and role.reason else None


def _why(now: GroupNow) -> str:
    role = now.status.role
    return f"{role.detail.rstrip('.')}. {role.remedy}" if role is not None else ""


def _waiting(now: GroupNow) -> str:
    return f"No member is in the group, and {counted(now.lag.lag or 0, 'record') if now.lag else ''} wait."


def _alone(now: GroupNow) -> str:
    alone = now.status.state == "stable" and _role(now) in (NotLeading.EMPTY, NotLeading.UNKNOWN_GROUP)
    return f" {ONLY_BELLWETHER}. {RELEASE}." if alone else ""


def _nobody_reads(now: GroupNow) -> bool:
    waits = now.status.members == 0 and now.lag is not None and bool(now.lag.lag)
    return waits and not _self_assigned(now)


def _self_assigned(now: GroupNow) -> bool:
    return now.lag is not None and now.lag.self_assigned


def _progress(now: GroupNow) -> str:
    """Describes the lag and the rate of consumers that assign themselves partitions."""
    lag = now.lag
    if lag is None or lag.lag is None:
        return ""
    rate = f", and {lag.consumed_per_s:,.1f} per second are read" if lag.consumed_per_s is not None else ""
    return f" {counted(lag.lag, 'record')} wait{'s' * (lag.lag == 1)}{rate}."


def _of(*kinds: AnomalyKind) -> Callable[[GroupNow], tuple[Anomaly, ...]]:
    return lambda now: tuple(anomaly for anomaly in now.anomalies if anomaly.kind in kinds)


def _sentences(find: Callable[[GroupNow], tuple[Anomaly, ...]]) -> Callable[[GroupNow], str]:
    return lambda now: " ".join(anomaly.message for anomaly in find(now))


WRONG = _of(*OF_ASSIGNMENT)
UNUSUAL = _of(
    *(AnomalyKind.HELD_UP, AnomalyKind.NOT_MATCHED, AnomalyKind.TWO_HOSTS),
    *(AnomalyKind.TWO_APPLICATIONS, AnomalyKind.UNEVEN_TOPIC),
)


def _verdict(verdict: LagVerdict) -> Callable[[GroupNow], bool]:
    return lambda now: now.judged(verdict) > 0


def _count(verdict: LagVerdict, text: str) -> Callable[[GroupNow], str]:
    return lambda now: text.format(counted(now.judged(verdict), "partition"))


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


RULES = (
    OverviewRule(
        OverviewReason.NOT_LED,
        "bad",
        lambda now: _role(now) not in (None, *NO_PROBLEM, *PASSING),
        "not led",
        lambda now: f"Bellwether is to lead this group and does not: {_why(now)}",
    ),
    OverviewRule(
        OverviewReason.NOBODY_READS,
        "bad",
        _nobody_reads,
        "no members",
        lambda now: f"{_waiting(now)}{_alone(now)}",
    ),
    OverviewRule(
        OverviewReason.STOPPED,
        "bad",
        _verdict(LagVerdict.STOPPED),
        "stopped",
        _count(LagVerdict.STOPPED, "{} made no progress for five minutes, and no member has them."),
    ),
    OverviewRule(
        OverviewReason.STALLED,
        "bad",
        _verdict(LagVerdict.STALLED),
        "stalled",
        _count(LagVerdict.STALLED, "{} made no progress for five minutes, although members have them."),
    ),
    OverviewRule(
        OverviewReason.FALLING_BEHIND,
        "warn",
        _verdict(LagVerdict.FALLING_BEHIND),
        "falling behind",
        _count(LagVerdict.FALLING_BEHIND, "{} got further behind for five minutes."),
    ),
    OverviewRule(
        OverviewReason.NO_OWNER,
        "warn",
        lambda now: bool(now.unowned) and now.status.members != 0,
        "no owner",
        lambda now: f"{counted(now.unowned or 0, 'item')} of what members subscribe to have no owner.",
    ),
    OverviewRule(
        OverviewReason.WRONG_ASSIGNMENT, "warn", lambda now: bool(WRONG(now)), "wrong assignment", _sentences(WRONG)
    ),
    OverviewRule(
        OverviewReason.REBALANCES_OFTEN,
        "warn",
        lambda now: now.rebalances >= OFTEN,
        "rebalances often",
        lambda now: f"{now.rebalances} rebalances within {OFTEN_MS // 60_000} minutes.",
    ),
    OverviewRule(
        OverviewReason.NOT_SEEN,
        "warn",
        lambda now: bool(now.trouble),
        "not seen",
        lambda now: f"The group cannot be described: {now.trouble}.",
    ),
    OverviewRule(
        OverviewReason.SELF_ASSIGNED,
        "info",
        _self_assigned,
        "assign themselves",
        lambda now: f"{SELF_ASSIGNED[:1].upper()}{SELF_ASSIGNED[1:]}.{_progress(now)}",
    ),
    OverviewRule(OverviewReason.UNUSUAL, "info", lambda now: bool(UNUSUAL(now)), "unusual", _sentences(UNUSUAL)),
    OverviewRule(OverviewReason.WAITS, "info", lambda now: _role(now) in PASSING, "waits", _why),
)
PLACE: Mapping[OverviewReason, int] = {reason: place for place, reason in enumerate(OverviewReason)}


def problems_of(now: GroupNow) -> tuple[GroupProblem, ...]:
    """Returns the problems of a group, the worst first."""
    fulfilled = (rule for rule in RULES if rule.holds(now))
    return tuple(GroupProblem(rule.reason, rule.level, rule.words, rule.detail(now)) for rule in fulfilled)


def overview(groups: Iterable[GroupNow]) -> list[Row]:
    """Returns the rows sorted by the worst problem, then by lag in time, lag in records and name. Unknown lags come
    after known ones."""
    return sorted((Row(now, problems_of(now)) for now in groups), key=_rank)


def values_of_row(row: Row) -> dict[str, Any]:
    """Returns a row as values for JSON, with nested dataclasses. `lag_at_least` is true if `lag_ms` is only a lower
    bound: some lag is older than the first refresh."""
    now, lag = row.now, row.now.lag
    own = {name: getattr(now, name) for name in now.__slots__ if name not in ("status", "lag", "unknown")}
    of_lag = {
        "lag": lag and lag.lag,
        "lag_ms": lag and lag.lag_ms,
        "lag_at_least": lag is not None and lag.lag_ms is not None and lag.unknown_ms > lag.unknown,
        "unknown_lags": lag and lag.unknown,
        "verdict": lag and lag.verdict,
    }
    return values_of(now.status) | own | of_lag | {"unknown": unknown_values(now.unknown), "pains": row.problems}


def _rank(row: Row) -> tuple[int, int, int, str]:
    lag = row.now.lag
    worst = PLACE[row.problems[0].reason] if row.problems else len(PLACE)
    behind = (lag.lag_ms, lag.lag) if lag is not None else (None, None)
    lag_ms, records = (1 if value is None else -value for value in behind)
    return worst, lag_ms, records, row.now.status.group
