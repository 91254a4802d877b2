"""What happened, from looks and from recorded events: counts, member-seconds, waits and storms; and what is unknown."""

from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.coordinator.assessment import GhostRefreshes, period_of_records
from bellwether_kafka.coordinator.assessment.model import Period
from bellwether_kafka.coordinator.assessment.periods import period_of_refreshes, storms
from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.coordinator.replay import History
from tests.kit.observed import observed_member, refresh
from tests.kit.plans import LOADS, recorded_consumers, traffic
from tests.kit.plans import recorded_leads as led

STORM_MS = 600_000

FOREVER_MS = 1 << 62
DECISION = {
    "group": "g",
    "protocol": "range",
    "members": 4,
    "cause_kind": "members joined",
    "cause": "app joined",
    "source": "plan",
    "moved": 3,
    "metadata_ms": 100.0,
    "plan_ms": 50.0,
    "sync_ms": 350.0,
}


def of(*refreshes: Observation, **ghosts: Any) -> Period:
    return period_of_refreshes(refreshes, GhostRefreshes("g", **ghosts))


def test_one_refresh_knows_of_no_rebalance() -> None:
    period = of(refresh(10, observed_member("a-1", "t-0")))
    assert (period.rebalances, period.member_s_min, period.moved, period.storms) == (None, None, None, ())
    assert "one refresh" in period.unknown[0]


def test_member_seconds_are_those_of_all_members_between_the_refreshes() -> None:
    """Seen rebalancing from 20 to 30, at rest at 10 and 40: 10 s at least and 30 s at most, for two members."""
    both = observed_member("a-1", "t-0"), observed_member("b-1", "t-1")
    shaken = [refresh(at, *both, state="PreparingRebalance") for at in (20, 30)]
    period = of(refresh(10, both[0]), *shaken, refresh(40, *both))
    assert (period.rebalances, period.member_s_min, period.member_s_max) == (1, 20.0, 60.0)
    assert period.waited_member_s == 0, "nobody has gone"
    assert period.causes == {"b joined": 1}


def test_a_wait_for_a_member_who_never_came_back_is_counted() -> None:
    both = observed_member("a-1", "t-0"), observed_member("b-1", "t-1")
    shaken = [refresh(at, *both, state="PreparingRebalance") for at in (20, 60)]
    period = of(refresh(10, *both), *shaken, refresh(70, observed_member("a-1", "t-0", "t-1")))
    assert period.waited_member_s == 80.0
    assert period.stuck_ms == 0


def test_a_cooperative_group_has_no_member_seconds() -> None:
    refreshes = [
        replace(refresh(at, observed_member("a-1", *owned)), protocol="cooperative-sticky")
        for at, owned in ((1, ["t-0"]), (9, []))
    ]
    period = of(*refreshes)
    assert (period.rebalances, period.member_s_min, period.member_s_max) == (1, None, None)
    assert any("cooperative" in reason for reason in period.unknown)


def test_members_of_a_broker_assigned_group_go_on_too_so_no_member_seconds_are_counted() -> None:
    refreshes = [
        replace(refresh(at, observed_member("a-1", *owned)), kind="consumer", protocol=assignor)
        for assignor in ("uniform", "range")
        for at, owned in ((1, ["t-0"]), (9, []))
    ]
    for both in (refreshes[:2], refreshes[2:]):
        assert (of(*both).rebalances, of(*both).member_s_min) == (1, None)


def test_more_rebalances_than_are_remembered_are_all_counted() -> None:
    refreshes = [refresh(at, observed_member("a-1", f"t-{at}")) for at in range(80)]
    period = of(*refreshes)
    assert (period.rebalances, [storm.rebalances for storm in period.storms]) == (79, [79])


def test_a_storm_is_seven_within_ten_minutes_and_as_long_as_it_goes_on() -> None:
    rare = [(at * STORM_MS, "x") for at in range(9)]
    assert storms(rare) == ()
    wild = [(at * STORM_MS // 7, "a joined" if at % 3 else "a left") for at in range(8)]
    (storm,) = storms([*wild, (10 * STORM_MS, "later")])
    assert (storm.rebalances, storm.from_ms, storm.to_ms) == (8, 0, STORM_MS)
    assert storm.behind == "a joined (5 times)"


def test_a_storm_of_ever_other_members_shows_how_often_members_came_and_went() -> None:
    (storm,) = storms([(at, f"guest-{at // 2} {'left or died' if at % 2 else 'joined'}") for at in range(9)])
    assert storm.behind == "members joined (5 times), members left or died (4 times)"


def history(*values: bytes, decisions: int = 0) -> History:
    recorded, schemas = History(), SchemaSet.load()
    for value in values:
        recorded.take(schemas, value)
    recorded.decisions["g"] = [{**DECISION, "generation": n, "decided_at_ms": n * 1_000} for n in range(decisions)]
    return recorded


def test_records_show_rebalances_causes_and_the_leaders_part_of_the_time() -> None:
    period = period_of_records("g", history(decisions=7), 0, FOREVER_MS, None)
    assert (period.rebalances, period.causes, period.moved) == (7, {"members joined": 7}, 21)
    assert (period.member_s_min, period.member_s_max) == (14.0, None)
    assert [storm.rebalances for storm in period.storms] == [7]
    assert (period.ghost_s, period.waited_member_s) == (None, None)
    assert any("how a member ended is not recorded" in reason for reason in period.unknown)


def observed(at_s: int, **more: Any) -> dict[str, Any]:
    """A recorded rebalance of four members that was only observed, in which one left."""
    times = {"metadata_ms": -1.0, "plan_ms": -1.0, "sync_ms": -1.0, "lasted_ms_min": 6_000, "lasted_ms_max": 9_000}
    seen = {"source": "observed", "cause_kind": "members left", "cause": "app left or died", "members_before": 5}
    return {**DECISION, **times, **seen, "generation": -1, "decided_at_ms": at_s * 1_000, **more}


def recorded_as(*decisions: dict[str, Any]) -> Period:
    recorded = History()
    recorded.decisions["g"] = [*decisions]
    return period_of_records("g", recorded, 0, FOREVER_MS, None)


def test_rebalances_that_were_only_observed_held_up_all_members_while_they_lasted() -> None:
    period = recorded_as(observed(10), observed(20))
    assert (period.rebalances, period.moved, period.causes) == (2, 6, {"members left": 2})
    assert (period.member_s_min, period.member_s_max, period.waited_member_s) == (60.0, 90.0, 60.0)
    assert period.ghost_s is None
    assert any("ghosts" in reason for reason in period.unknown)
    assert not any("leader's own part" in reason for reason in period.unknown)


def test_what_an_observed_rebalance_does_not_show_is_unknown_and_never_counted() -> None:
    nothing = {"moved": -1, "lasted_ms_min": 0, "lasted_ms_max": None, "members_before": None, "cause": ""}
    period = recorded_as(observed(10, **nothing))
    assert (period.rebalances, period.moved, period.member_s_min, period.member_s_max) == (1, None, 0.0, None)
    assert "moved: not known of 1 of 1 rebalances" in period.unknown
    both = recorded_as(observed(10, **nothing), observed(20))
    assert (both.moved, both.member_s_min, both.member_s_max) == (3, 30.0, None)


def test_where_some_rebalances_were_led_their_members_waits_are_not_known() -> None:
    period = recorded_as(observed(10), {**DECISION, "generation": 7, "decided_at_ms": 20_000})
    assert (period.rebalances, period.moved) == (2, 6)
    assert (period.member_s_min, period.member_s_max, period.waited_member_s) == (32.0, None, None)
    assert any("leader's own part" in reason for reason in period.unknown)


def test_a_period_takes_what_lies_in_it() -> None:
    period = period_of_records("g", history(decisions=7), 2_000, 3_000, None)
    assert (period.rebalances, period.from_ms, period.to_ms) == (2, 2_000, 3_000)
    assert period_of_records("g", history(decisions=7), 9_000, 10_000, None).rebalances is None


@pytest.mark.slow
def test_recorded_rebalances_are_priced_under_every_policy() -> None:
    reported = history(*led([3, 4, 4, 3], "sticky-min-churn"), traffic(LOADS))
    (group,) = reported.snapshots
    period = period_of_records(group, reported, 0, FOREVER_MS, 0.02)
    rows = {row.policy: row for row in period.policies}
    assert rows["as recorded"].rebalances == 4
    assert {"kafka", "rack-first", "load-aware", "broker-uniform", "broker-range"} <= rows.keys()
    uniform = rows["broker-uniform"]
    assert uniform.gb_per_day is not None
    assert uniform.cost_per_day is not None
    assert uniform.cost_per_day == uniform.gb_per_day * 0.02
    assert (rows["rack-first"].gb_per_day or 0) < uniform.gb_per_day, "a broker does not look at racks"


def test_without_recorded_traffic_bytes_and_money_are_unknown() -> None:
    reported = history(*recorded_consumers([3, 4], racks=True))
    (group,) = reported.snapshots
    period = period_of_records(group, reported, 0, FOREVER_MS, 0.02)
    assert all(row.gb_per_day is None and row.cost_per_day is None for row in period.policies)
    assert any("no traffic was recorded" in reason for reason in period.unknown)
