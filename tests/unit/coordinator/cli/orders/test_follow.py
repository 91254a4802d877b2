"""What is missing until an order is in effect, for every kind, from records alone."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.cli.orders.service import unread
from bellwether_kafka.coordinator.control import (
    ORDERS,
    InstanceHeartbeat,
    Order,
    OrderKind,
    Record,
)

AT_MS = 100_000
LEADER = InstanceHeartbeat("pod-1", leads=("orders",), at_ms=AT_MS + 500)
STANDBY = InstanceHeartbeat("pod-2", standby_for=("orders",), at_ms=AT_MS + 500)
LASTING = [kind for kind, traits in ORDERS.items() if traits.lasts and not traits.places]
ONCE = [kind for kind, traits in ORDERS.items() if not traits.lasts]


def order(kind: OrderKind) -> Order:
    return Order(kind, "orders", "eve@desk", AT_MS, AT_MS + 60_000)


def missing(order: Order, *records: Record) -> str:
    return unread(order, {record.key: record for record in records}, AT_MS + 1_000)


@pytest.mark.parametrize("kind", ONCE)
def test_an_order_that_is_carried_out_once_is_in_effect_when_it_is_withdrawn(kind: OrderKind) -> None:
    given = order(kind)
    assert missing(given, given, LEADER).startswith("no instance of Bellwether has taken the order; see")
    assert missing(given, LEADER) == ""


@pytest.mark.parametrize("kind", LASTING)
def test_an_order_that_lasts_is_missing_until_every_instance_has_reported(kind: OrderKind) -> None:
    given = order(kind)
    late = replace(STANDBY, at_ms=AT_MS)
    assert missing(given, given) == "no instance of Bellwether with the group has reported."
    assert (
        missing(given, given, replace(LEADER, leads=(), claims=("orders",)), late)
        == "pod-2 has reported nothing since."
    )


@pytest.mark.parametrize("kind", LASTING)
def test_an_order_to_stay_out_is_missing_while_an_instance_leads(kind: OrderKind) -> None:
    given = order(kind)
    leads = "pod-1 still leads it." if ORDERS[kind].leaves else ""
    assert missing(given, given, LEADER, STANDBY) == leads
    assert missing(given, given, replace(LEADER, leads=(), claims=("orders",)), STANDBY) == ""
