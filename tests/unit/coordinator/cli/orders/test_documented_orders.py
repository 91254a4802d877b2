"""Orders print what their schemas describe; `bellwether` checks each answer."""

import json

import pytest

from tests.unit.coordinator.cli.orders.channel import Channel

pytestmark = pytest.mark.embedded
GIVEN = {"order", "warning", "in_effect", "message"}
AT_ONCE = ("--force", "--wait", "0", "-o", "json")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("leave", "orders"), "leave"),
        (("pause", "orders", "--reason", "inventory"), "pause"),
        (("release", "orders"), "release"),
        (("rebalance", "orders"), "rebalance"),
        (("drain", "pod-1"), "drain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_order_is_printed_with_what_became_of_it(channel: Channel, words: tuple[str, ...], kind: str) -> None:
    channel.heartbeat()
    given = json.loads(channel.ordered(*words, *AT_ONCE).stdout)
    assert given.keys() == GIVEN
    assert given["order"]["kind"] == kind
    assert given["in_effect"] is None, "nobody waited"


def test_orders_are_listed_until_they_are_withdrawn(channel: Channel) -> None:
    channel.heartbeat()
    channel.ordered("leave", "orders", *AT_ONCE)
    channel.ordered("pause", "orders", *AT_ONCE)
    listed = json.loads(channel.ordered("orders", "-o", "json").stdout)
    assert [order["kind"] for order in listed["orders"]] == ["leave", "pause"]
    assert json.loads(channel.ordered("resume", "orders", "-o", "json").stdout)["group"] == "orders"
    assert json.loads(channel.ordered("orders", "-o", "json").stdout)["orders"] == []
