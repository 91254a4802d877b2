"""One group as every face shows it, led or not: commands, the page, JSON. Values are None where they are unknown. Pure.

Also the findings that need all of a group, from the table of `findings.py`, and the order of groups, the worst first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bellwether_kafka.coordinator.membership import NotLeading, Role
from bellwether_kafka.coordinator.names import counted
from bellwether_kafka.coordinator.observation.findings import STORM_MIN, STORM_MS, Finding, FindingKind, of_kind
from bellwether_kafka.coordinator.observation.lag import LagSummary, LagVerdict
from bellwether_kafka.coordinator.observation.observation import Observation, values_of
from bellwether_kafka.coordinator.observation.self_assigned import ONLY_BELLWETHER, RELEASE, SELF_ASSIGNED
from bellwether_kafka.coordinator.observation.trends import Curve
from bellwether_kafka.coordinator.observation.unknown import Unknown, unknown_values

# Who assigns in a group.
BROKER, BELLWETHER, MEMBER, NOBODY, NOT_KNOWN = "its broker", "Bellwether", "a member", "nobody", "unknown"
CONSUMERS = "its consumers"
BROKER_TYPES = ("consumer", "streams")
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


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """The reason why a process does not lead a group that it is to lead. The texts are empty while it leads.
    `since_ms` is when this began, in milliseconds since 1970; `next_attempt_ms` is None if no attempt is due."""

    reason: str
    detail: str
    remedy: str
    since_ms: int
    next_attempt_ms: int | None


def role_status(role: Role, epoch_s: float) -> RoleStatus:
    """Converts a role to a status. `epoch_s` is the time at which the role's clock was 0, in seconds since 1970."""
    due = role.next_attempt
    return RoleStatus(
        role.reason.value if role.reason is not None else "",
        role.detail,
        role.remedy,
        int((role.since + epoch_s) * 1000),
        int((due + epoch_s) * 1000) if due is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Emptying:
    """A member or a rack that is being evacuated. `order` is a sentence on who ordered it and why. `stage` is
    "emptying", "empty" or "away" at the last poll, since `since_ms` (epoch). They are "" and None before the first
    poll, or if the order does not end with an absence."""

    where: str
    order: str
    stage: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The present state of one group.

    `type` is Kafka's group type, `protocol_type` that of a classic group, `assigned_by` who assigns. Only a process of
    Bellwether knows of a configured group: `mode`, `leading`, `role` (None for groups that are only observed),
    `generation`, `emptying`, and `applied_plan`, a sentence on who applied a written plan. `members` excludes
    Bellwether's. `lag` is None if offsets could not be read. Counts are of partitions or tasks, None without a plan:
    `items`, `unowned` and `cross_rack` are those of the present assignment, `cross_rack_planned` and `moves` those of
    Bellwether's plan. `rebalances` is the number within STORM_MS, without those that orders caused; `cause`, `moved`
    and `cause_at_ms` (epoch) are of the last one. `trouble` is why the group cannot be observed, "" if it can.
    `anomalies` are None if its members were not read.
    """

    group: str
    mode: str = "observe"
    type: str = ""
    protocol_type: str = ""
    state: str = ""
    assigned_by: str = NOT_KNOWN
    leading: bool = False
    role: RoleStatus | None = None
    generation: int | None = None
    members: int | None = None
    emptying: tuple[Emptying, ...] = ()
    applied_plan: str = ""
    lag: LagSummary | None = None
    curve: Curve | None = None
    items: int | None = None
    unowned: int | None = None
    cross_rack: int | None = None
    cross_rack_planned: int | None = None
    moves: int | None = None
    rebalances: int = 0
    cause: str = ""
    moved: int | None = None
    cause_at_ms: int | None = None
    trouble: str = ""
    unknown: Unknown | None = None
    anomalies: tuple[Finding, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the group, the worst first."""
        remedies = {anomaly.kind: anomaly.remedy for anomaly in self.anomalies or ()}
        shown = ((kind, judge(self)) for kind, judge in _JUDGES.items())
        judged = [of_kind(kind, text, remedies.get(kind, "")) for kind, text in shown if text]
        others = [anomaly for anomaly in self.anomalies or () if anomaly.kind not in _JUDGES]
        return tuple(sorted([*judged, *others], key=lambda finding: _PLACE[finding.kind]))

    def judged(self, verdict: LagVerdict) -> int:
        """Returns the number of partitions with this verdict."""
        return self.lag.verdicts.get(verdict.value, 0) if self.lag is not None else 0

    @property
    def not_leading(self) -> NotLeading | None:
        """Why the group is not led, None if it is, or need not be."""
        return NotLeading(self.role.reason) if self.role is not None and self.role.reason else None

    @property
    def self_assigned(self) -> bool:
        return self.lag is not None and self.lag.self_assigned


def who_assigns(seen: Observation) -> str:
    """Returns who assigns in a group. A Bellwether instance that does not lead leaves at once, so one that is a member
    leads."""
    if seen.kind in BROKER_TYPES:
        return BROKER
    if seen.bellwether_members:
        return BELLWETHER
    if seen.kind == "unknown":
        return NOT_KNOWN
    return CONSUMERS if seen.self_assigned else MEMBER if seen.members else NOBODY


def shown_costs(seen: Observation) -> dict[str, int | None]:
    """Returns the fields of `Group` that its shadow plan has, none without one."""
    shadow = seen.shadow
    if shadow is None:
        return {}
    return {
        "items": len(shadow.present),
        "unowned": shadow.current.unowned,
        "cross_rack": shadow.cross_rack,
        "cross_rack_planned": shadow.cross_rack_planned,
        "moves": shadow.moves.moved + shadow.moves.new,
    }


def group_of(seen: Observation, **more: Any) -> Group:
    """Returns the group as one observation shows it. `more` are fields from elsewhere."""
    lag = seen.group_lag.summary() if seen.group_lag is not None else None
    shown = {
        "group": seen.group_id,
        "type": seen.kind,
        "state": seen.state,
        "assigned_by": who_assigns(seen),
        "members": len(seen.members) if seen.kind != "unknown" else None,
        "lag": lag,
        "trouble": unread(seen),
        "unknown": seen.unknown,
        "anomalies": seen.anomalies,
    }
    return Group(**(shown | shown_costs(seen) | more))


def unread(seen: Observation) -> str:
    """Returns why the group could not be described, "" if it was. A missing shadow plan is no such reason."""
    return seen.unknown.reason if seen.unknown is not None else seen.trouble if seen.kind == "missing" else ""


def worst_first(groups: Iterable[Group]) -> list[Group]:
    """Sorts groups by their worst finding, then by lag in time, lag in records and name. Unknown lags come after known
    ones."""
    return sorted(groups, key=_rank)


def values_of_group(group: Group) -> dict[str, Any]:
    """Returns a group as values for JSON, with nested dataclasses. `lag_at_least` is true if `lag_ms` is only a lower
    bound: some lag is older than the first refresh."""
    lag = group.lag
    of_lag = {
        "lag": lag and lag.lag,
        "lag_ms": lag and lag.lag_ms,
        "lag_at_least": lag is not None and lag.lag_ms is not None and lag.unknown_ms > lag.unknown,
        "unknown_lags": lag and lag.unknown,
        "verdict": lag and lag.verdict,
    }
    return values_of(group) | of_lag | {"unknown": unknown_values(group.unknown), "findings": group.findings}


def _rank(group: Group) -> tuple[int, int, int, str]:
    lag, findings = group.lag, group.findings
    worst = _PLACE[findings[0].kind] if findings else len(_PLACE)
    behind = (lag.lag_ms, lag.lag) if lag is not None else (None, None)
    lag_ms, records = (1 if value is None else -value for value in behind)
    return worst, lag_ms, records, group.group


# ---- the conditions: each returns the finding as a sentence, "" if there is none -------------------------------------

_PLACE: Mapping[str, int] = {kind: place for place, kind in enumerate(FindingKind)}
Judge = Callable[[Group], str]


def _why(group: Group) -> str:
    return f"{group.role.detail.rstrip('.')}. {group.role.remedy}" if group.role is not None else ""


def _not_led(group: Group) -> str:
    if group.not_leading in (None, *NO_PROBLEM, *PASSING):
        return ""
    return f"Bellwether is to lead this group and does not: {_why(group)}"


def _nobody_reads(group: Group) -> str:
    waits = group.lag.lag if group.lag is not None else None
    if group.members != 0 or not waits or group.self_assigned:
        return ""
    alone = group.state == "stable" and group.not_leading in (NotLeading.EMPTY, NotLeading.UNKNOWN_GROUP)
    more = f" {ONLY_BELLWETHER}. {RELEASE}." if alone else ""
    return f"No member is in the group, and {counted(waits, 'record')} wait.{more}"


def _verdict(verdict: LagVerdict, text: str) -> Judge:
    return lambda group: f"{counted(number, 'partition')} {text}" if (number := group.judged(verdict)) else ""


def _no_owner(group: Group) -> str:
    if not group.unowned or group.members == 0:
        return ""
    return f"{counted(group.unowned, 'item')} of what members subscribe to have no owner."


def _storm(group: Group) -> str:
    if group.rebalances < STORM_MIN:
        return ""
    return f"{group.rebalances} rebalances within {STORM_MS // 60_000} minutes."


def _not_seen(group: Group) -> str:
    return f"The group cannot be described: {group.trouble}." if group.trouble else ""


def _self_assigned(group: Group) -> str:
    """Describes the lag and the rate of consumers that assign themselves partitions."""
    lag = group.lag
    if lag is None or not lag.self_assigned:
        return ""
    rate = f", and {lag.consumed_per_s:,.1f} per second are read" if lag.consumed_per_s is not None else ""
    progress = f" {counted(lag.lag, 'record')} wait{'s' * (lag.lag == 1)}{rate}." if lag.lag is not None else ""
    return f"{SELF_ASSIGNED[:1].upper()}{SELF_ASSIGNED[1:]}.{progress}"


def _waits(group: Group) -> str:
    return _why(group) if group.not_leading in PASSING else ""


_JUDGES: Mapping[FindingKind, Judge] = {
    FindingKind.NOT_LED: _not_led,
    FindingKind.NOBODY_READS: _nobody_reads,
    FindingKind.STOPPED: _verdict(LagVerdict.STOPPED, "made no progress for five minutes, and no member has them."),
    FindingKind.STALLED: _verdict(LagVerdict.STALLED, "made no progress for five minutes, although members have them."),
    FindingKind.FALLING_BEHIND: _verdict(LagVerdict.FALLING_BEHIND, "got further behind for five minutes."),
    FindingKind.NO_OWNER: _no_owner,
    FindingKind.REBALANCE_STORM: _storm,
    FindingKind.NOT_SEEN: _not_seen,
    FindingKind.SELF_ASSIGNED: _self_assigned,
    FindingKind.WAITS: _waits,
}
