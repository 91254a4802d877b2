"""What is wrong with a group, by the table of findings, and which group needs attention most."""

import re
from dataclasses import replace

import pytest
import yaml

from bellwether_kafka.coordinator.membership import NotLeading, Role
from bellwether_kafka.coordinator.observation import (
    ANOMALIES,
    FINDINGS,
    NO_PROBLEM,
    PASSING,
    STORM_MIN,
    FindingKind,
    Group,
    LagSummary,
    LagVerdict,
    Level,
    of_kind,
    role_status,
    values_of_group,
    worst_first,
)
from tests.paths import ROOT

LAG = LagSummary(12, LagVerdict.OK, 100, 60, 0, 5_000, 0, 1.0, 1.0, 0, {verdict.value: 0 for verdict in LagVerdict})
WELL = Group(group="g", state="stable", members=4, type="classic", assigned_by="a member", lag=LAG)


def judged(verdict: LagVerdict, count: int = 2) -> Group:
    return replace(WELL, lag=replace(LAG, verdicts={**LAG.verdicts, verdict.value: count}))


def to_lead(reason: NotLeading | None) -> Group:
    role = role_status(Role(reason, "a reason"), 0.0)
    return replace(WELL, mode="lead", leading=reason is None, role=role)


def named(name: str, now: Group) -> Group:
    return replace(now, group=name)


def unusual(kind: FindingKind) -> Group:
    return replace(WELL, anomalies=(of_kind(kind, "what is wrong", "what to do"),))


NOBODY = replace(WELL, state="empty", members=0)
_EXAMPLES = {
    **{kind: unusual(kind) for kind in ANOMALIES},
    FindingKind.NOT_LED: to_lead(NotLeading.NO_PLAN),
    FindingKind.NOBODY_READS: NOBODY,
    FindingKind.STOPPED: judged(LagVerdict.STOPPED),
    FindingKind.STALLED: judged(LagVerdict.STALLED),
    FindingKind.FALLING_BEHIND: judged(LagVerdict.FALLING_BEHIND),
    FindingKind.NO_OWNER: replace(WELL, unowned=3),
    FindingKind.REBALANCE_STORM: replace(WELL, rebalances=STORM_MIN),
    FindingKind.NOT_SEEN: replace(WELL, lag=None, trouble="there is no such group yet"),
    FindingKind.SELF_ASSIGNED: replace(NOBODY, lag=replace(LAG, self_assigned=True)),
    FindingKind.WAITS: to_lead(NotLeading.JOINING),
}
EXAMPLES = {kind: _EXAMPLES[kind] for kind in FindingKind if kind in _EXAMPLES}


# Not of a group at one moment: `assess` adds them.
OF_ASSESSMENTS = {
    FindingKind.STUCK_REBALANCE,
    FindingKind.GHOSTS,
    FindingKind.SESSION_TIMEOUTS,
    FindingKind.CROSS_RACK,
    FindingKind.UNEVEN_MEMBERS,
    FindingKind.NO_CLIENT_LEADS,
}


@pytest.mark.parametrize("kind", [kind for kind in FindingKind if kind not in OF_ASSESSMENTS])
def test_each_kind_has_an_example_that_has_it_alone(kind: FindingKind) -> None:
    (finding,) = EXAMPLES[kind].findings
    assert (finding.kind, finding.level) == (kind, FINDINGS[kind].level)
    assert finding.message


def test_the_table_has_every_kind_in_its_order() -> None:
    assert list(FINDINGS) == list(FindingKind)


RULES = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


@pytest.mark.parametrize("kind", [kind for kind in FindingKind if FINDINGS[kind].alert])
def test_the_alert_of_a_kind_has_its_condition_and_threshold(kind: FindingKind) -> None:
    row = FINDINGS[kind]
    assert row.alert_reads in RULES[row.alert]


def test_what_pages_somebody_is_worse_than_an_information() -> None:
    for kind, row in FINDINGS.items():
        assert row.level is not Level.INFO or not row.alert, kind


def test_where_bellwether_is_alone_the_page_says_who_is_refused() -> None:
    alone = replace(NOBODY, state="stable", role=to_lead(NotLeading.EMPTY).role)
    detail = {finding.kind: finding.message for finding in alone.findings}[FindingKind.NOBODY_READS]
    assert "Bellwether is its only member, so the broker refuses" in detail
    assert "bellwether release" in detail
    assert "only member" not in NOBODY.findings[0].message


def test_the_documentation_has_the_findings_of_a_group_in_their_order() -> None:
    text = (ROOT / "docs" / "guides" / "page.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_]+)` \| (fail|warn|info) \|", text, re.MULTILINE)
    assert rows == [(kind, row.level) for kind, row in FINDINGS.items()]


def test_nothing_is_wrong_with_a_group_that_reads() -> None:
    assert WELL.findings == ()
    assert replace(WELL, rebalances=STORM_MIN - 1, lag=None).findings == ()
    assert replace(NOBODY, lag=replace(LAG, lag=0)).findings == (), "nobody is missing where all is read"
    assert replace(NOBODY, unowned=3, lag=None).findings == (), "what nobody knows is no reason"


@pytest.mark.parametrize("reason", [None, *NotLeading])
def test_every_reason_not_to_lead_is_somebodys_work_or_passes_or_needs_nothing(reason: NotLeading | None) -> None:
    reasons = {finding.kind for finding in to_lead(reason).findings}
    if reason is None or reason in NO_PROBLEM:
        assert reasons == set()
    else:
        assert reasons == {FindingKind.WAITS if reason in PASSING else FindingKind.NOT_LED}


def test_a_group_that_should_be_led_and_is_not_says_why_and_what_to_do() -> None:
    (finding,) = to_lead(NotLeading.FENCED).findings
    assert "a reason" in finding.message
    assert "instance_id" in finding.message


def test_the_most_painful_is_first_then_lag_in_time_then_in_records_then_the_name() -> None:
    ordered = [
        *(named(reason.value, now) for reason, now in EXAMPLES.items()),
        named("late", replace(WELL, lag=replace(LAG, lag_ms=90_000, lag=1))),
        named("more", replace(WELL, lag=replace(LAG, lag=101))),
        named("a", WELL),
        named("b", WELL),
        named("records", replace(WELL, lag=replace(LAG, lag_ms=None, lag=10**9))),
        named("unknown", replace(WELL, lag=None)),
    ]
    names = [now.group for now in ordered]
    assert [row.group for row in worst_first(ordered)] == names
    assert [row.group for row in worst_first(reversed(ordered))] == names


def test_a_group_with_several_reasons_is_shown_at_its_worst() -> None:
    both = replace(judged(LagVerdict.STALLED), unowned=1)
    (row, _) = worst_first([named("x", EXAMPLES[FindingKind.FALLING_BEHIND]), named("both", both)])
    assert [finding.kind for finding in row.findings] == [FindingKind.STALLED, FindingKind.NO_OWNER]


def test_values_keep_the_unknown_apart_from_zero() -> None:
    complete, unknown = (values_of_group(row) for row in worst_first([WELL, named("h", replace(WELL, lag=None))]))
    assert (complete["lag"], complete["lag_ms"], complete["lag_at_least"], complete["verdict"]) == (
        100,
        5_000,
        False,
        "ok",
    )
    assert {unknown[name] for name in ("lag", "lag_ms", "unknown_lags", "verdict", "curve", "cross_rack")} == {None}
    least = values_of_group(*worst_first([replace(WELL, lag=replace(LAG, unknown_ms=1))]))
    assert least["lag_at_least"]


def test_consumers_that_assign_themselves_are_shown_with_their_lag_and_progress() -> None:
    (finding,) = EXAMPLES[FindingKind.SELF_ASSIGNED].findings
    assert finding.level == "info"
    assert finding.message == (
        "Consumers assign themselves partitions: offsets are committed without members."
        " 100 records wait, and 1.0 per second are read."
    )
