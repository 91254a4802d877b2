"""A process without a control topic, with one that brokers refuse, and with one that nobody can reach."""

import asyncio
from typing import Self

import pytest

from bellwether_kafka.coordinator.control import (
    NO_ORDERS,
    Controller,
    ControlReport,
    ControlSettings,
    ControlTopic,
    ControlTopicError,
    NoTopic,
    OnCaughtUp,
    OnRecord,
    OnRefused,
    Order,
    OrderSource,
    Record,
    SilentTopicError,
)
from bellwether_kafka.coordinator.control import topic as control_topic
from tests.kit.runtime import Group, order, until


class Unread:
    """A topic that is not read before the test says so. `written` is what the process has written."""

    topic = "control"

    def __init__(self) -> None:
        self.written: list[Record] = []

    def start(self, on_record: OnRecord, on_caught_up: OnCaughtUp, on_refused: OnRefused, _: object) -> None:
        self.deliver, self.reach_end, self.refuse = on_record, on_caught_up, on_refused

    def write(self, record: Record) -> None:
        self.written.append(record)

    def withdraw(self, key: str) -> None: ...
    async def close(self) -> None: ...


class Process:
    """A process that leads `orders`."""

    def __init__(self, source: OrderSource, *, standby: bool = False) -> None:
        self.group = Group(standby=standby)
        self.group.lead()
        self.reports: list[ControlReport] = []
        settings = ControlSettings(source.topic, "pod-1", standby)
        self.controller = Controller(
            source, settings, {"orders": self.group}, on_control=[self.reports.append], heartbeat_s=0.01
        )

    async def __aenter__(self) -> Self:
        self.running = asyncio.create_task(self.controller.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await self.controller.close()

    @property
    def left(self) -> str:
        given = self.group.given()
        return given.leave if given is not None else ""


@pytest.mark.parametrize("source", [NoTopic(), Unread()], ids=["none", "unread"])
async def test_a_signal_has_all_groups_left_whatever_the_topic_does(source: OrderSource) -> None:
    async with Process(source) as process:
        process.controller.leave_all()
        assert process.left == "a signal has ordered leave of 'orders'"
        process.controller.review()
        await asyncio.sleep(0.05)
        assert process.left, "it stays out"


async def test_what_a_signal_has_ordered_lasts_beside_orders_of_the_topic_and_is_not_written_there() -> None:
    topic = Unread()
    async with Process(topic) as process:
        process.controller.leave_all()
        given = order()
        topic.deliver(given.key, given)
        topic.reach_end()
        topic.deliver(given.key, None)
        assert process.left == "a signal has ordered leave of 'orders'"
        await until(lambda: bool(topic.written))
        assert not [record for record in topic.written if isinstance(record, Order)]


async def test_a_topic_that_brokers_refuse_makes_no_plan_late() -> None:
    """A leader without a right to the topic waited for ten seconds before its first plan."""
    topic = Unread()
    async with Process(topic) as process:
        asking = asyncio.create_task(process.controller.orders_of("orders"))
        await asyncio.sleep(0)
        assert not asking.done()
        topic.refuse()
        assert await asking == NO_ORDERS
        assert process.controller.rules_of("orders") == ()
        await until(lambda: bool(process.reports) and process.reports[-1].silence_s == 0.0)
        given = order()
        topic.deliver(given.key, given)
        topic.reach_end()
        await until(lambda: process.left == given.sentence)


async def test_a_standby_whose_topic_brokers_refuse_joins_nothing() -> None:
    """Another instance may lead."""
    topic = Unread()
    async with Process(topic, standby=True) as process:
        topic.refuse()
        await asyncio.sleep(0.05)
        assert process.group.turn() == ""
        assert not topic.written
        assert process.reports[-1].silence_s > 0


@pytest.mark.parametrize(
    ("error", "refused"),
    [(ControlTopicError("no right"), True), (SilentTopicError("nobody answers"), False)],
    ids=["refused", "silent"],
)
async def test_only_an_answer_of_brokers_refuses_the_topic(
    monkeypatch: pytest.MonkeyPatch, error: ControlTopicError, refused: bool
) -> None:
    asked, told = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def ensure(*_: object) -> None:
        loop.call_soon_threadsafe(asked.set)
        raise error

    monkeypatch.setattr(control_topic, "ensure_topic", ensure)
    monkeypatch.setattr(control_topic, "RETRY_S", 0.01)
    topic = ControlTopic({"bootstrap.servers": "127.0.0.1:1"}, "control")
    topic.start(lambda *_: None, lambda: None, told.set)
    await asked.wait()
    asked.clear()
    await asked.wait()
    await asyncio.sleep(0)
    assert told.is_set() is refused
    await topic.close()
