"""Orders for groups whose broker assigns by plans of this process."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from bellwether_kafka.coordinator.control import (
    Absence,
    AbsenceUpdate,
    Controller,
    ControlSettings,
    InstanceHeartbeat,
    Order,
    OrderKind,
    PlacementOrder,
    Record,
    Stage,
    Until,
)
from bellwether_kafka.coordinator.runtime import Asking, ServedGroup

NOW_MS = int(time.time() * 1000)
BAN = PlacementOrder(OrderKind.EVACUATE, "served", "*", "member:m0", "eve", NOW_MS, NOW_MS + 600_000)
UNTIL_BACK = replace(BAN, until=Until.BACK)
AGAIN = Order(OrderKind.REBALANCE, "served", "eve", NOW_MS, NOW_MS + 600_000)
LIMIT_S = 30.0


class Topic:
    """A control topic in memory: what is written or withdrawn is received, as from a real one."""

    topic = "orders"

    def __init__(self, *given: Record) -> None:
        self.records: dict[str, Record] = {record.key: record for record in given}
        self._on_record: Callable[[str, Record | None], None] = lambda *_: None

    def start(
        self, on_record: Callable[[str, Record | None], None], on_caught_up: Callable[[], None], *_: object
    ) -> None:
        self._on_record = on_record
        for key, record in self.records.items():
            on_record(key, record)
        on_caught_up()

    def write(self, record: Record) -> None:
        self.records[record.key] = record
        self._on_record(record.key, record)

    def withdraw(self, key: str) -> None:
        if self.records.pop(key, None) is not None:
            self._on_record(key, None)

    async def close(self) -> None:
        """Keeps the records."""


class Served:
    """Groups whose brokers were given plans, with the rebalances that were begun in them."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.controller = Controller(topic, ControlSettings("orders", "pod-1"), {}, served=self, heartbeat_s=0.05)
        self.begun: list[str] = []
        self.asking = Asking()

    def compare(self, group: str, *, first: bool, ended: Mapping[str, str]) -> None:
        rules = self.controller.rules_of(group)
        known = ServedGroup(rules=rules, first=first, ended=ended, by_orders=True)
        if cause := self.asking.step(group, known, 0.0):
            self.begin_rebalance(group, cause)

    def policies(self) -> Mapping[str, str]:
        return {"served": "rack-first"}

    def begin_rebalance(self, group: str, order: str) -> None:
        self.begun.append(f"{group}: {order}")


async def controlled(topic: Topic, then: Callable[[Served], None] = lambda _: None) -> Served:
    """What is passed on until the process has reported twice; `then` is called after the first time."""
    served = Served(topic)
    running = asyncio.create_task(served.controller.run())
    async with asyncio.timeout(LIMIT_S):
        await reported(topic)
        then(served)
        await reported(topic)
    running.cancel()
    return served


async def reported(topic: Topic) -> None:
    topic.records.pop("beat/pod-1", None)
    while "beat/pod-1" not in topic.records:  # noqa: ASYNC110 - what is waited for happens in another task
        await asyncio.sleep(0.01)


async def test_an_order_on_placement_begins_a_rebalance_once() -> None:
    assert (await controlled(Topic(BAN))).begun == [f"served: {BAN.sentence}"]


async def test_so_does_its_end_with_the_reason() -> None:
    topic = Topic(BAN)
    served = await controlled(topic, lambda _: topic.withdraw(BAN.key))
    assert served.begun[1:] == [f"served: {BAN.sentence}: ended"]


async def test_how_one_order_ended_is_not_reported_of_the_next() -> None:
    topic, again = Topic(UNTIL_BACK), replace(UNTIL_BACK, at_ms=NOW_MS + 1)

    def then(served: Served) -> None:
        served.controller.absences.observe(UNTIL_BACK, AbsenceUpdate(None, "it is back"))
        topic.write(again)
        topic.withdraw(again.key)

    endings = [cause.rpartition(": ")[2] for cause in (await controlled(topic, then)).begun[1::2]]
    assert endings == ["it is back", "ended"]


async def test_an_absence_whose_order_was_withdrawn_is_withdrawn_too() -> None:
    absence = Absence("served", BAN.where, NOW_MS, BAN.expires_ms, Stage.EMPTY, NOW_MS)
    topic = Topic(UNTIL_BACK, absence)
    await controlled(topic, lambda _: topic.withdraw(UNTIL_BACK.key))
    assert absence.key not in topic.records


async def test_an_order_for_a_group_without_a_plan_begins_nothing() -> None:
    other = replace(BAN, target="unserved")
    assert (await controlled(Topic(other))).begun == []


async def test_a_rebalance_is_begun_once() -> None:
    topic = Topic(AGAIN)
    served = await controlled(topic)
    assert served.begun == [f"served: {AGAIN.sentence}"]
    assert AGAIN.key not in topic.records


async def test_the_heartbeat_has_the_groups_that_are_served() -> None:
    topic = Topic()
    await controlled(topic)
    heartbeat = topic.records["beat/pod-1"]
    assert isinstance(heartbeat, InstanceHeartbeat)
    assert (heartbeat.serves, heartbeat.orders_for, heartbeat.groups) == (("served",), ("served",), ())
    assert heartbeat.policies == {"served": "rack-first"}
