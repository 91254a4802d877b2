"""Offsets of a watched group without members are read; where others write them, Bellwether stays out."""

import asyncio
from collections.abc import Sequence

import pytest

from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, TransportError
from bellwether_kafka.coordinator.membership import (
    Describe,
    DescribeAnswer,
    DescribedMember,
    Event,
    Failure,
    MembershipView,
    NotLeading,
    OffsetsRead,
    OrdersInForce,
)
from bellwether_kafka.coordinator.runtime.commit_watch import CommitWatch
from tests.kit.membership import Play, seen

GROUPS_AT_ONCE = 20
INTERVAL_S = 10.0

EMPTY = DescribeAnswer(0, 0, "Empty", "")
LEAVE = "ada has ordered leave of 'orders'"


class Watcher:
    """The membership of a group that is as this description says."""

    def __init__(self, state: str = "Empty", *members: DescribedMember, leave: str = "", **settings: object) -> None:
        self.scenario = Play(**{"adopt": "when-empty", "subscribes": False, "offsets": None} | settings)
        self.scenario.send(OrdersInForce(leave, "")).coordinator_found().described(state, *members)
        self.posted: list[OffsetsRead] = []

    @property
    def moves(self) -> int:
        return max((read.moves for read in self.posted), default=0)

    @property
    def membership(self) -> MembershipView:
        return self.scenario.machine.view

    def post(self, event: Event) -> None:
        assert isinstance(event, OffsetsRead)
        self.posted.append(event)
        self.scenario.send(event)

    def described(self, state: str, *members: DescribedMember) -> list[str]:
        """The commands after the next description."""
        while not any(isinstance(command, Describe) for command in self.scenario.last):
            self.scenario.wake()
        return self.scenario.described(state, *members).kinds()


class Brokers:
    def __init__(self, described: DescribeAnswer = EMPTY) -> None:
        self.described = described
        self.offsets: AnyCommitted | Exception = committed(0)
        self.asked: list[str] = []

    async def any_committed(self, group_id: str) -> AnyCommitted:
        self.asked.append(group_id)
        if isinstance(self.offsets, Exception):
            raise self.offsets
        return self.offsets

    async def describe_group(self, _: str) -> DescribeAnswer:
        return self.described


def committed(*offsets: int) -> AnyCommitted:
    return AnyCommitted(True, 0, ("t",), {"t": offsets})


class Watched:
    def __init__(self, described: DescribeAnswer = EMPTY, **watchers: Watcher) -> None:
        self.now = 0.0
        self.brokers = Brokers(described)
        self.watch = CommitWatch(watchers, self.brokers, clock=lambda: self.now)

    def read(self, readings: Sequence[AnyCommitted | Exception]) -> None:
        """One after the other, at their time."""
        for reading in readings:
            self.brokers.offsets = reading
            asyncio.run(self.watch.turn())
            self.now += INTERVAL_S


def test_offsets_that_rise_again_and_again_are_counted() -> None:
    group = Watcher()
    Watched(orders=group).read([committed(n) for n in range(20)])
    assert group.moves == 19
    role = group.membership.role
    assert role.reason is NotLeading.NO_SUBSCRIBERS
    assert "offsets are committed while no member is there" in role.detail


@pytest.mark.parametrize("protocols", [("range",), ("stream",)])
def test_a_group_is_joined_once_its_offsets_have_rested_for_longer_than_a_mirror_pauses(
    protocols: tuple[str, ...],
) -> None:
    group = Watcher(subscribes=True, protocols=protocols)
    watched = Watched(orders=group)
    while watched.now < 90.0:
        watched.read([committed(7)])
        assert "Join" not in group.described("Empty")
    watched.read([committed(7)])
    assert "Join" in group.described("Empty")


@pytest.mark.slow
def test_a_mirror_that_copies_every_minute_is_never_refused() -> None:
    group = Watcher(subscribes=True)
    watched = Watched(orders=group)
    for n in range(120):
        watched.read([committed(n // 6)])
        assert "Join" not in group.described("Empty")
    assert group.membership.role.reason is NotLeading.NO_SUBSCRIBERS


def test_an_order_to_lead_again_does_not_outweigh_what_was_seen() -> None:
    """Not even where the settings say that all consumers subscribe."""
    group = Watcher(subscribes=True, leave=LEAVE)
    Watched(orders=group).read([committed(n) for n in range(5)])
    assert group.moves == 4
    group.scenario.send(OrdersInForce("", ""))
    assert "Join" not in group.described("Empty")
    quiet = Watcher(subscribes=True, leave=LEAVE)
    Watched(orders=quiet).read([committed(1)] * 10)
    quiet.scenario.send(OrdersInForce("", ""))
    assert "Join" in quiet.described("Empty")


def test_a_reset_of_offsets_is_one_move_and_keeps_nobody_out_for_long() -> None:
    group = Watcher(subscribes=True)
    Watched(orders=group).read([committed(5), committed(5), *[committed(900)] * 31])
    assert group.moves == 1
    assert "Join" in group.described("Empty")


def test_offsets_that_go_back_or_appear_are_no_progress_and_no_rest() -> None:
    group = Watcher()
    readings = [committed(50, -1), committed(40, -1), committed(30, 7), AnyCommitted(False), committed(20, 7)]
    Watched(orders=group).read(readings)
    assert [(read.committed, read.moves, read.rest_s) for read in group.posted] == [
        (True, 0, 0.0), (True, 0, 0.0), (True, 0, 0.0), (False, 0, 0.0), (True, 0, 0.0),
    ]  # fmt: skip


def test_commits_of_a_member_that_has_just_come_do_not_count() -> None:
    group = Watcher()
    members = DescribeAnswer(0, 0, "Stable", "consumer", "range", (seen("a"),))
    Watched(members, orders=group).read([committed(n) for n in range(20)])
    assert group.moves == 0


def test_members_in_between_begin_it_anew() -> None:
    group = Watcher()
    watched = Watched(orders=group)
    watched.read([committed(1), committed(2)])
    group.described("Stable", seen("a"))
    watched.read([committed(3)])
    assert len(watched.brokers.asked) == 2, "members are in the group"


@pytest.mark.parametrize("group", [Watcher("Dead"), Watcher("Stable", seen("a"))], ids=["missing", "members"])
def test_a_group_that_is_missing_or_has_members_is_not_asked_about(group: Watcher) -> None:
    watched = Watched(orders=group)
    watched.read([committed(n) for n in range(5)])
    assert watched.brokers.asked == []


def test_an_error_or_silence_is_no_move() -> None:
    group = Watcher()
    silence = TransportError(Failure.TIMED_OUT, "silence")
    Watched(orders=group).read([committed(1), silence, AnyCommitted(False, 16), committed(1), silence, committed(1)])
    assert [read.rest_s for read in group.posted] == [0.0, 30.0, 50.0]
    assert group.moves == 0


async def test_each_group_is_read_at_intervals_and_few_at_once() -> None:
    watched = Watched(**{f"g{n}": Watcher() for n in range(3 * GROUPS_AT_ONCE)})
    for _ in range(30):
        await watched.watch.turn()
        watched.now += 1.0
    assert len(watched.brokers.asked) == 3 * 3 * GROUPS_AT_ONCE
    assert set(map(watched.brokers.asked.count, watched.watch._due)) == {3}
