"""What the overview says of a group follows from its role, its last refresh and its last rebalance."""

from dataclasses import dataclass, field, replace

from bellwether_kafka.coordinator.membership import NotLeading, Role
from bellwether_kafka.coordinator.observation import (
    Group,
    LagTrends,
    Observation,
    Rebalances,
    Unknown,
    group_values,
    role_status,
    values_of_group,
    worst_first,
)
from bellwether_kafka.coordinator.runtime.groups_now import group_now
from tests.kit.observed import SKEWED, group_lag, sample
from tests.unit.coordinator.web.shown import decided, example_rebalances, member, planned

NOW_MS = 1_700_000_000_000
LAG = group_lag(sample(0, {"orders": [1]}, {"orders": [4]}))


@dataclass(slots=True)
class Refreshes:
    """What an observer remembers."""

    last: Observation | None = None
    rebalances: Rebalances = field(default_factory=Rebalances)


def seen_as(*refreshes: Observation) -> Group:
    """An observed group after these refreshes."""
    observer, trends = Refreshes(), LagTrends()
    for seen in refreshes:
        observer.last = seen
        observer.rebalances.observe(seen)
        trends.on_observation(seen)
    members = len(refreshes[-1].members) if refreshes else 0
    status = Group(group="g", mode="observe", state="stable", members=members)
    return group_now(status, observer, example_rebalances(), trends, NOW_MS)


def to_lead(name: str, reason: NotLeading | None, observer: Refreshes | None = None) -> Group:
    status = Group(
        group=name,
        mode="lead",
        state="stable",
        leading=reason is None,
        role=role_status(Role(reason), 0.0),
        generation=2,
        members=3,
    )
    return group_now(status, observer, example_rebalances(), LagTrends(), NOW_MS)


def test_a_group_that_has_not_been_refreshed_has_nothing_to_say() -> None:
    now = seen_as()
    assert (now.type, now.lag, now.curve, now.cross_rack, now.trouble) == ("", None, None, None, "")


def test_an_observed_group_has_the_costs_of_its_shadow_plan_and_its_lags() -> None:
    now = seen_as(replace(SKEWED, group_lag=LAG))
    shadow = SKEWED.shadow
    assert shadow is not None
    assert (now.cross_rack, now.cross_rack_planned) == (shadow.current.cross_rack, shadow.planned.cross_rack)
    assert (now.items, now.unowned, now.moves) == (4, 0, shadow.moves.moved + shadow.moves.new)
    assert (now.type, now.assigned_by) == ("classic", "a member")
    assert now.lag is not None
    assert now.curve is not None
    assert (now.lag.lag, now.curve.values) == (3, (3,))


def test_who_assigns_is_the_broker_bellwether_a_member_or_nobody() -> None:
    cases = {
        "its broker": replace(SKEWED, kind="consumer"),
        "Bellwether": replace(SKEWED, bellwether_members=SKEWED.members[:1]),
        "a member": SKEWED,
        "nobody": replace(SKEWED, members=(), shadow=None),
        "its consumers": replace(SKEWED, members=(), shadow=None, group_lag=replace(LAG, self_assigned=True)),
    }
    assert {who: seen_as(seen).assigned_by for who, seen in cases.items()} == {who: who for who in cases}


def test_why_a_group_cannot_be_seen_is_its_trouble_and_why_it_has_no_plan_is_not() -> None:
    now = replace(SKEWED, seen_at_ms=NOW_MS, shadow=None)
    assert seen_as(replace(now, kind="missing", trouble="there is no such group yet")).trouble
    assert not seen_as(replace(now, trouble="it rebalances")).trouble


def test_a_refresh_that_is_old_is_trouble() -> None:
    old = seen_as(replace(SKEWED, seen_at_ms=NOW_MS - 360_000))
    assert old.trouble == "the last refresh that was answered is 6 minutes old"
    assert not seen_as(replace(SKEWED, seen_at_ms=NOW_MS - 120_000)).trouble


def test_only_rebalances_of_the_last_ten_minutes_count() -> None:
    other = replace(SKEWED, members=SKEWED.members[:2])
    refreshes = [replace(SKEWED if i % 2 else other, seen_at_ms=NOW_MS - 15 * 60_000 + i * 120_000) for i in range(8)]
    assert seen_as(*refreshes).rebalances == 5


def test_a_rebalance_by_a_plan_that_was_served_counts_once() -> None:
    """It is among the rebalances that are seen of a group whose broker assigns."""
    status = Group(group="g", mode="observe", state="stable", members=3)

    def counted(seen: Observation) -> int | None:
        return group_now(status, Refreshes(seen), example_rebalances(), LagTrends(), SKEWED.seen_at_ms).rebalances

    assert counted(SKEWED) == sum(line.group == "g" for line in example_rebalances().lines())
    assert counted(replace(SKEWED, kind="consumer")) == 0


def test_a_led_group_without_a_plan_of_this_process_has_what_brokers_show() -> None:
    """After a restart, in which nothing is planned, and while it is blocked or converted: never fewer figures."""
    shadow, seen = SKEWED.shadow, replace(SKEWED, seen_at_ms=NOW_MS)
    assert shadow is not None
    led = to_lead("g", None, Refreshes(seen))
    assert (led.assigned_by, led.type, led.items, led.trouble) == ("Bellwether", "classic", 4, "")
    assert (led.unowned, led.cross_rack) == (shadow.current.unowned, shadow.current.cross_rack)
    blocked = to_lead("g", NotLeading.BLOCKED, Refreshes(seen))
    assert (blocked.assigned_by, blocked.items, blocked.cross_rack) == ("a member", 4, shadow.current.cross_rack)
    converted = to_lead("g", NotLeading.CONVERTED, Refreshes(replace(seen, kind="consumer")))
    assert (converted.assigned_by, converted.type, converted.items) == ("its broker", "consumer", 4)
    again = to_lead("g", None, Refreshes(replace(seen, kind="consumer")))
    assert (again.assigned_by, again.type) == ("Bellwether", "classic"), "a broker assigned until a moment ago"


def test_who_assigns_in_a_group_that_brokers_have_not_shown_yet_is_unknown() -> None:
    assert to_lead("g", NotLeading.STARTING, Refreshes()).assigned_by == "unknown"
    assert to_lead("g", None, Refreshes()).assigned_by == "Bellwether"


def test_a_led_group_has_the_costs_of_its_last_rebalance_while_that_is_in_force() -> None:
    led = example_rebalances().decision("g")
    assert led is not None
    now = to_lead("g", None)
    assert (now.assigned_by, now.items) == ("Bellwether", len(led.plan.owner))
    assert (now.unowned, now.cross_rack) == (led.cost.unowned, led.cost.cross_rack)
    lost = to_lead("g", NotLeading.FENCED, Refreshes())
    assert (lost.assigned_by, lost.items, lost.cross_rack) == ("unknown", None, None)
    assert to_lead("never-led", None).cross_rack is None


def test_what_is_unknown_has_the_same_form_as_in_every_answer() -> None:
    unknown = Unknown("its coordinator node answers COORDINATOR_NOT_AVAILABLE", NOW_MS, "COORDINATOR_NOT_AVAILABLE")
    (row,) = worst_first([seen_as(replace(SKEWED, unknown=unknown))])
    values = values_of_group(row)
    assert values["unknown"] == group_values(replace(SKEWED, unknown=unknown))["unknown"]
    assert values["unknown"] == {
        "reason": unknown.reason, "since_ms": NOW_MS, "error": "COORDINATOR_NOT_AVAILABLE", "right": ""
    }  # fmt: skip
    assert values_of_group(*worst_first([seen_as(SKEWED)]))["unknown"] is None


def test_rebalances_of_an_ordered_roll_do_not_count() -> None:
    """The page said "rebalances often" while an operator restarted the instances."""
    status = Group(group="g", mode="lead", state="stable", leading=True, generation=2, members=3)
    before, rolled = example_rebalances(), example_rebalances()
    made = planned(decided(member("a", "az1")))
    for _ in range(5):
        rolled.on_decision(replace(made, cause=replace(made.cause, by_order=True)))
    counted = [group_now(status, None, led, LagTrends(), SKEWED.seen_at_ms).rebalances for led in (before, rolled)]
    assert counted[0] == counted[1] > 0
