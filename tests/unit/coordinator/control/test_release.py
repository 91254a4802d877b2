"""When a release ends: members have joined, and are not those that were there when it was ordered."""

import asyncio

import pytest

from bellwether_kafka.coordinator.control import NO_END_MS, Controller, ControlSettings, Order, OrderKind
from bellwether_kafka.coordinator.membership import NotLeading, OrdersInForce
from tests.kit.membership import Play, seen
from tests.kit.runtime import Group, KeptRecords

RELEASE_MS_MIN = 30_000

ORDERED_MS = 1_000_000_000
RELEASE = Order(OrderKind.RELEASE, "orders", "eve", ORDERED_MS, NO_END_MS, "reset")
DAY_MS = 86_400_000


class Released:
    """A group for which the order was given, and time that passes."""

    def __init__(self, *, standby: bool = False, order: Order = RELEASE) -> None:
        self.group, self.topic, self.now_ms = Group(standby=standby), KeptRecords({order.key: order}), ORDERED_MS
        self.scenario = (
            Play(instance_id="bellwether", adopt="when-empty", subscribes=False).coordinator_found().described("Empty")
        )
        self.group.machine = self.scenario.machine
        settings = ControlSettings("control", "a", standby)
        groups = {"orders": self.group}
        self.controller = Controller(self.topic, settings, groups, wall_clock=lambda: self.now_ms / 1000)
        asyncio.run(self._begin())

    async def _begin(self) -> None:
        running = asyncio.create_task(self.controller.run())
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()

    def later(self, passed_ms: int) -> "Released":
        self.now_ms += passed_ms
        self.controller.review()
        return self

    def members_join(self) -> "Released":
        self.scenario.machine._core.sighting.shows(others=True)
        return self

    def members_leave(self) -> "Released":
        self.scenario.machine._core.sighting.shows(others=False)
        return self

    @property
    def in_force(self) -> bool:
        orders = self.group.given()
        assert orders is not None
        assert bool(orders.release) == (RELEASE.key in self.topic.records), "the group and the topic agree"
        return bool(orders.release)


def test_the_order_reaches_the_group_and_has_no_end_while_no_member_is_there() -> None:
    released = Released()
    assert released.group.given() == OrdersInForce("", "", RELEASE.sentence)
    assert released.later(DAY_MS).later(300 * DAY_MS).in_force
    assert released.group.membership.role.reason is NotLeading.ORDERED_OUT


def test_members_that_join_end_it_for_good() -> None:
    released = Released().later(RELEASE_MS_MIN).members_join().later(0)
    assert not released.in_force
    assert released.group.given() == OrdersInForce("", "")
    assert not released.members_leave().later(DAY_MS).in_force


def test_members_that_are_only_just_stopping_do_not_end_it() -> None:
    released = Released().members_join()
    assert released.later(RELEASE_MS_MIN - 1).in_force
    assert released.members_leave().later(DAY_MS).in_force


def test_members_that_stay_end_it_after_that() -> None:
    assert not Released().members_join().later(RELEASE_MS_MIN).in_force


def test_members_of_the_protocol_in_which_the_broker_assigns_end_it() -> None:
    """After a conversion it was in force until classic members joined, and stayed in the list of orders."""
    released = Released().later(RELEASE_MS_MIN)
    released.scenario.run(10)
    released.scenario.described("Dead", error=69, message="Group orders is not a classic group.")
    assert not released.later(0).in_force


def test_a_standby_leaves_that_to_the_active_instance() -> None:
    released = Released(standby=True).later(RELEASE_MS_MIN).members_join()
    assert not released.controller._groups["orders"].active
    assert released.later(1).in_force


def test_it_is_carried_out_again_after_a_restart_of_the_process() -> None:
    before = Released().later(DAY_MS)
    assert before.in_force
    again = Released(order=before.topic.records[RELEASE.key])  # type: ignore[arg-type]  # an Order
    assert again.in_force


@pytest.mark.parametrize("kind", [OrderKind.LEAVE, OrderKind.PAUSE])
def test_other_orders_do_not_end_when_members_join(kind: OrderKind) -> None:
    other = Order(kind, "orders", "eve", ORDERED_MS, ORDERED_MS + DAY_MS)
    released = Released(order=other).members_join().later(DAY_MS - 1)
    assert other.key in released.topic.records


def test_a_member_that_is_described_is_seen() -> None:
    """What `members_join` means."""
    scenario = (
        Play(adopt="when-empty").send(OrdersInForce("", "", RELEASE.sentence)).coordinator_found().described("Empty")
    )
    scenario.run(10)
    scenario.described("Stable", seen("a"))
    assert scenario.machine.view.has_members
