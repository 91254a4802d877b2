"""Who could carry out an order, as far as heartbeats show."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control import (
    NO_END_MS,
    AppliedPlan,
    InstanceHeartbeat,
    Order,
    OrderKind,
    PlacementOrder,
    Record,
    contradicting,
    decode,
    encode,
    objection,
    policy_of,
    unfollowed,
)

HEARTBEAT_AGE_MS_MAX = 10_000

NOW_MS = 1_000_000
LEADER = InstanceHeartbeat(
    "a", leads=("orders", "wordcount"), policies={"orders": "kafka", "wordcount": "kafka"}, orders_for=("orders",)
)


def topic(*heartbeats: InstanceHeartbeat, age_ms: int = 0) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for heartbeat in heartbeats:
        key, value = encode(heartbeat)
        fresh = decode(key, value)
        assert isinstance(fresh, InstanceHeartbeat)
        records[heartbeat.key] = InstanceHeartbeat(
            **{f: getattr(fresh, f) for f in InstanceHeartbeat.__slots__} | {"at_ms": NOW_MS - age_ms}
        )
    return records


def order(kind: OrderKind, target: str = "orders") -> Order:
    return Order(kind, target, "eve", NOW_MS, NOW_MS + 1_000)


def evacuation(group: str) -> PlacementOrder:
    return PlacementOrder(OrderKind.EVACUATE, group, "*", "rack:az1", "eve", NOW_MS, NOW_MS + 1_000)


def applied(group: str) -> AppliedPlan:
    return AppliedPlan(
        target=group, digest="d", members=("a",), items={"a": ("t-0",)}, owner="eve", at_ms=NOW_MS, expires_ms=NO_END_MS
    )


@pytest.mark.parametrize("kind", [OrderKind.LEAVE, OrderKind.PAUSE, OrderKind.REBALANCE])
def test_a_group_that_a_living_process_leads_can_be_given_orders(kind: OrderKind) -> None:
    assert objection(order(kind), topic(LEADER), NOW_MS) == ""
    assert "No Bellwether with the group 'orders'" in objection(order(kind), {}, NOW_MS)
    silent = objection(order(kind), topic(LEADER, age_ms=HEARTBEAT_AGE_MS_MAX + 1), NOW_MS)
    assert "has reported in the control topic within 10 s" in silent


@pytest.mark.parametrize("given", [order(OrderKind.LEAVE), order(OrderKind.DRAIN, "a")])
def test_a_refusal_for_want_of_a_recent_report_names_both_clocks(given: Order) -> None:
    """An instance whose clock is more than ten seconds behind counts as absent, and nothing said why."""
    assert objection(given, topic(LEADER, age_ms=60_000), NOW_MS).endswith(
        " a has last reported at 1970-01-01 00:15:40 UTC by its clock, and by this one it is 1970-01-01 00:16:40 UTC:"
        " if it runs, synchronise the clocks."
    )
    assert "clock" not in objection(given, {}, NOW_MS)


@pytest.mark.parametrize("given", [order(OrderKind.REBALANCE), order(OrderKind.DRAIN, "a")])
def test_an_order_that_has_ended_by_the_clock_of_its_instance_is_refused(given: Order) -> None:
    """With an instance five minutes ahead the order was written, and expired before it was read."""
    standby = InstanceHeartbeat("b", standby_for=("orders", "wordcount"))
    ahead = topic(LEADER, standby, age_ms=-300_000)
    assert objection(given, ahead, NOW_MS) == (
        "The order has ended already by the clock of a: it is 1970-01-01 00:21:40 UTC there, and by this clock"
        " 1970-01-01 00:16:40 UTC; synchronise the clocks."
    )
    assert objection(replace(given, expires_ms=NOW_MS + 300_001), ahead, NOW_MS) == ""
    assert "it is 1970-01-01 00:21:40" not in objection(given, topic(LEADER, standby), NOW_MS)


def test_a_typo_is_answered_with_the_groups_that_there_are() -> None:
    message = objection(order(OrderKind.LEAVE, "ordres"), topic(LEADER), NOW_MS)
    assert message.endswith("groups with an instance of Bellwether: orders, wordcount.")


def test_placement_needs_a_leader_whose_policy_carries_it_out() -> None:
    assert objection(evacuation("orders"), topic(LEADER), NOW_MS) == ""
    message = objection(evacuation("wordcount"), topic(LEADER), NOW_MS)
    assert message == (
        "'wordcount' is planned by the policy kafka, which ignores pins, bans, evacuations and applied plans; set"
        ' policy = "streams-ha".'
    )
    assert "does not lead" in objection(evacuation("orders"), topic(InstanceHeartbeat("a", claims=("orders",))), NOW_MS)


def test_a_plan_is_applied_where_bellwether_leads_by_a_policy_that_carries_it_out() -> None:
    assert objection(applied("orders"), topic(LEADER), NOW_MS) == ""
    assert "ignores pins, bans, evacuations and applied plans" in objection(applied("wordcount"), topic(LEADER), NOW_MS)
    claims = InstanceHeartbeat("a", claims=("orders",))
    assert "does not lead 'orders' now" in objection(applied("orders"), topic(claims), NOW_MS)


def test_a_plan_is_not_applied_where_the_broker_assigns() -> None:
    serves = InstanceHeartbeat("a", serves=("served",), policies={"served": "rack-first"}, orders_for=("served",))
    assert objection(applied("served"), topic(serves), NOW_MS) == (
        "The broker of 'served' assigns; a plan can be applied only where Bellwether leads."
    )


def test_a_version_that_says_nothing_of_policies_is_accepted_to_carry_out_orders() -> None:
    assert objection(evacuation("wordcount"), topic(InstanceHeartbeat("a", leads=("wordcount",))), NOW_MS) == ""
    assert policy_of(topic(InstanceHeartbeat("a", leads=("wordcount",))), "wordcount", NOW_MS) is None
    assert policy_of(topic(LEADER), "wordcount", NOW_MS) == "kafka"


def test_a_drain_needs_a_standby_to_hand_over_to() -> None:
    standby = InstanceHeartbeat("b", standby_for=("orders", "wordcount"))
    assert objection(order(OrderKind.DRAIN, "*"), topic(LEADER, standby), NOW_MS) == ""
    assert objection(order(OrderKind.DRAIN, "a"), topic(LEADER, standby), NOW_MS) == ""
    alone = objection(order(OrderKind.DRAIN, "*"), topic(LEADER), NOW_MS)
    assert "No standby has reported" in alone
    assert "standby = true" in alone
    assert "leads no group" in objection(order(OrderKind.DRAIN, "b"), topic(LEADER, standby), NOW_MS)
    assert "No instance of Bellwether 'c'" in objection(order(OrderKind.DRAIN, "c"), topic(LEADER, standby), NOW_MS)


def test_a_group_that_its_broker_assigns_by_plans_of_bellwether_can_be_given_orders_on_placement() -> None:
    serves = InstanceHeartbeat("a", serves=("served",), policies={"served": "rack-first"}, orders_for=("served",))
    assert objection(evacuation("served"), topic(serves), NOW_MS) == ""
    assert objection(order(OrderKind.REBALANCE, "served"), topic(serves), NOW_MS) == ""
    for kind in (OrderKind.LEAVE, OrderKind.PAUSE, OrderKind.RELEASE):
        message = objection(order(kind, "served"), topic(serves), NOW_MS)
        assert message == f"Bellwether is not in 'served', whose broker assigns, so there is nothing to {kind.value}."


@pytest.mark.parametrize(
    ("protocol", "assignor", "served", "words"),
    [
        ("consumer", "uniform", False, "assigns with uniform, which follows no orders; let its members name one"),
        ("consumer", "range", True, "assigns with range, which follows no orders"),
        (
            "consumer",
            "bellwether-rack-first",
            False,
            "no Bellwether reports that it was asked; see that one with this control_topic runs",
        ),
        ("streams", "", False, "'bellwether convert shop' has the way back to a group that Bellwether leads"),
    ],
)
def test_an_order_that_a_broker_would_not_follow_is_refused_with_the_remedy(
    protocol: str, assignor: str, served: bool, words: str
) -> None:
    message = unfollowed("shop", protocol, assignor, served=served)
    assert words in message
    assert message.count("'shop'") == 1


def test_the_assignor_that_brokers_show_of_a_group_without_members_is_not_that_of_its_members() -> None:
    message = unfollowed("shop", "consumer", "uniform", served=True, members=False)
    assert message == "'shop' has no member now that would name an assignor; repeat the order when one has joined."
    assert unfollowed("shop", "streams", "bellwether", served=True, members=False) == "", "its configuration names one"


def test_a_broker_that_was_served_a_plan_follows_orders() -> None:
    assert unfollowed("shop", "consumer", "bellwether", served=True) == ""


PIN = Rule("pin", "orders-0", "member:a", "eve has ordered pin of orders-0, member:a in 'g'")
OFF_B, OFF_C = (Rule("ban", "orders-0", f"member:{name}", f"eve has ordered ban, {name}") for name in "bc")
EVACUATE_A = Rule("ban", "*", "member:a", "eve has ordered evacuate of member:a in 'g'")


def nobody_left(rule: Rule, others: Sequence[Rule]) -> str:
    """Of three members none may have orders-0."""
    left = {"a", "b", "c"}
    for each in (rule, *others):
        name = each.where.removeprefix("member:")
        left &= {name} if each.kind == "pin" else {"a", "b", "c"} - {name}
    return "" if left else "no member may have orders-0 then"


@pytest.mark.parametrize(
    ("rule", "in_force", "named", "commands"),
    [
        (EVACUATE_A, (PIN,), [PIN], ["unpin g orders-0"]),
        (EVACUATE_A, (OFF_C, PIN), [PIN], ["unpin g orders-0"]),
        (PIN, (EVACUATE_A,), [EVACUATE_A], ["unpin g member:a"]),
        (EVACUATE_A, (OFF_B, OFF_C), [OFF_B, OFF_C], ["unpin g orders-0"]),
        (EVACUATE_A, (OFF_B,), [], []),
        (EVACUATE_A, (), [], []),
    ],
)
def test_the_orders_in_force_that_stand_in_the_way_are_named(
    rule: Rule, in_force: tuple[Rule, ...], named: list[Rule], commands: list[str]
) -> None:
    said = contradicting("g", rule, in_force, nobody_left)
    for each in (PIN, OFF_B, OFF_C, EVACUATE_A):
        assert (each.order[1:] in said) == (each in named)
    assert [command in said for command in commands] == [True] * len(commands)
    assert bool(said) == bool(named)
