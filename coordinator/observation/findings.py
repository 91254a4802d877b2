"""What may be wrong with a group: every kind of finding with its level and its thresholds, in one table. Pure.

`doctor`, `assess`, `describe`, `groups`, `top`, the page, metrics and JSON show findings of this table, and the alert
rules name its kinds and thresholds. `group.py` has the conditions that need all of a group, `anomalies.py` judges
assignments; `doctor` adds checks whether Bellwether may lead, `assess` adds what Bellwether would avoid.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

UNEVEN = 1.1  # times the mean
APART_MIN = 3  # partitions of a topic by which the largest share exceeds the smallest
STORM_MIN = 7  # rebalances within STORM_MS
STORM_MS = 600_000
OLD_MS = 300_000  # of a refresh; groups are refreshed at least every two minutes


class Level(StrEnum):
    """How much a finding matters, ascending."""

    NOT_APPLICABLE = "n/a"
    PASS = "pass"  # noqa: S105 - not a password
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        return list(Level).index(self)


class FindingKind(StrEnum):
    """The kinds of findings, the worst first."""

    NOT_LED = "not_led"
    NOBODY_READS = "nobody_reads"
    STOPPED = "stopped"
    STALLED = "stalled"
    FALLING_BEHIND = "falling_behind"
    NO_OWNER = "no_owner"
    TWO_OWNERS = "two_owners"
    NO_SUCH_PARTITION = "no_such_partition"
    NOT_SUBSCRIBED = "not_subscribed"
    STUCK_REBALANCE = "stuck_rebalance"
    REBALANCE_STORM = "rebalance_storm"
    NOT_SEEN = "not_seen"
    HELD_UP = "held_up"
    NOT_MATCHED = "not_matched"
    SELF_ASSIGNED = "self_assigned"
    TWO_HOSTS = "two_hosts"
    TWO_APPLICATIONS = "two_applications"
    UNEVEN_TOPIC = "uneven_topic"
    GHOSTS = "ghosts"
    SESSION_TIMEOUTS = "session_timeouts"
    CROSS_RACK = "cross_rack"
    UNEVEN_MEMBERS = "uneven_members"
    NO_CLIENT_LEADS = "no_client_leads"
    WAITS = "waits"

    @property
    def words(self) -> str:
        """The kind as it is displayed, such as "two owners"."""
        return self.value.replace("_", " ")

    @property
    def level(self) -> Level:
        return FINDINGS[self].level


@dataclass(frozen=True, slots=True)
class FindingRow:
    """`when` is the condition in words. `alert` is the name of the alert rule of the kind, "" without one, and
    `alert_reads` a part of its expression."""

    level: Level
    when: str
    alert: str = ""
    alert_reads: str = ""


_WRONG_ALERT = "BellwetherWrongAssignment"
_WRONG = 'bellwether_anomalies{kind=~"two_owners|no_such_partition|not_subscribed"}'
FINDINGS: Mapping[FindingKind, FindingRow] = {
    FindingKind.NOT_LED: FindingRow(
        Level.FAIL,
        "Bellwether is to lead the group and does not, for a reason that an operator has to resolve",
        "BellwetherNotLeading",
        "(bellwether_group_leading) == 0",
    ),
    FindingKind.NOBODY_READS: FindingRow(
        Level.FAIL, "the group has no members, records wait for it, and its offsets do not move"
    ),
    FindingKind.STOPPED: FindingRow(
        Level.FAIL,
        "partitions without progress for five minutes, and no member has them",
        "BellwetherLagStopped",
        'bellwether_lag_partitions{verdict="stopped"}',
    ),
    FindingKind.STALLED: FindingRow(
        Level.FAIL,
        "partitions without progress for five minutes, although members have them",
        "BellwetherLagStalled",
        'bellwether_lag_partitions{verdict="stalled"}',
    ),
    FindingKind.FALLING_BEHIND: FindingRow(
        Level.WARN,
        "partitions whose lag has grown for five minutes and never became smaller",
        "BellwetherFallingBehind",
        'bellwether_lag_partitions{verdict="falling_behind"}',
    ),
    FindingKind.NO_OWNER: FindingRow(
        Level.WARN,
        "there are members, and partitions or tasks that they subscribe to have no owner",
        "BellwetherUnownedPartitions",
        "(bellwether_unowned_partitions",
    ),
    FindingKind.TWO_OWNERS: FindingRow(
        Level.WARN, "partitions were given to two members or more", _WRONG_ALERT, _WRONG
    ),
    FindingKind.NO_SUCH_PARTITION: FindingRow(
        Level.WARN, "members have partitions that do not exist", _WRONG_ALERT, _WRONG
    ),
    FindingKind.NOT_SUBSCRIBED: FindingRow(
        Level.WARN,
        "members have partitions of topics that are not in their subscriptions",
        _WRONG_ALERT,
        _WRONG,
    ),
    FindingKind.STUCK_REBALANCE: FindingRow(Level.WARN, "a rebalance has not ended"),
    FindingKind.REBALANCE_STORM: FindingRow(
        Level.WARN,
        f"{STORM_MIN} rebalances or more within {STORM_MS // 60_000} minutes that no order has caused",
        "BellwetherRebalanceStorm",
        f'(increase(bellwether_rebalances_total{{outcome!="ordered"}}[{STORM_MS // 60_000}m])) > {STORM_MIN - 1}',
    ),
    FindingKind.NOT_SEEN: FindingRow(
        Level.WARN, f"the group cannot be described, or its last refresh is older than {OLD_MS // 60_000} minutes"
    ),
    FindingKind.HELD_UP: FindingRow(Level.WARN, "a broker waits for a member that has to give something up"),
    FindingKind.NOT_MATCHED: FindingRow(Level.WARN, "a pattern of the members finds less than the group has read"),
    FindingKind.SELF_ASSIGNED: FindingRow(Level.INFO, "the group has no members, and its offsets move"),
    FindingKind.TWO_HOSTS: FindingRow(Level.WARN, "threads on several hosts have one process id"),
    FindingKind.TWO_APPLICATIONS: FindingRow(
        Level.WARN,
        "members fall into parts without a common topic",
        "BellwetherTwoApplications",
        'bellwether_anomalies{kind="two_applications"}',
    ),
    FindingKind.UNEVEN_TOPIC: FindingRow(
        Level.INFO,
        f"of a topic some members have {APART_MIN} partitions more than others and over {UNEVEN} times the mean,"
        " although their totals are equal",
    ),
    FindingKind.GHOSTS: FindingRow(Level.WARN, "dead members keep their place in the group"),
    FindingKind.SESSION_TIMEOUTS: FindingRow(Level.WARN, "rebalances wait for members that never come back"),
    FindingKind.CROSS_RACK: FindingRow(Level.INFO, "partitions are read from another rack, or no member names one"),
    FindingKind.UNEVEN_MEMBERS: FindingRow(Level.INFO, f"the fullest member has over {UNEVEN} times the mean"),
    FindingKind.NO_CLIENT_LEADS: FindingRow(Level.INFO, "no client can lead the group"),
    FindingKind.WAITS: FindingRow(Level.INFO, "Bellwether is to lead the group and does not yet, which passes"),
}
# The kinds that an assignment or what members send shows, by which metrics count them, the worst first.
WRONG_ASSIGNMENT = (FindingKind.TWO_OWNERS, FindingKind.NO_SUCH_PARTITION, FindingKind.NOT_SUBSCRIBED)
ANOMALIES = (
    *WRONG_ASSIGNMENT,
    *(FindingKind.HELD_UP, FindingKind.NOT_MATCHED, FindingKind.SELF_ASSIGNED),
    *(FindingKind.TWO_HOSTS, FindingKind.TWO_APPLICATIONS, FindingKind.UNEVEN_TOPIC),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is judged of a group. `kind` is one of FindingKind, or the name of a check of `doctor` or `convert`.
    `message` is a sentence, `remedy` what a person has to do about it, "" if nothing; `avoided` is what Bellwether does
    about it, and `setting` the configuration line with which. `details` has a line for each member, if members differ.
    `count` is a number of partitions, topics, members or applications, depending on the kind."""

    kind: str
    level: Level
    message: str
    remedy: str = ""
    details: tuple[str, ...] = ()
    setting: str = ""
    avoided: str = ""
    count: int = 1

    @property
    def words(self) -> str:
        """The kind as it is displayed."""
        return self.kind.replace("_", " ")


def of_kind(
    kind: FindingKind, message: str, remedy: str = "", *, setting: str = "", avoided: str = "", count: int = 1
) -> Finding:
    """Returns a finding with the level of its kind."""
    return Finding(kind, kind.level, message, remedy, (), setting, avoided, count)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a check finds wrong: a sentence, and what to do."""

    level: Level
    message: str
    remedy: str


def judged(
    name: str, faults: Iterable[Fault | None], passed: str, details: tuple[str, ...] = (), remedy: str = ""
) -> Finding:
    """Returns one check of all faults, the worst first, so that none hides another; with `passed` and `remedy` if there
    are none."""
    wrong = sorted(filter(None, faults), key=lambda fault: -fault.level.rank)
    if not wrong:
        return Finding(name, Level.PASS, passed, remedy, details)
    messages = " ".join(dict.fromkeys(fault.message for fault in wrong))
    remedies = " ".join(dict.fromkeys(fault.remedy for fault in wrong if fault.remedy))
    return Finding(name, wrong[0].level, messages, remedies, details)


def worst(findings: Iterable[Finding]) -> Level:
    return max((finding.level for finding in findings), key=lambda level: level.rank, default=Level.PASS)
