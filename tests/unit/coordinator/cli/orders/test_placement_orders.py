"""Commands that order placement: by item and by place, evacuations, and members that are named in short."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.cli.orders import give, service
from bellwether_kafka.coordinator.cli.orders.check import left_alone
from bellwether_kafka.coordinator.control import Absence, OrderKind, PlacementOrder, Stage, Until
from bellwether_kafka.coordinator.kafka import wire
from tests.kit.brokers import EmbeddedCluster, EmbeddedClusterError
from tests.kit.commands import FIRST_ID, SECOND_ID, Described, Uneven
from tests.kit.streams import Thread, group, led
from tests.unit.coordinator.cli.orders.channel import Channel, placed


@pytest.mark.embedded
@pytest.mark.parametrize("serves", [(), ("converted",)], ids=["never served", "served before"])
def test_an_order_on_placement_that_the_groups_broker_does_not_follow_is_refused(
    channel: Channel, serves: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "Transport", Described)
    channel.heartbeat(serves=serves)
    for order in (("rebalance", "converted"), ("evacuate", "converted", "rack:az1")):
        assert "The broker of 'converted' assigns with uniform, which follows no orders;" in channel.refused(*order)


@pytest.mark.embedded
def test_placement_under_a_policy_that_cannot_follow_it_is_refused(channel: Channel) -> None:
    channel.heartbeat(policies={"orders": "kafka"}, orders_for=())
    assert 'set policy = "streams-ha"' in channel.refused("evacuate", "orders", "rack:az1")


@pytest.mark.embedded
def test_a_topic_that_the_group_does_not_read_is_named_as_it_was_written(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "Transport", Described)
    channel.heartbeat(leads=("stable",), policies={"stable": "rack-first"}, orders_for=("stable",))
    assert "other-3 is neither a topic nor a partition" in channel.refused("pin", "stable", "other-3", "member:m1")


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (("orders-1",), 3),
        (("rack:az1",), 3),
        (("--all",), 1),
        (("*",), 1),
    ],
    ids=str,
)
def test_placement_ends_by_item_by_place_and_altogether(
    channel: Channel, arguments: tuple[str, ...], left: int
) -> None:
    pin, ban = placed(OrderKind.PIN, "orders-1"), placed(OrderKind.BAN, "orders-2")
    for order in (pin, ban, placed(OrderKind.EVACUATE, "*"), placed(OrderKind.PIN, "x-1", group="other")):
        channel.write(order)
    channel.ordered("unpin", "orders", *arguments)
    assert len(channel.read()) == left
    assert "There is no pin" in channel.refused("unpin", "orders", *arguments)


def test_hints_are_commands_that_a_shell_takes() -> None:
    assert give._ends(placed(OrderKind.EVACUATE, "*")) == "'bellwether unpin orders rack:az1'"
    assert give._ends(placed(OrderKind.PIN, "orders-1")) == "'bellwether unpin orders orders-1'"
    assert give._ends(placed(OrderKind.BAN, "*")) == "'bellwether unpin orders --all'"


def evacuation(channel: Channel, where: str) -> PlacementOrder:
    record = channel.read()[f"evacuate/orders/*/{where}"]
    assert isinstance(record, PlacementOrder)
    return record


@pytest.fixture
def whole_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """No id is short: the embedded brokers cannot say who is in the group."""
    monkeypatch.setattr(service.OrderService, "in_full", lambda _to, _group, where: where)


@pytest.mark.embedded
@pytest.mark.usefixtures("whole_ids")
def test_an_evacuation_of_a_member_ends_when_it_is_back_where_the_broker_assigns_by_bellwethers_plans(
    channel: Channel,
) -> None:
    channel.heartbeat(leads=(), serves=("orders",), orders_for=(), policies={"orders": "kafka"})
    channel.ordered("evacuate", "orders", "member:a", "--force")
    order = channel.read()["evacuate/orders/*/member:a"]
    assert isinstance(order, PlacementOrder)
    assert order.until is Until.BACK


@pytest.mark.embedded
@pytest.mark.usefixtures("whole_ids")
def test_an_evacuation_of_a_member_ends_when_it_is_back_and_that_of_a_rack_when_it_expires(channel: Channel) -> None:
    message = channel.ordered("evacuate", "orders", "member:a", "--force", "--for", "20m").stdout
    assert "member:a is to be empty until it is back in orders, for 20m at most" in message
    channel.ordered("evacuate", "orders", "rack:az1", "--force")
    assert (evacuation(channel, "member:a").until, evacuation(channel, "rack:az1").until) == (Until.BACK, Until.EXPIRY)
    order = evacuation(channel, "member:a")
    channel.write(Absence("orders", "member:a", order.at_ms, order.expires_ms, Stage.AWAY, order.at_ms + 1))
    listed = channel.ordered("orders").stdout
    assert "until it is back, at most until" in listed
    assert listed.count("; it is away now") == 1
    documents = json.loads(channel.ordered("orders", "-o", "json").stdout)["orders"]
    assert [(document["until"], document["absence"]) for document in documents] == [("back", "away"), ("expiry", None)]


@pytest.mark.embedded
@pytest.mark.usefixtures("whole_ids")
def test_what_has_been_stopped_for_good_is_removed_and_a_rack_cannot_be(channel: Channel) -> None:
    message = channel.ordered("evacuate", "orders", "member:a", "--remove", "--force").stdout
    assert "member:a is to be removed from orders, for 1h at most" in message
    assert evacuation(channel, "member:a").until is Until.REMOVED
    order = evacuation(channel, "member:a")
    channel.write(Absence("orders", "member:a", order.at_ms, order.expires_ms, Stage.AWAY, order.at_ms + 1))
    assert "not in orders any more" in channel.ordered("evacuate", "orders", "member:a", "--remove").stdout
    assert not any(isinstance(record, PlacementOrder) for record in channel.read().values())
    assert "Only members can be removed" in channel.refused("evacuate", "orders", "rack:az1", "--remove", "--force")


def test_an_order_that_is_tied_to_an_absence_is_in_effect_when_the_leader_has_seen_it() -> None:
    """A member that stopped before that could be back without being known again."""
    order = replace(placed(OrderKind.EVACUATE, "*", "member:a"), until=Until.BACK)
    seen = Absence("orders", "member:a", order.at_ms, order.expires_ms, Stage.EMPTYING, order.at_ms)
    evacuated = replace(seen, stage=Stage.EMPTY)
    removal = replace(order, until=Until.REMOVED)
    for given, records, missing in (
        (order, (order,), "Bellwether has not seen it empty yet."),
        (order, (order, seen), "Bellwether has not seen it empty yet."),
        (order, (order, replace(evacuated, order_ms=1)), "Bellwether has not seen it empty yet."),
        (order, (order, evacuated), ""),
        (order, (), "the order has ended already: it was withdrawn, or the member is back."),
        (removal, (removal, evacuated), "member:a is still in the group."),
        (removal, (), ""),
    ):
        assert service.unseen(given, {record.key: record for record in records}) == missing


def test_several_evacuations_that_leave_a_task_without_a_caught_up_copy_are_refused() -> None:
    first = led(group(Thread("a", 1), Thread("b", 2)))
    running = (Thread("a", 1).after(first), Thread("b", 2).after(first))
    plan = led(group(*running, generation=2), memory=first.plan.memory).plan
    of_a, two, rack = (Rule("ban", "*", where) for where in ("member:a", "member:b", "rack:az9"))
    assert left_alone(plan, (), of_a) == "", "one alone waits for warm-ups"
    assert left_alone(plan, (replace(two, item="1_0"),), of_a) == "", "what is banned in part is not empty"
    refusal = left_alone(plan, (rack,), of_a)
    assert refusal.startswith("outside rack:az9 and member:a no member has a caught-up copy of 1_")
    assert refusal.endswith("; wait until one of them is back")


@pytest.fixture
def short(brokers: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> Channel:
    """A control topic beside a group of two members with one client id."""
    monkeypatch.setattr(wire, "Transport", Uneven)
    for topic, partitions in (("orders", 3), ("in-short", 1)):
        with suppress(EmbeddedClusterError):
            brokers.create_topic(topic, partitions)
    return Channel(brokers, "in-short")


@pytest.mark.embedded
def test_an_order_holds_the_whole_id_of_a_member_that_was_named_in_short(short: Channel) -> None:
    given = json.loads(short.ordered("evacuate", "stable", "member:app-0b", "--force", "-o", "json").stdout)
    assert given["order"]["where"] == f"member:{SECOND_ID}"
    withdrawn = json.loads(short.ordered("unpin", "stable", "member:app-0bc2", "-o", "json").stdout)
    assert [order["where"] for order in withdrawn["withdrawn"]] == [f"member:{SECOND_ID}"]


@pytest.mark.embedded
@pytest.mark.parametrize("where", [f"member:{FIRST_ID}", "member:app", "member:nobody", "rack:az1"])
def test_a_place_that_leaders_know_or_nobody_does_is_ordered_as_it_is(where: str, short: Channel) -> None:
    given = json.loads(short.ordered("ban", "stable", "orders-2", where, "--force", "-o", "json").stdout)
    assert given["order"]["where"] == where
    short.ordered("unpin", "stable", "--all")


@pytest.mark.embedded
def test_a_place_that_may_be_several_is_refused(short: Channel) -> None:
    refused = short.refused("pin", "stable", "orders-2", "member:app-0", "--force")
    assert FIRST_ID in refused
    assert SECOND_ID in refused


@pytest.fixture
def pinned(short: Channel) -> Iterator[Channel]:
    """`orders-0` is pinned to the first member, by an instance that leads the group."""
    short.heartbeat(leads=("stable",), policies={"stable": "rack-first"}, orders_for=("stable",))
    short.ordered("pin", "stable", "orders-0", f"member:{FIRST_ID}", "--reason", "one tenant")
    yield short
    short.ordered("unpin", "stable", "--all")


@pytest.mark.embedded
@pytest.mark.parametrize(
    "order",
    [("evacuate", "stable"), ("ban", "stable", "orders-0"), ("ban", "stable", "orders")],
    ids=["evacuate", "ban", "ban of the topic"],
)
def test_what_a_pin_forbids_names_the_pin_and_how_it_is_withdrawn(order: tuple[str, ...], pinned: Channel) -> None:
    """It said that no member may have orders-0 then, and nothing of the pin."""
    refused = pinned.refused(*order, f"member:{FIRST_ID}")
    assert "may have orders-0 then. " in refused
    assert f"has ordered pin of orders-0, member:{FIRST_ID} in 'stable' (one tenant)." in refused
    assert "Withdraw that first: 'bellwether unpin stable orders-0'. Nothing was ordered;" in refused


@pytest.mark.embedded
def test_an_order_that_replaces_another_says_which(pinned: Channel) -> None:
    """A second pin replaced the first without a word."""
    said = pinned.ordered("pin", "stable", "orders-0", f"member:{SECOND_ID}").stdout
    assert "It replaces an order: " in said
    assert f"has ordered pin of orders-0, member:{FIRST_ID} in 'stable' (one tenant), until " in said
    again = pinned.ordered("pin", "stable", "orders-0", f"member:{SECOND_ID}", "--for", "2d").stdout
    assert "replaces" not in again, "the same one for longer"
    assert "replaces" not in pinned.ordered("pin", "stable", "orders-1", f"member:{SECOND_ID}").stdout
