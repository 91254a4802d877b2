"""Which group needs attention most, and why."""

import re
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.membership import NotLeading, Role
from bellwether_kafka.coordinator.observation import Anomaly, AnomalyKind, LagSummary, LagVerdict
from bellwether_kafka.coordinator.web import GroupNow, GroupStatus, overview, role_status
from bellwether_kafka.coordinator.web.overview import (
    NO_PROBLEM,
    PASSING,
    RULES,
    OverviewReason,
    problems_of,
    values_of_row,
)
from tests.paths import ROOT

OFTEN = 3

LAG = LagSummary(12, LagVerdict.OK, 100, 60, 0, 5_000, 0, 1.0, 1.0, 0, {verdict.value: 0 for verdict in LagVerdict})
WELL = GroupNow(GroupStatus("g", "observe", "stable", False, None, -1, 4), "classic", "a member", LAG)


def judged(verdict: LagVerdict, count: int = 2) -> GroupNow:
    return replace(WELL, lag=replace(LAG, verdicts={**LAG.verdicts, verdict.value: count}))


def to_lead(reason: NotLeading | None) -> GroupNow:
    role = role_status(Role(reason, "a reason"), 0.0)
    return replace(WELL, status=replace(WELL.status, mode="lead", leading=reason is None, role=role))


def named(name: str, now: GroupNow) -> GroupNow:
    return replace(now, status=replace(now.status, group=name))


def unusual(kind: AnomalyKind) -> GroupNow:
    return replace(WELL, anomalies=(Anomaly(kind, 1, "what is wrong", "what to do"),))


NOBODY = replace(WELL, status=replace(WELL.status, state="empty", members=0))
EXAMPLES = {
    OverviewReason.NOT_LED: to_lead(NotLeading.NO_PLAN),
    OverviewReason.NOBODY_READS: NOBODY,
    OverviewReason.STOPPED: judged(LagVerdict.STOPPED),
    OverviewReason.STALLED: judged(LagVerdict.STALLED),
    OverviewReason.FALLING_BEHIND: judged(LagVerdict.FALLING_BEHIND),
    OverviewReason.NO_OWNER: replace(WELL, unowned=3),
    OverviewReason.WRONG_ASSIGNMENT: unusual(AnomalyKind.TWO_OWNERS),
    OverviewReason.REBALANCES_OFTEN: replace(WELL, rebalances=OFTEN),
    OverviewReason.NOT_SEEN: replace(WELL, lag=None, trouble="there is no such group yet"),
    OverviewReason.SELF_ASSIGNED: replace(NOBODY, lag=replace(LAG, self_assigned=True)),
    OverviewReason.UNUSUAL: unusual(AnomalyKind.TWO_APPLICATIONS),
    OverviewReason.WAITS: to_lead(NotLeading.JOINING),
}


@pytest.mark.parametrize("reason", OverviewReason)
def test_each_reason_has_a_rule_and_holds_alone(reason: OverviewReason) -> None:
    (problem,) = problems_of(EXAMPLES[reason])
    assert problem.reason == reason
    assert problem.words
    assert problem.detail


def test_where_bellwether_is_alone_the_page_says_who_is_refused() -> None:
    alone = replace(NOBODY, status=replace(to_lead(NotLeading.EMPTY).status, state="stable", members=0))
    detail = {problem.reason: problem.detail for problem in problems_of(alone)}[OverviewReason.NOBODY_READS]
    assert "Bellwether is its only member, so the broker refuses" in detail
    assert "bellwether release" in detail
    assert "only member" not in problems_of(NOBODY)[0].detail


def test_rules_are_in_the_order_of_the_reasons() -> None:
    assert [rule.reason for rule in RULES] == list(OverviewReason)


def test_the_documentation_has_the_rules_in_their_order() -> None:
    text = (ROOT / "docs" / "guides" / "page.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z ]+) \| (bad|warn|info) \|", text, re.MULTILINE)
    assert rows == [(rule.words, rule.level) for rule in RULES]


def test_nothing_is_wrong_with_a_group_that_reads() -> None:
    assert problems_of(WELL) == ()
    assert problems_of(replace(WELL, rebalances=OFTEN - 1, lag=None)) == ()
    assert problems_of(replace(NOBODY, lag=replace(LAG, lag=0))) == (), "nobody is missing where all is read"
    assert problems_of(replace(NOBODY, unowned=3, lag=None)) == (), "what nobody knows is no reason"


@pytest.mark.parametrize("reason", [None, *NotLeading])
def test_every_reason_not_to_lead_is_somebodys_work_or_passes_or_needs_nothing(reason: NotLeading | None) -> None:
    reasons = {problem.reason for problem in problems_of(to_lead(reason))}
    if reason is None or reason in NO_PROBLEM:
        assert reasons == set()
    else:
        assert reasons == {OverviewReason.WAITS if reason in PASSING else OverviewReason.NOT_LED}


def test_a_group_that_should_be_led_and_is_not_says_why_and_what_to_do() -> None:
    (problem,) = problems_of(to_lead(NotLeading.FENCED))
    assert "a reason" in problem.detail
    assert "instance_id" in problem.detail


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
    names = [now.status.group for now in ordered]
    assert [row.now.status.group for row in overview(ordered)] == names
    assert [row.now.status.group for row in overview(reversed(ordered))] == names


def test_a_group_with_several_reasons_is_shown_at_its_worst() -> None:
    both = replace(judged(LagVerdict.STALLED), unowned=1)
    (row, _) = overview([named("x", EXAMPLES[OverviewReason.FALLING_BEHIND]), named("both", both)])
    assert [problem.reason for problem in row.problems] == [OverviewReason.STALLED, OverviewReason.NO_OWNER]


def test_values_keep_the_unknown_apart_from_zero() -> None:
    complete, unknown = (values_of_row(row) for row in overview([WELL, named("h", replace(WELL, lag=None))]))
    assert (complete["lag"], complete["lag_ms"], complete["lag_at_least"], complete["verdict"]) == (
        100,
        5_000,
        False,
        "ok",
    )
    assert {unknown[name] for name in ("lag", "lag_ms", "unknown_lags", "verdict", "curve", "cross_rack")} == {None}
    least = values_of_row(*overview([replace(WELL, lag=replace(LAG, unknown_ms=1))]))
    assert least["lag_at_least"]


def test_consumers_that_assign_themselves_are_shown_with_their_lag_and_progress() -> None:
    (problem,) = problems_of(EXAMPLES[OverviewReason.SELF_ASSIGNED])
    assert problem.level == "info"
    assert problem.detail == (
        "Consumers assign themselves partitions: offsets are committed without members."
        " 100 records wait, and 1.0 per second are read."
    )
