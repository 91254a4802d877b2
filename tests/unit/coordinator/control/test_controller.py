"""The control topic and its controller, with real clients on the embedded brokers; and the commands that order."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from prometheus_client import CollectorRegistry

from bellwether_kafka.coordinator.control import (
    EVERYBODY,
    Absence,
    Controller,
    ControlReport,
    ControlSettings,
    ControlTopic,
    ControlTopicError,
    InstanceHeartbeat,
    Instances,
    Order,
    OrderKind,
    PlacementOrder,
    Record,
    Stage,
    Stopped,
    Until,
    encode,
    ensure_topic,
    heartbeat_key,
    read_all,
    write_now,
)
from bellwether_kafka.coordinator.control import topic as control_topic
from bellwether_kafka.coordinator.membership import (
    Fatal,
    Note,
    NoteKind,
)
from bellwether_kafka.coordinator.telemetry import ControlMetrics
from tests.kit.brokers import EmbeddedCluster
from tests.kit.runtime import LIMIT_S, Group, kafka, order, until

HEARTBEATS_MISSED = 3

pytestmark = pytest.mark.embedded

FETCH = 1  # Kafka's key of the request
HEARTBEAT_S = 0.5  # three silent heartbeats must not pass on a busy machine


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def topic(brokers: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    name = f"control-{request.node.name}"
    brokers.create_topic(name, 1)
    return name


def read_now(brokers: EmbeddedCluster, topic: str) -> dict[str, Record]:
    """As a command, which has no event loop of its own."""
    with ThreadPoolExecutor(1) as command:
        return command.submit(read_all, kafka(brokers), topic, LIMIT_S).result()


EVACUATION = PlacementOrder(OrderKind.EVACUATE, "g8", "*", "member:a/b", "eve", 0, 10**15, until=Until.BACK)
EMPTIED = Absence("g8", "member:a/b", 0, 10**15, Stage.EMPTY, 0)


class Instance:
    """A controller with one group."""

    def __init__(self, brokers: EmbeddedCluster, topic: str, name: str, *, standby: bool = True) -> None:
        self.group = Group(standby=standby)
        settings = ControlSettings(topic, name, standby)
        self.reports: list[ControlReport] = []
        self.controller = Controller(
            ControlTopic(kafka(brokers), topic),
            settings,
            {"orders": self.group},
            on_control=(self.reports.append,),
            heartbeat_s=HEARTBEAT_S,
        )
        self._running = asyncio.create_task(self.controller.run())

    async def die(self) -> None:
        """Without a word to the others."""
        self._running.cancel()
        await self.controller._kept.topic.close()

    async def close(self) -> None:
        self._running.cancel()
        await self.controller.close()


async def test_what_is_written_is_received_by_everybody_and_what_makes_no_sense_is_not(
    brokers: EmbeddedCluster, topic: str
) -> None:
    received: list[tuple[str, Record | None]] = []
    caught_up = asyncio.Event()
    write_now(kafka(brokers), topic, (b"leave/x", b"nonsense"))
    write_now(kafka(brokers), topic, encode(order()))
    control = ControlTopic(kafka(brokers), topic)
    control.start(lambda key, record: received.append((key, record)), caught_up.set)
    await asyncio.wait_for(caught_up.wait(), LIMIT_S)
    assert [key for key, _ in received] == ["leave/orders"]
    control.write(InstanceHeartbeat("pod-1"))
    control.withdraw("leave/orders")
    await until(lambda: len(received) == 3)
    assert received[1:] == [("beat/pod-1", InstanceHeartbeat("pod-1")), ("leave/orders", None)]
    await control.close()
    assert read_now(brokers, topic) == {"beat/pod-1": InstanceHeartbeat("pod-1")}


async def test_a_topic_that_was_deleted_is_created_again(
    brokers: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These brokers create no topic on request, so that request alone is replaced."""
    created: list[str] = []

    def ensure(_properties: Mapping[str, str], name: str) -> None:
        created.append(name)
        brokers.set_topic_error(name, 0)

    received: list[str] = []
    caught_up = asyncio.Event()
    control = ControlTopic(kafka(brokers), topic)
    control.start(lambda key, _: received.append(key), caught_up.set)
    await asyncio.wait_for(caught_up.wait(), LIMIT_S)
    monkeypatch.setattr(control_topic, "ensure_topic", ensure)
    brokers.set_topic_error(topic, KafkaError.UNKNOWN_TOPIC_OR_PART)
    brokers.push_errors(FETCH, *[KafkaError.UNKNOWN_TOPIC_OR_PART] * 3)
    await until(lambda: created == [topic])
    control.write(InstanceHeartbeat("pod-1"))
    await until(lambda: received == ["beat/pod-1"])
    await control.close()


async def test_a_stopped_process_is_reported_once_and_only_while_the_statement_is_new(
    brokers: EmbeddedCluster, topic: str
) -> None:
    now_ms = int(time.time() * 1000)
    old = Stopped("orders", ("old",), (), "ann", now_ms - 120_000, now_ms - 60_000)
    write_now(kafka(brokers), topic, encode(old))
    received: list[Stopped] = []
    instance = Instance(brokers, topic, "a", standby=False)

    def stopped(record: Stopped, done: Callable[[], None]) -> None:
        received.append(record)
        done()

    instance.controller._on_stopped = stopped
    await until(instance.controller._caught_up.is_set)
    new = replace(old, members=("new",), at_ms=now_ms, expires_ms=now_ms + 60_000)
    for record in (old, replace(new, target="another"), new):
        write_now(kafka(brokers), topic, encode(record))
    await until(lambda: bool(received))
    assert received == [new]
    await until(lambda: new.key not in read_now(brokers, topic))
    await instance.close()


async def test_orders_reach_an_instance_that_comes_later_and_end_when_they_expire(
    brokers: EmbeddedCluster, topic: str
) -> None:
    write_now(kafka(brokers), topic, encode(order(OrderKind.PAUSE, seconds=600)))
    write_now(kafka(brokers), topic, encode(order(OrderKind.LEAVE, seconds=3)))
    instance = Instance(brokers, topic, "a", standby=False)
    await until(lambda: instance.group.given() is not None)
    orders = instance.group.given()
    assert orders is not None
    assert "eve has ordered pause" in orders.pause
    await until(lambda: [o.kind for o in instance.reports[-1].orders] == [OrderKind.LEAVE, OrderKind.PAUSE])
    await until(lambda: (last := instance.group.given()) is not None and not last.leave and bool(last.pause))
    await instance.close()


async def test_of_two_instances_one_is_asked_to_lead_and_when_it_dies_the_other(
    brokers: EmbeddedCluster, topic: str
) -> None:
    first, second = Instance(brokers, topic, "a"), Instance(brokers, topic, "b")
    await until(lambda: bool(first.group.turn()))
    await asyncio.sleep(5 * HEARTBEAT_S)
    # With such quick heartbeats both may claim at once; then the second has made way by now.
    assert (first.group.membership.has_active_role, second.group.membership.has_active_role) == (True, False)
    assert second.reports[-1].living == 1
    await first.die()
    await until(lambda: second.group.turn() == "the heartbeat of a has stopped")
    await until(lambda: second.reports[-1].living == 0)
    await second.close()
    assert not [key for key in read_now(brokers, topic) if key == "beat/b"]


async def test_an_instance_that_stops_in_good_order_is_followed_at_once(brokers: EmbeddedCluster, topic: str) -> None:
    first, second = Instance(brokers, topic, "a"), Instance(brokers, topic, "b")
    await until(lambda: bool(first.group.turn()))
    await asyncio.sleep(5 * HEARTBEAT_S)
    await first.controller.hand_all_over()
    await first.close()
    await until(lambda: second.group.turn() == "no instance of Bellwether leads it")
    await second.close()


async def test_a_group_that_one_instance_has_given_up_is_taken_by_another(brokers: EmbeddedCluster, topic: str) -> None:
    first, second = Instance(brokers, topic, "a"), Instance(brokers, topic, "b")
    await until(lambda: bool(first.group.turn()))
    await asyncio.sleep(5 * HEARTBEAT_S)
    first.group.fatal = Fatal("an error of ours ended it", 1)
    await until(lambda: second.group.membership.has_active_role)
    await asyncio.sleep(5 * HEARTBEAT_S)
    assert second.group.membership.has_active_role, "the first, which lives on, does not want it back"
    await first.close()
    await second.close()


async def test_a_membership_that_is_broken_is_relieved_by_a_standby_if_there_is_one(
    brokers: EmbeddedCluster, topic: str
) -> None:
    first, second = Instance(brokers, topic, "a"), Instance(brokers, topic, "b")
    await until(lambda: bool(first.group.turn()))
    await asyncio.sleep(5 * HEARTBEAT_S)
    assert not await first.controller.relieve("orders", "a bug"), "it does not lead"
    first.group.lead()
    relieved = asyncio.create_task(first.controller.relieve("orders", "a bug"))
    await until(lambda: second.group.turn() == "a hands it over")
    second.group.lead()
    second.controller.review()
    assert await relieved
    await second.die()
    await until(lambda: first.reports[-1].living == 0)
    assert not await first.controller.relieve("orders", "a bug"), "nobody is left"
    await first.close()


async def test_without_the_topic_silence_grows_and_what_was_read_is_still_in_force(topic: str) -> None:
    with EmbeddedCluster(brokers=1) as mortal:
        mortal.create_topic(topic, 1)
        write_now(kafka(mortal), topic, encode(order(OrderKind.PAUSE)))
        instance = Instance(mortal, topic, "a", standby=False)
        await until(lambda: instance.group.given() is not None)
        await until(lambda: instance.reports[-1].silence_s < 5 * HEARTBEAT_S)
        mortal.set_broker_down(1)
        await until(lambda: instance.reports[-1].silence_s > 10 * HEARTBEAT_S)
        orders = instance.group.given()
        assert orders is not None
        assert orders.pause
        await instance.close()


def test_orders_instances_and_silence_are_metrics() -> None:
    registry = CollectorRegistry()
    metrics = ControlMetrics(registry)
    labels = {"group": "orders", "kind": "leave"}
    pins = tuple(PlacementOrder(OrderKind.PIN, "orders", f"t-{n}", "rack:az1", "eve", 0, 1) for n in (1, 2))
    metrics.on_control(ControlReport((order(), *pins), 2, 0.5))
    assert registry.get_sample_value("bellwether_orders", {"group": "orders", "kind": "pin"}) == 2
    assert registry.get_sample_value("bellwether_orders", labels) == 1
    assert registry.get_sample_value("bellwether_instances") == 3
    assert registry.get_sample_value("bellwether_control_topic_silence_seconds") == 0.5
    metrics.on_control(ControlReport((), 0, 9.0))
    assert registry.get_sample_value("bellwether_orders", labels) is None, "an order that stands no more is not shown"


def test_a_topic_with_two_partitions_is_refused(brokers: EmbeddedCluster) -> None:
    brokers.create_topic("control-wide", 2)
    with pytest.raises(ControlTopicError, match="has 2 partitions, but order matters"):
        ensure_topic({"bootstrap.servers": brokers.bootstrap}, "control-wide")


def test_a_note_of_a_group_costs_no_review_of_hundreds_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 300 groups that took their first members gave notes that reviewed all 300, and their plans were late."""
    reviewed: list[str] = []
    groups = {f"g{n}": Group(standby=False) for n in range(300)}
    topic: Any = SimpleNamespace(topic="c")
    controller = Controller(topic, ControlSettings("c", "pod-1", standby=False), groups)
    controller._all_read()
    monkeypatch.setattr(controller, "_follow_orders", lambda group, *_: reviewed.append(group))
    controller.on_note("g7", Note(NoteKind.LEADING, "1 member"))
    assert reviewed == ["g7"]
    controller.review()
    assert len(reviewed) == 301


@pytest.mark.parametrize(
    ("standby", "records", "concerned"),
    [
        (False, [order(target="g7")], ["g7"]),
        (False, [order(target="g7"), ("leave/g7", None)], ["g7", "g7"]),
        (False, [order(target="elsewhere")], []),
        (False, [Order(OrderKind.DRAIN, EVERYBODY, "eve", 0, 10**15)], []),
        (False, [EVACUATION], ["g8"]),
        (False, [EVACUATION, EMPTIED, (EVACUATION.key, None)], ["g8", "g8", "g8"]),
        (False, [InstanceHeartbeat("pod-1"), InstanceHeartbeat("pod-1", between=True)], []),
        (True, [InstanceHeartbeat("pod-1", between=True)], []),
        (True, [InstanceHeartbeat("pod-1")], [f"g{n}" for n in range(300)]),
        (True, [InstanceHeartbeat("pod-2", leads=("g1", "g2"))], ["g1", "g2"]),
        (True, [InstanceHeartbeat("pod-2", leads=("g1",)), InstanceHeartbeat("pod-2", leads=("g1",))], ["g1"]),
        (
            True,
            [InstanceHeartbeat("pod-2", leads=("g1",)), InstanceHeartbeat("pod-2", claims=("g3",))],
            ["g1", "g1", "g3"],
        ),
        (True, [InstanceHeartbeat("pod-2", leads=("g1",)), (heartbeat_key("pod-2"), None)], ["g1", "g1"]),
    ],
)
def test_a_record_costs_a_review_of_the_groups_that_it_concerns_and_of_no_others(
    monkeypatch: pytest.MonkeyPatch,
    standby: bool,
    records: list[Record | tuple[str, None]],
    concerned: list[str],
) -> None:
    reviewed: list[str] = []
    groups = {f"g{n}": Group(standby=standby) for n in range(300)}
    topic: Any = SimpleNamespace(topic="c", write=lambda _: None, withdraw=lambda _: None)
    controller = Controller(topic, ControlSettings("c", "pod-1", standby=standby), groups)
    controller._all_read()
    monkeypatch.setattr(controller, "_follow_orders", lambda group, *_: reviewed.append(group))
    for record in records:
        controller._on_record(*(record if isinstance(record, tuple) else (record.key, record)))
    assert sorted(reviewed) == sorted(concerned)


def test_an_instance_that_is_back_after_a_silence_concerns_all_its_groups() -> None:
    instances, alive = Instances("pod-1"), InstanceHeartbeat("pod-2", leads=("g1",), standby_for=("g2",))
    assert instances.received(alive) == {"g1", "g2"}
    assert instances.received(alive) == frozenset()
    for _ in range(HEARTBEATS_MISSED):
        instances.received(InstanceHeartbeat("pod-1"))
    assert instances.received(alive) == {"g1", "g2"}


def test_a_stated_death_stays_in_the_topic_until_the_member_is_gone_and_reaches_the_next_active_instance() -> None:
    """It was withdrawn at once: if the removal failed, or the process ended before it, nobody knew of it any more."""
    written: dict[str, Record | None] = {}
    topic: Any = SimpleNamespace(topic="c", write=lambda _: None, withdraw=lambda key: written.update({key: None}))
    given: list[tuple[Stopped, Callable[[], None]]] = []
    now_ms = 1_000_000
    controller = Controller(
        topic,
        ControlSettings("c", "pod-1", standby=True),
        {"orders": Group(standby=True)},
        on_stopped=lambda record, done: given.append((record, done)),
        wall_clock=lambda: now_ms / 1000,
    )
    stopped = Stopped("orders", ("a",), (), "ann", now_ms - 1_000, now_ms + 60_000)
    of_others = replace(stopped, members=("b",))
    expired = replace(stopped, members=("c",), expires_ms=now_ms)
    for record in (stopped, of_others, expired):
        controller._on_record(record.key, record)
    controller._on_record(of_others.key, None)
    controller._all_read()
    controller.review()
    assert given == [], "another instance is active"
    controller._groups["orders"].active = True
    controller.review()
    controller.review()
    ((record, done),) = given
    assert record == stopped
    assert written == {}
    done()
    assert written == {stopped.key: None}


async def test_an_observer_that_raises_ends_neither_the_reading_nor_the_heartbeats() -> None:
    written: list[Record] = []
    starts: list[Callable[[], None]] = []
    topic: Any = SimpleNamespace(topic="c", start=lambda _, read, *__: starts.append(read), write=written.append)

    def broken(_: ControlReport) -> None:
        raise KeyError("a defect")

    settings = ControlSettings("c", "pod-1")
    controller = Controller(topic, settings, {"g": Group(standby=False)}, on_control=[broken], heartbeat_s=0.001)
    running = asyncio.create_task(controller.run())
    await until(lambda: bool(starts))
    await asyncio.sleep(0.005)
    starts[0]()
    await until(lambda: bool(written))
    running.cancel()
