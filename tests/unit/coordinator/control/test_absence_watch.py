"""The watch over absences and the controller that keeps them: when groups are asked, what is written, what ends."""

import asyncio
import cProfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.control import (
    Absence,
    AbsenceUpdate,
    AbsenceWatch,
    Controller,
    ControlSettings,
    InstanceHeartbeat,
    OrderKind,
    PlacementOrder,
    Record,
    Stage,
    Until,
    absence_watch,
)
from bellwether_kafka.coordinator.kafka.wire import RemovedMembers, TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Failure
from bellwether_kafka.coordinator.runtime import Asking, ServedGroup
from tests.kit.membership import plain
from tests.kit.runtime import OTHER, Group, named, working

MOVING_POLL_S = 0.25
POLL_S = 1.0

ORDER = PlacementOrder(
    OrderKind.EVACUATE, "orders", "*", "member:app-1", "eve", 1_000, 601_000, "new disks", until=Until.BACK
)


class Topic:
    """The control topic without Kafka: what is written comes back when `deliver` is called, or not at all."""

    topic = "control"

    def __init__(self) -> None:
        self.written: list[tuple[str, Record | None]] = []

    def write(self, record: Record) -> None:
        self.written.append((record.key, record))

    def withdraw(self, key: str) -> None:
        self.written.append((key, None))

    @property
    def reported(self) -> list[tuple[str, Record | None]]:
        return [(key, record) for key, record in self.written if not isinstance(record, InstanceHeartbeat)]


class Brokers:
    """What the watch asks for."""

    def __init__(self) -> None:
        self.members: tuple[DescribedMember, ...] = ()
        self.state = "Stable"
        self.refreshes = 0
        self.removed: list[str] = []
        self.down = False

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self.refreshes += 1
        if self.down:
            raise TransportError(Failure.DISCONNECTED, "no broker")
        return DescribeAnswer(0, 0, self.state, "consumer", "range", (*self.members, OTHER))

    async def remove_from(self, group_id: str, reasons: Mapping[str, str]) -> RemovedMembers:
        self.removed += reasons
        self.members = tuple(m for m in self.members if m.member_id not in reasons)
        return RemovedMembers(0, dict.fromkeys(reasons, 0))


class Channel:
    """A process that leads the group."""

    def __init__(self, *, leads: bool = True) -> None:
        self.now_ms = 2_000
        self.topic, self.brokers, self.group = Topic(), Brokers(), Group(standby=False)
        if leads:
            self.group.lead()
        settings = ControlSettings("control", "pod-1")
        topic: Any = self.topic  # it does what the controller asks of a topic, without Kafka
        self.controller = Controller(topic, settings, {"orders": self.group}, wall_clock=self._wall_clock)
        self.controller._all_read()
        self.watch = AbsenceWatch(self.controller.absences, self.brokers, self._wall_clock)

    def _wall_clock(self) -> float:
        return self.now_ms / 1000

    def hears(self, record: Record) -> None:
        self.controller._on_record(record.key, record)

    def refreshes_at(self, *members: DescribedMember) -> None:
        self.now_ms += 1_000
        self.brokers.members = members
        asyncio.run(self.watch.turn())

    @property
    def stages(self) -> list[Stage]:
        return [record.stage for _, record in self.topic.reported if isinstance(record, Absence)]


def after_another(channel: Channel) -> Channel:
    """It hears what a leader wrote under which the member was emptied."""
    first = Channel()
    first.hears(ORDER)
    for members in ((working(plain("a")),), (plain("a"),)):
        first.refreshes_at(*members)
    channel.hears(ORDER)
    for _, record in first.topic.reported:
        assert record is not None
        channel.hears(record)
    return channel


def test_a_member_is_not_empty_before_others_have_what_it_has_given_up() -> None:
    """If it stopped now, the next rebalance would wait for it."""
    channel = Channel()
    channel.hears(ORDER)
    channel.refreshes_at(working(plain("a")))
    channel.group.machine._core.leadership.pending = True
    channel.refreshes_at(plain("a"))
    assert channel.stages == [Stage.EMPTYING]
    channel.group.machine._core.leadership.pending = False
    channel.refreshes_at(plain("a"))
    assert channel.stages == [Stage.EMPTYING, Stage.EMPTY]


def test_the_leader_writes_how_far_an_absence_has_come_and_withdraws_the_order_when_the_member_is_back() -> None:
    channel = Channel()
    channel.hears(ORDER)
    assert [rule.where for rule in channel.group.rules] == ["member:app-1"]
    for members in ((working(plain("a")),), (working(plain("a")),), (plain("a"),), ()):
        channel.refreshes_at(*members)
    assert channel.stages == [Stage.EMPTYING, Stage.EMPTY, Stage.AWAY]
    assert channel.group.rules, "nothing is given to it while it is away"
    channel.refreshes_at(plain("a2"))
    assert channel.group.rules == ()
    assert channel.topic.reported[-2:] == [(ORDER.key, None), ("absence/orders/member:app-1", None)]
    assert channel.group.ordered[-1] == f"{ORDER.sentence}: it is back"


def test_a_successor_goes_on_where_the_leader_was() -> None:
    second = after_another(Channel())
    second.refreshes_at(plain("a"), plain("a2"))
    assert second.group.rules == ()


def test_an_order_whose_member_had_been_evacuated_ends_when_it_is_back_also_where_a_member_leads() -> None:
    """Bellwether was killed while the member was away, and is back in an exactly-once application, which it does not
    take over: the order stood until it led again, and would have emptied the member a second time."""
    second = after_another(Channel(leads=False))
    second.refreshes_at(working(plain("a")))
    assert second.topic.reported == [], "what another leader gives it is no step of its absence"
    second.refreshes_at(working(plain("a2")))
    assert second.topic.reported == [(ORDER.key, None), ("absence/orders/member:app-1", None)]
    assert second.group.rules == ()


def test_nobody_is_asked_without_such_an_order_nor_by_who_does_not_lead() -> None:
    for channel, order in ((Channel(), replace(ORDER, until=Until.EXPIRY)), (Channel(leads=False), ORDER)):
        channel.hears(order)
        channel.refreshes_at(plain("a"))
        assert channel.brokers.refreshes == 0
        assert channel.group.rules


def test_a_member_that_does_not_come_back_is_waited_for_until_the_order_expires() -> None:
    channel = Channel()
    channel.hears(ORDER)
    channel.refreshes_at(plain("a"))
    channel.now_ms = ORDER.expires_ms
    channel.controller.review()
    channel.controller._housekeeping()
    assert channel.group.rules == ()
    assert channel.group.ordered[-1].endswith(": expired")
    assert channel.topic.reported[-1] == ("absence/orders/member:app-1", None)


def test_an_order_that_is_given_anew_begins_anew() -> None:
    channel = Channel()
    channel.hears(ORDER)
    channel.refreshes_at(plain("a"))
    again = replace(ORDER, at_ms=channel.now_ms, expires_ms=channel.now_ms + 600_000)
    channel.hears(again)
    channel.refreshes_at(working(plain("a2")))
    assert channel.stages == [Stage.EMPTY, Stage.EMPTYING]
    assert channel.group.rules


def test_how_one_order_ended_is_not_reported_of_the_next() -> None:
    channel = Channel()
    channel.hears(ORDER)
    channel.refreshes_at(plain("a"))
    channel.refreshes_at(plain("a2"))
    again = replace(ORDER, at_ms=channel.now_ms)
    channel.hears(again)
    channel.controller._on_record(again.key, None)
    assert [message.rpartition(": ")[2] for message in channel.group.ordered[1::2]] == ["it is back", "withdrawn"]


def test_what_was_seen_for_an_order_that_has_been_withdrawn_meanwhile_counts_for_nothing() -> None:
    channel = Channel()
    channel.hears(ORDER)
    channel.controller._on_record(ORDER.key, None)
    channel.controller.absences.observe(ORDER, AbsenceUpdate(None, "it is back"))
    assert channel.topic.reported == []


def test_threads_that_join_one_after_another_all_end_the_waiting_for_their_predecessors() -> None:
    channel = Channel()
    channel.hears(replace(ORDER, where="member:orders-1"))
    channel.refreshes_at(working(named("a1", 1)), working(named("a2", 2)))
    channel.refreshes_at(named("a1", 1), named("a2", 2))
    channel.brokers.state = "PreparingRebalance"
    channel.refreshes_at(named("a1", 1), named("a2", 2), named("b1", 1))
    assert channel.brokers.removed == ["a1"]
    assert channel.group.ordered[-1].endswith(": it is back")
    channel.refreshes_at(named("a2", 2), named("b1", 1), named("b2", 2))
    assert channel.brokers.removed == ["a1", "a2"]
    channel.brokers.state = "Stable"
    channel.refreshes_at(named("b1", 1), named("b2", 2))
    refreshes = channel.brokers.refreshes
    channel.refreshes_at(named("b1", 1), named("b2", 2))
    assert channel.brokers.refreshes == refreshes, "the rebalance is over, so nobody is waited for"


async def test_a_group_that_moves_is_refreshed_more_often_because_it_may_wait_for_a_member_that_is_back() -> None:
    channel = Channel()
    channel.hears(ORDER)
    channel.brokers.members = (working(plain("a")),)
    assert await channel.watch.turn() == POLL_S
    channel.brokers.state = "PreparingRebalance"
    assert await channel.watch.turn() == MOVING_POLL_S


async def test_a_group_is_refreshed_when_its_membership_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absence_watch, "POLL_S", 600.0)
    channel, refreshes = Channel(), asyncio.Queue[str]()
    channel.hears(ORDER)

    async def describe_group(group_id: str) -> DescribeAnswer:
        refreshes.put_nowait(group_id)
        return DescribeAnswer(0, 0, "Stable", "consumer", "range", (OTHER,))

    monkeypatch.setattr(channel.brokers, "describe_group", describe_group)
    watching = asyncio.create_task(channel.watch.run())
    await asyncio.wait_for(refreshes.get(), 60)
    channel.watch.poll_now()
    assert await asyncio.wait_for(refreshes.get(), 60) == "orders"
    watching.cancel()


def test_one_that_has_been_stopped_for_good_is_removed() -> None:
    channel = Channel()
    channel.hears(replace(ORDER, until=Until.REMOVED))
    channel.refreshes_at(plain("a"))
    assert channel.brokers.removed == ["a"]
    channel.refreshes_at()
    assert channel.group.rules == ()
    assert channel.group.ordered[-1].endswith(": it is removed")


def test_brokers_that_do_not_answer_end_nothing() -> None:
    channel = Channel()
    channel.hears(ORDER)
    channel.brokers.down = True
    with capture_logs() as logged:
        channel.refreshes_at()
        channel.refreshes_at()
    assert channel.group.rules
    assert [entry["event"] for entry in logged] == ["absence_not_seen"]


def test_the_page_is_reported_what_is_being_evacuated_and_how_far_that_has_come() -> None:
    channel = Channel()
    rack = replace(ORDER, where="rack:az1", until=Until.EXPIRY)
    channel.hears(ORDER)
    channel.hears(rack)
    channel.hears(replace(ORDER, kind=OrderKind.BAN, item="orders-1", where="member:app-2", until=Until.EXPIRY))
    assert channel.controller.absences.evacuations("orders") == ((ORDER, None), (rack, None)), "a ban empties nobody"
    channel.refreshes_at(working(plain("a")))
    ((_, absence), _) = channel.controller.absences.evacuations("orders")
    assert absence is not None
    assert absence.stage is Stage.EMPTYING
    channel.now_ms = ORDER.expires_ms
    assert channel.controller.absences.evacuations("orders") == ()


class ServedChannel(Channel):
    """A process whose plans the group's broker follows; it leads nothing."""

    def __init__(self) -> None:
        super().__init__(leads=False)
        self.begun: list[str] = []
        self.asking = Asking()
        self.unknown = False
        topic: Any = self.topic
        settings = ControlSettings("control", "pod-1")
        self.controller = Controller(topic, settings, {}, served=self, wall_clock=self._wall_clock)
        self.controller._all_read()
        self.watch = AbsenceWatch(self.controller.absences, self.brokers, self._wall_clock, served=self._described)

    async def _described(self, group_id: str) -> DescribeAnswer | None:
        return None if self.unknown else await self.brokers.describe_group(group_id)

    def policies(self) -> Mapping[str, str]:
        return {"orders": "rack-first"}

    def compare(self, group: str, *, first: bool, ended: Mapping[str, str]) -> None:
        rules = self.controller.rules_of(group)
        known = ServedGroup(rules=rules, first=first, ended=ended, by_orders=True)
        if cause := self.asking.step(group, known, 0.0):
            self.begin_rebalance(group, cause)

    def begin_rebalance(self, group: str, cause: str) -> None:
        self.begun.append(f"{group}: {cause}")


def test_an_evacuation_in_a_group_that_its_broker_assigns_ends_when_the_member_is_back() -> None:
    channel = ServedChannel()
    channel.hears(ORDER)
    channel.controller.review()
    for members in ((working(plain("a")),), (plain("a"),), ()):
        channel.refreshes_at(*members)
    assert channel.stages == [Stage.EMPTYING, Stage.EMPTY, Stage.AWAY]
    channel.refreshes_at(plain("a2"))
    assert channel.topic.reported[-2:] == [(ORDER.key, None), ("absence/orders/member:app-1", None)]
    channel.controller.review()
    assert channel.begun[-1] == f"orders: {ORDER.sentence}: it is back", "its broker asks for a plan without the order"
    assert channel.brokers.removed == []


def test_what_is_unknown_of_a_group_that_its_broker_assigns_ends_no_evacuation() -> None:
    channel = ServedChannel()
    channel.hears(ORDER)
    channel.refreshes_at(plain("a"))
    for channel.unknown, channel.brokers.state in ((True, "Stable"), (False, "Reconciling"), (False, "Dead")):
        channel.refreshes_at(plain("a2"))
        assert (ORDER.key, None) not in channel.topic.reported


def test_of_a_group_that_brokers_assign_nobody_is_removed_and_one_process_alone_watches() -> None:
    for order, others in (
        (replace(ORDER, until=Until.REMOVED), ()),
        (ORDER, (InstanceHeartbeat("pod-0", serves=("orders",)),)),
    ):
        channel = ServedChannel()
        for record in (*others, order):
            channel.hears(record)
        channel.refreshes_at(plain("a"))
        assert (channel.brokers.refreshes, channel.brokers.removed) == (0, [])


EVERY_ORDER = {f"g{n:03}": replace(ORDER, target=f"g{n:03}") for n in range(200)}


class ManyGroups(Channel):
    """A process that leads many groups, each of which has an order."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        groups = {name: Group(standby=False) for name in names}
        for group in groups.values():
            group.lead()
        topic: Any = self.topic
        self.controller = Controller(topic, ControlSettings("control", "pod-1"), groups, wall_clock=self._wall_clock)
        self.controller._all_read()
        self.watch = AbsenceWatch(self.controller.absences, self.brokers, self._wall_clock)
        for name in names:
            self.hears(EVERY_ORDER[name])


@pytest.mark.slow
async def test_a_broker_that_is_silent_delays_the_watch_over_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls followed one another: a member was back, and its group waited five seconds for the broker of another."""
    monkeypatch.setattr(absence_watch, "MOVING_POLL_S", 0.001)
    channel = ManyGroups([*EVERY_ORDER][:100])
    silent, polled = {*[*EVERY_ORDER][:90]}, list[str]()
    never = asyncio.Event()

    async def describe_group(group_id: str) -> DescribeAnswer:
        polled.append(group_id)
        if group_id in silent:
            if group_id not in channel.watch._troubles:
                raise TransportError(Failure.TIMED_OUT, "no answer")
            await never.wait()
        return DescribeAnswer(0, 0, "Stable", "consumer", "range", (OTHER,))

    monkeypatch.setattr(channel.brokers, "describe_group", describe_group)
    await channel.watch.turn()
    for _ in range(2):
        polled.clear()
        await channel.watch.turn()
        assert {*EVERY_ORDER} & {*polled} - silent == {*[*EVERY_ORDER][90:100]}
        assert len({*polled} & silent) <= absence_watch.POLLS_IN_TROUBLE_MAX
    for poll in channel.watch._polls.values():
        poll.cancel()


@pytest.mark.virtual_time
@pytest.mark.slow
async def test_many_groups_whose_broker_falls_silent_hold_up_the_others_for_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them had had an answer before. As many as may be polled at once took all turns until their requests timed
    out."""
    channel = ManyGroups([*EVERY_ORDER][:100])
    silent, polled = {*[*EVERY_ORDER][:90]}, list[str]()

    async def describe_group(group_id: str) -> DescribeAnswer:
        polled.append(group_id)
        if group_id in silent:
            await asyncio.sleep(30.0)
            raise TransportError(Failure.TIMED_OUT, "no answer")
        return DescribeAnswer(0, 0, "Stable", "consumer", "range", (OTHER,))

    monkeypatch.setattr(channel.brokers, "describe_group", describe_group)
    watching = asyncio.create_task(channel.watch.run())
    waves = len(silent) // absence_watch.POLLS_MAX + 1
    await asyncio.sleep(waves * absence_watch.SLOW_S)
    assert {*EVERY_ORDER} & {*polled} - silent == {*[*EVERY_ORDER][90:100]}
    polled.clear()
    await asyncio.sleep(POLL_S + MOVING_POLL_S)
    assert {*polled} - silent == {*[*EVERY_ORDER][90:100]}
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_a_defect_in_the_poll_of_a_group_is_logged_and_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = ManyGroups(["g000", "g001"])
    describe = channel.brokers.describe_group

    async def describe_group(group_id: str) -> DescribeAnswer:
        if group_id == "g000":
            raise KeyError("a defect")
        return await describe(group_id)

    monkeypatch.setattr(channel.brokers, "describe_group", describe_group)
    with capture_logs() as lines:
        channel.refreshes_at(working(plain("app-1")))
    assert channel.brokers.refreshes == 1
    assert [(line["event"], line["group"]) for line in lines if line["log_level"] == "error"] == [
        ("absences_not_watched", "g000")
    ]


def calls_in_a_turn(orders: int) -> int:
    """How many Python functions a turn of the watch calls when each of so many groups has an evacuation."""
    channel = ManyGroups([*EVERY_ORDER][:orders])
    profile = cProfile.Profile()
    profile.runcall(channel.refreshes_at, plain("a"))
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_the_cost_of_a_turn_grows_with_the_number_of_evacuations_and_not_with_its_square() -> None:
    """Guards keep orders for ten minutes, so a rolling restart has hundreds: each was sorted again for each group."""
    assert calls_in_a_turn(200) < 9 * calls_in_a_turn(25)
