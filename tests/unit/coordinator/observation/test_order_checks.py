"""What `doctor` says of operators' orders on the group."""

from collections.abc import Iterable
from dataclasses import replace

from bellwether_kafka.coordinator.control import (
    NO_END_MS,
    InstanceHeartbeat,
    Order,
    OrderKind,
    PlacementOrder,
    Record,
)
from bellwether_kafka.coordinator.observation import Finding, Level
from bellwether_kafka.coordinator.observation.health import DoctorFacts, GivenOrders, examine
from tests.unit.coordinator.observation.doctor_groups import check, consumers

NOW_MS = 1_000_000
LEADER = InstanceHeartbeat("a", leads=("g",), policies={"g": "rack-first"}, orders_for=("g",), at_ms=NOW_MS)


def pin(where: str = "member:m0", expires_ms: int = NOW_MS + 60_000) -> PlacementOrder:
    return PlacementOrder(OrderKind.PIN, "g", "orders-0", where, "eve", NOW_MS, expires_ms, "test")


def facts(*records: Record) -> DoctorFacts:
    return replace(consumers(3, 3), given=GivenOrders(records=by_key(records), now_ms=NOW_MS))


def by_key(records: Iterable[Record]) -> dict[str, Record]:
    return {record.key: record for record in records}


def orders(*records: Record) -> Finding:
    return check(facts(*records), "orders")


def test_orders_in_force_are_listed_and_those_of_others_or_that_have_ended_are_not() -> None:
    """An operator whose order had no effect looked in `doctor` for it."""
    other = replace(pin(), target="other")
    leave = Order(OrderKind.LEAVE, "g", "bob", NOW_MS, NOW_MS)
    answer = orders(LEADER, pin(), other, leave)
    assert (answer.level, answer.message) == (Level.PASS, "One order is in force for this group.")
    assert answer.details == (
        "eve has ordered pin of orders-0, member:m0 in 'g' (test), until 1970-01-01T00:17:40+00:00",
    )
    assert orders(LEADER).message == "No order is in force for this group."


def test_an_order_that_lasts_until_members_join_says_so() -> None:
    (line,) = orders(LEADER, Order(OrderKind.RELEASE, "g", "bob", NOW_MS, NO_END_MS)).details
    assert line == "bob has ordered release of 'g', until members join"


def test_an_order_to_leave_says_how_it_ends_and_is_a_warning_after_a_day() -> None:
    def left(ago_ms: int) -> Finding:
        order = Order(OrderKind.LEAVE, "g", "bob", now_ms - ago_ms, NO_END_MS)
        given = GivenOrders(records=by_key([replace(LEADER, at_ms=now_ms), order]), now_ms=now_ms)
        return check(replace(consumers(3, 3), given=given), "orders")

    now_ms, day_ms = 10 * 86_400_000, 86_400_000
    assert left(day_ms).level is Level.PASS
    assert left(day_ms).details == ("bob has ordered leave of 'g', until resume",)
    old = left(2 * day_ms + 1)
    assert old.level is Level.WARN
    assert "Bellwether has stayed out of the group for 2 days." in old.message
    assert old.remedy == "If it has been forgotten: bellwether resume g."


def test_an_order_that_nobody_follows_is_a_warning_with_the_reason_and_the_way_out() -> None:
    answer = orders(pin())
    assert answer.level is Level.WARN
    assert "No Bellwether with the group 'g' has reported in the control topic within 10 s" in answer.message
    assert answer.remedy == "Remove the cause, or withdraw what is ordered: bellwether unpin g --all."


def test_the_way_out_has_the_commands_of_what_is_ordered() -> None:
    """It named `unpin` without what to withdraw, which is refused, and a list of groups or instances as the remedy."""
    pause, once = (Order(kind, "g", "bob", NOW_MS, NOW_MS + 9_000) for kind in (OrderKind.PAUSE, OrderKind.REBALANCE))
    way_out = "Remove the cause, or withdraw what is ordered: "
    assert orders(pause).remedy == f"{way_out}bellwether resume g."
    assert orders(pause, pin()).remedy == f"{way_out}bellwether unpin g --all and bellwether resume g."
    assert orders(once).remedy == "Remove the cause."
    assert orders(replace(LEADER, at_ms=NOW_MS + 300_000)).remedy == "Synchronise the clocks."


def test_a_pin_that_no_member_can_follow_is_a_warning() -> None:
    answer = orders(LEADER, pin("rack:az9"))
    assert answer.level is Level.WARN
    assert "Pin of orders-0 at rack:az9: " in answer.message


def test_an_order_that_the_assignor_of_the_broker_ignores_is_a_warning() -> None:
    served = replace(facts(pin()).seen, kind="consumer", assignor="uniform")
    answer = check(replace(facts(pin()), seen=served), "orders")
    assert "The broker of 'g' assigns with uniform, which follows no orders" in answer.message
    assert "; let its members name one that asks Bellwether" in answer.message
    empty = replace(served, state="Empty", members=(), shadow=None)
    assert check(replace(facts(pin()), seen=empty), "orders").level is Level.PASS


def test_a_clock_that_is_minutes_ahead_or_behind_is_a_warning() -> None:
    """Orders end by the clock of each instance, so that one given for an hour ended after 55 minutes."""
    ahead, behind = (replace(LEADER, at_ms=NOW_MS + minutes * 60_000) for minutes in (5, -5))
    for answer in (orders(ahead), orders(ahead, pin(expires_ms=NOW_MS + 600_000)), orders(behind, pin())):
        assert (answer.level, "synchronise the clocks" in answer.message) == (Level.WARN, True)
    for answer in (orders(replace(LEADER, at_ms=NOW_MS + 5_000)), orders(behind)):
        assert answer.level is Level.PASS


def test_a_control_topic_that_cannot_be_read_is_a_warning_and_without_one_there_is_no_check() -> None:
    unread = GivenOrders(now_ms=NOW_MS, unread="The control topic 'c' cannot be reached: no broker.")
    answer = check(replace(consumers(3), given=unread), "orders")
    assert (answer.level, answer.message) == (Level.WARN, unread.unread)
    assert not [each for each in examine(consumers(3)) if each.kind == "orders"]


def test_an_order_that_is_not_followed_does_not_hide_a_clock_that_is_ahead() -> None:
    answer = orders(replace(LEADER, at_ms=NOW_MS + 300_000), pin("rack:az9", NOW_MS + 600_000))
    assert "Pin of orders-0 at rack:az9: " in answer.message
    assert "synchronise the clocks" in answer.message
    assert answer.remedy.endswith("Synchronise the clocks.")
