"""Which of several instances, each beside a broker, begins a rebalance for an order in a group that its broker assigns,
and when."""

import time
from collections.abc import Mapping
from dataclasses import replace

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control import (
    InstanceHeartbeat,
    Order,
    OrderKind,
    Orders,
    PlacementOrder,
)
from bellwether_kafka.coordinator.control.active_role import Instances
from bellwether_kafka.coordinator.control.served_orders import ServedOrders

HEARTBEATS_MISSED = 3
CHANGED = "the orders in force have changed since the newest plan"

GROUP = "orders"
NOW_MS = int(time.time() * 1000)
EVACUATED = PlacementOrder(OrderKind.EVACUATE, GROUP, "*", "member:a", "eve", NOW_MS, NOW_MS + 600_000)
BANNED = PlacementOrder(OrderKind.BAN, GROUP, "clicks", "member:b", "eve", NOW_MS, NOW_MS + 600_000)
AGAIN = Order(OrderKind.REBALANCE, GROUP, "eve", NOW_MS, NOW_MS + 600_000)


class Instance:
    """One instance, which may have given the group's broker a plan under `rules`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.served: dict[str, str] = {}
        self.rules: tuple[Rule, ...] = ()
        self.lacked: dict[str, str] = {}
        self.begun: list[str] = []
        self.orders, self.instances = Orders(), Instances(name)
        self.instances.started()
        self._of_served = ServedOrders(self, self.orders, self.instances, {}, self._done)

    def policies(self) -> Mapping[str, str]:
        return self.served

    def planned_rules(self, _: str) -> tuple[Rule, ...]:
        return self.rules

    def planned_incompletely(self) -> Mapping[str, str]:
        lacked, self.lacked = self.lacked, {}
        return lacked

    def begin_rebalance(self, _: str, cause: str) -> None:
        self.begun.append(cause)

    def update(self) -> list[str]:
        """What has been begun so far, after an update."""
        self._of_served.update((), NOW_MS)
        return self.begun

    def plan(self, *in_force: PlacementOrder) -> "Instance":
        """Its broker asks for a plan under these orders."""
        self.served, self.rules = {GROUP: "rack-first"}, tuple(order.rule for order in in_force)
        for order in in_force:
            self.order(order)
        assert self.update() == []
        return self

    def order(self, order: PlacementOrder | Order) -> None:
        self.orders.apply(order.key, order)

    def receive(self, *heartbeats: InstanceHeartbeat) -> "Instance":
        for heartbeat in heartbeats:
            self.instances.received(heartbeat)
        return self

    def _done(self, order: Order) -> None:
        self.orders.apply(order.key, None)


def serving(name: str) -> InstanceHeartbeat:
    return InstanceHeartbeat(name, serves=(GROUP,))


def test_the_first_of_the_instances_that_serve_a_group_begins_a_rebalance_for_an_order() -> None:
    first = Instance("pod-1").plan().receive(serving("pod-2"), serving("pod-1"))
    first.order(EVACUATED)
    assert first.update() == [EVACUATED.sentence]
    assert first.update() == [EVACUATED.sentence], "once"


def test_another_one_records_the_order_without_a_rebalance() -> None:
    second = Instance("pod-2").plan().receive(serving("pod-1"), serving("pod-2"))
    second.order(EVACUATED)
    assert second.update() == []
    second.receive(*[serving("pod-2")] * HEARTBEATS_MISSED)
    assert second.update() == [], "the first one is silent, but has begun a rebalance for that order"
    second.order(BANNED)
    assert second.update() == [BANNED.sentence]


def test_an_instance_that_no_heartbeat_names_begins_it_itself() -> None:
    alone = Instance("pod-2").plan()
    alone.order(EVACUATED)
    assert alone.update() == [EVACUATED.sentence]


def test_a_smaller_instance_that_does_not_serve_the_group_or_would_lead_it_does_not_count() -> None:
    others = (
        InstanceHeartbeat("pod-0", serves=("payments",)),
        InstanceHeartbeat("pod-1", claims=(GROUP,), serves=(GROUP,)),
    )
    second = Instance("pod-2").plan().receive(*others)
    second.order(EVACUATED)
    assert second.update() == [EVACUATED.sentence]


def test_the_end_of_an_order_is_an_order() -> None:
    first, second = Instance("pod-1").plan(EVACUATED), Instance("pod-2").plan(EVACUATED)
    for instance in (first, second):
        instance.receive(serving("pod-1"), serving("pod-2"))
        instance.orders.apply(EVACUATED.key, None)
        instance.update()
    assert (first.begun, second.begun) == ([f"{EVACUATED.sentence}: withdrawn"], [])


def test_a_rebalance_that_is_ordered_is_begun_by_the_first_and_withdrawn() -> None:
    first, second = Instance("pod-1").plan(), Instance("pod-2").plan()
    for instance in (first, second):
        instance.receive(serving("pod-1"), serving("pod-2"))
        instance.order(AGAIN)
        instance.update()
    assert (first.begun, second.begun) == ([AGAIN.sentence], [])
    assert first.orders.in_force(OrderKind.REBALANCE, GROUP, NOW_MS) is None
    assert second.orders.in_force(OrderKind.REBALANCE, GROUP, NOW_MS) is not None, "until the withdrawal is read"


def test_the_next_one_begins_an_ordered_rebalance_once_the_first_is_silent() -> None:
    second = Instance("pod-2").plan().receive(serving("pod-1"))
    second.order(AGAIN)
    assert second.update() == []
    second.receive(*[serving("pod-2")] * HEARTBEATS_MISSED)
    assert second.update() == [AGAIN.sentence]


def test_the_first_plan_after_a_restart_follows_the_orders_in_force() -> None:
    assert Instance("pod-1").plan(EVACUATED).update() == []


def test_a_first_plan_without_an_order_in_force_is_followed_by_another_wherever_it_was_made() -> None:
    second = Instance("pod-2").receive(serving("pod-1"))
    second.served = {GROUP: "rack-first"}
    second.order(EVACUATED)
    assert second.update() == [EVACUATED.sentence]


def test_a_first_plan_under_an_order_that_has_just_ended_is_followed_by_another() -> None:
    first = Instance("pod-1")
    first.served, first.rules = {GROUP: "rack-first"}, (EVACUATED.rule,)
    assert first.update() == [CHANGED]


def test_what_the_plan_of_an_instance_lacks_makes_that_instance_begin_a_rebalance() -> None:
    second = Instance("pod-2").plan(EVACUATED).receive(serving("pod-1"))
    second.lacked = {GROUP: ""}
    assert second.update() == [EVACUATED.sentence]
    second.lacked = {GROUP: "it lacks a rack"}
    second.orders.apply(EVACUATED.key, None)
    assert second.update()[1:] == ["it lacks a rack"]


def test_an_order_that_ends_as_its_member_is_observed_again_begins_a_rebalance() -> None:
    """By the plan of its join the member had nothing, and an application waited for its share until the next change: a
    process was restarted by `roll`, and the order ended in the same moment in which the plan was noted to lack it."""
    first = Instance("pod-1").plan(EVACUATED)
    first.orders.apply(EVACUATED.key, None)
    first.lacked = {GROUP: ""}
    assert first.update() == [f"{EVACUATED.sentence}: withdrawn"]


def test_an_order_for_another_group_begins_nothing() -> None:
    first = Instance("pod-1").plan()
    first.order(replace(EVACUATED, target="payments"))
    assert first.update() == []
