"""Rules of placement in groups that the process does not lead, as plans for brokers follow them."""

import asyncio
from collections.abc import Callable

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control import Controller, ControlSettings, OrderKind, PlacementOrder, Record
from tests.kit.runtime import Group

UNOBSERVED_S = 30.0
UNREAD_S = 10.0

NOW_S = 1_000.0
EVACUATE = PlacementOrder(
    kind=OrderKind.EVACUATE,
    target="clicks",
    item="*",
    where="member:m0",
    owner="eve",
    at_ms=0,
    expires_ms=2_000_000,
)


class Topic:
    """A topic in memory: the test decides when records arrive and when its end is reached."""

    topic = "control"

    def __init__(self) -> None:
        self.deliver: Callable[[str, Record | None], None] = lambda _key, _record: None
        self.reach_end: Callable[[], None] = lambda: None

    def start(
        self, on_record: Callable[[str, Record | None], None], on_caught_up: Callable[[], None], *_: object
    ) -> None:
        self.deliver, self.reach_end = on_record, on_caught_up

    def write(self, record: Record) -> None: ...
    def withdraw(self, key: str) -> None: ...
    async def close(self) -> None: ...


class World:
    """A controller that leads no group, with its clocks."""

    def __init__(self) -> None:
        self.topic, self.elapsed_s, self.wall_s = Topic(), 0.0, NOW_S
        settings = ControlSettings("control", "pod-1", False)
        self.controller = Controller(
            self.topic, settings, {}, clock=lambda: self.elapsed_s, wall_clock=lambda: self.wall_s
        )

    async def started(self) -> None:
        running = asyncio.create_task(self.controller.run())
        await asyncio.sleep(0)
        running.cancel()


async def world() -> World:
    made = World()
    await made.started()
    return made


async def test_rules_are_unknown_until_the_topic_has_been_read() -> None:
    it = await world()
    it.topic.deliver(EVACUATE.key, EVACUATE)
    assert it.controller.rules_of("clicks") is None
    it.topic.reach_end()
    assert it.controller.rules_of("clicks") == (Rule("ban", "*", "member:m0"),)


async def test_a_topic_that_cannot_be_read_keeps_plans_away_for_a_limited_time() -> None:
    it = await world()
    it.elapsed_s = UNREAD_S - 0.001
    assert it.controller.rules_of("clicks") is None
    it.elapsed_s = UNREAD_S
    assert it.controller.rules_of("clicks") == ()


async def test_rules_are_those_of_the_group_until_they_expire_or_are_withdrawn() -> None:
    it = await world()
    it.topic.reach_end()
    it.topic.deliver(EVACUATE.key, EVACUATE)
    assert it.controller.rules_of("another") == ()
    it.wall_s = EVACUATE.expires_ms / 1000
    assert it.controller.rules_of("clicks") == ()
    it.wall_s = NOW_S
    assert it.controller.rules_of("clicks") != ()
    it.topic.deliver(EVACUATE.key, None)
    assert it.controller.rules_of("clicks") == ()


async def test_a_group_that_is_not_known_yet_after_the_start_may_be_the_one_with_the_rules() -> None:
    it = await world()
    it.topic.reach_end()
    assert it.controller.rules_of("") == ()
    it.topic.deliver(EVACUATE.key, EVACUATE)
    assert it.controller.rules_of("") is None
    it.elapsed_s = UNOBSERVED_S
    assert it.controller.rules_of("") == (), "by then it is a new one"


async def test_orders_are_read_when_a_led_group_has_them_or_the_topic_cannot_be_read() -> None:
    """It compares its assignment after a restart only then."""
    it, group = World(), Group(standby=False)
    group.lead()
    it.controller = Controller(
        it.topic, ControlSettings("control", "pod-1"), {"clicks": group}, wall_clock=lambda: NOW_S
    )
    await it.started()
    it.topic.deliver(EVACUATE.key, EVACUATE)
    reading = asyncio.create_task(it.controller.orders_of("clicks"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not reading.done()
    it.topic.reach_end()
    await reading
    assert group.rules == (Rule("ban", "*", "member:m0"),)
    it = World()
    it.elapsed_s = UNREAD_S
    await it.controller.orders_of("clicks")
