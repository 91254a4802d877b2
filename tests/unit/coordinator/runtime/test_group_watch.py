"""Between rebalances groups are described, their racks compared and their offsets read, each at its time; what is found
is posted."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Policy
from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, TransportError
from bellwether_kafka.coordinator.membership import (
    Describe,
    DescribeAnswer,
    DescribedMember,
    Event,
    Failure,
    JoinedMember,
    MembershipView,
    NotLeading,
    OffsetsRead,
    OrdersInForce,
    RebalanceWanted,
    State,
)
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner, RackRules
from bellwether_kafka.coordinator.runtime import Brokers, GroupReader, GroupWatch, GroupWatches, watch_rack_file
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.membership import ME, Play, seen
from tests.kit.plans import (
    BY_CLIENT,
    BY_HOST,
    IN_BOTH_RACKS,
    RACKED_MEMBERS,
    RACKED_SHOWN,
    Reader,
    decide_racked,
    rack_rules,
)
from tests.kit.runtime import DescribingBrokers

AGAIN_S = 10.0
REST_S = 1.0  # of a rack file
COMMITS_S = 10.0
COMMITS_AT_ONCE = 10


class Watched:
    """The watches on these groups, over brokers that the test holds."""

    def __init__(self, brokers: Any, groups: dict[str, Any], planners: dict[str, Planner[Any]] | None = None) -> None:
        self.now, self.groups, self.brokers = 0.0, groups, brokers
        from_brokers = Brokers(groups=brokers, commits=brokers, offsets=brokers)
        self.planners = planners or {group: planner_of(group) for group in groups}
        self.watches = {
            group: GroupWatch(
                GroupReader(
                    self.planners[group],
                    from_brokers,
                    policy=Policy(LOAD_AWARE),
                    weights=Weights,
                    clock=lambda: self.now,
                )
            )
            for group in groups
        }
        self.watch = GroupWatches(self.watches, groups)

    def turns(self, number: int, *, apart_s: float = 1.0) -> None:
        asyncio.run(self.turn_s(number, apart_s=apart_s))

    async def turn_s(self, number: int, *, apart_s: float = 1.0) -> None:
        for _ in range(number):
            await self.watch.turn()
            while tasks := [task for watch in self.watches.values() for task in watch.tasks]:
                await asyncio.gather(*tasks)
            self.now += apart_s

    @property
    def wanted(self) -> list[tuple[str, str]]:
        posted = [(name, event) for name, group in self.groups.items() for event in group.posted]
        return [(name, event.reason) for name, event in posted if isinstance(event, RebalanceWanted)]


def planner_of(group: str, policy: str = "range", rules: RackRules | None = None) -> Planner[Any]:
    kind = ConsumerKind(Reader(IN_BOTH_RACKS), Policy(policy))
    return Planner(group, kind) if rules is None else Planner(group, kind, racks=rules)


class Group:
    """A group that is led and at rest."""

    def __init__(self, *members: JoinedMember) -> None:
        play = Play().joining().joined(*members, protocol="range").planned().synced()
        self.membership: MembershipView = play.machine.view
        self.posted: list[Event] = []

    def post(self, event: Event) -> None:
        self.posted.append(event)


def message(*topics: str, generation: int = -1) -> bytes:
    return ConsumerProtocolSubscription(3, topics, None, (), generation, None).encode()


def of_static(instance_id: str | None = "a") -> Group:
    return Group(JoinedMember(ME, None, message()), JoinedMember("a-1", instance_id, message("t")))


def shows(*topics: str) -> DescribeAnswer:
    members = DescribedMember(ME, None, message()), DescribedMember("a-2", "a", message(*topics))
    return DescribeAnswer(0, 0, "Stable", "consumer", "range", members)


def test_a_static_member_with_another_topic_is_noticed_within_seconds_and_once() -> None:
    watched = Watched(DescribingBrokers(shows("t", "u")), {"orders": of_static()})
    watched.turns(60)
    assert watched.wanted == [("orders", "static member a has returned and subscribes to u, too")]
    assert 10 <= len(watched.brokers.asked) <= 12, "requests a minute"


def test_groups_of_dynamic_members_are_not_asked_about() -> None:
    watched = Watched(DescribingBrokers(shows("t", "u")), {"orders": of_static(None)})
    watched.turns(20)
    assert watched.brokers.asked == []


def test_an_error_or_silence_is_no_change() -> None:
    rebalancing = replace(shows("t", "u"), state="PreparingRebalance")
    for answer in (DescribeAnswer(0, 16), rebalancing, TransportError(Failure.TIMED_OUT, "silence")):
        watched = Watched(DescribingBrokers(answer), {"orders": of_static()})
        with capture_logs() as lines:
            watched.turns(20)
        assert watched.wanted == []
        assert watched.brokers.asked
        assert [line["event"] for line in lines] == ["group_not_read"], "once for each reason"


REASON = "by the racks of members that are known now, 0 partitions instead of 2 are read from another rack"


class HostBrokers:
    def __init__(self, *members: DescribedMember) -> None:
        self.members = members
        self.down = False
        self.asked = 0
        self.answered = asyncio.Event()

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self.asked += 1
        self.answered.set()
        if self.down:
            raise TransportError(Failure.DISCONNECTED, f"no answer about {group_id}")
        return DescribeAnswer(0, 0, "Stable", "consumer", "range", self.members)


class Racked(Watched):
    """A group whose plan was made before anything was known of its members."""

    def __init__(self, rules: RackRules = BY_HOST, policy: str = "rack-first") -> None:
        group = Group(replace(RACKED_MEMBERS[0], member_id=ME), *RACKED_MEMBERS[1:])
        self.planner = planner_of("orders", policy, rules)
        super().__init__(HostBrokers(*RACKED_SHOWN), {"orders": group}, {"orders": self.planner})
        asyncio.run(self.planner.plan(decide_racked(group.membership.generation)))
        assert self.planner.delivered(group.membership.generation) is not None

    def state(self, state: State) -> None:
        group = self.groups["orders"]
        group.membership = replace(group.membership, state=state)


def test_new_members_are_described_once_and_their_racks_are_compared_once() -> None:
    watched = Racked()
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (1, [("orders", REASON)])


def test_under_a_policy_that_ignores_racks_no_rebalance_is_wanted() -> None:
    watched = Racked(policy="sticky-min-churn")
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (1, [])


def test_a_changed_file_is_compared_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    path.write_text("10.1.0.0/16 az2\n10.2.0.0/16 az2")
    rules = rack_rules(file=path)
    watched = Racked(rules)
    watched.turns(5)
    assert (watched.brokers.asked, watched.wanted) == (1, []), "all in one rack: no plan is better"
    path.write_text("10.1.0.0/16 az1\n10.2.0.0/16 az2")
    assert rules.file is not None
    for now in (1.0, 1.0 + REST_S):
        rules.file.refresh(now)
    watched.turns(5)
    assert (watched.brokers.asked, watched.wanted) == (1, [("orders", REASON)])


def test_where_client_ids_suffice_brokers_are_not_asked() -> None:
    watched = Racked(BY_CLIENT)
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (0, [])


def test_a_broker_that_does_not_answer_is_asked_again_at_intervals() -> None:
    watched = Racked()
    watched.brokers.down = True
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (30 / AGAIN_S, [])
    watched.brokers.down = False
    watched.turns(1)
    assert watched.wanted == [("orders", REASON)]


def test_members_are_described_while_they_join_so_that_the_plan_knows_their_hosts() -> None:
    watched = Racked()
    watched.state(State.JOINING)
    watched.turns(1)
    assert [watched.planner.racks.of(member).rack for member in RACKED_MEMBERS[1:]] == ["az1", "az2"]
    assert watched.wanted == []


def test_a_rebalance_that_begins_is_not_waited_for() -> None:
    watched = Racked()
    watched.state(State.JOINING)

    async def scenario() -> None:
        watched.watch.look("orders")
        await asyncio.gather(*watched.watches["orders"].tasks)

    asyncio.run(scenario())
    assert [watched.planner.racks.of(member).rack for member in RACKED_MEMBERS[1:]] == ["az1", "az2"]


@pytest.mark.slow
async def test_nothing_waits_for_a_rack_file_whose_file_system_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, answers, asked = tmp_path / "racks", threading.Event(), threading.Event()
    path.write_text("10.1.0.0/16 az1\n10.2.0.0/16 az2")
    file = rack_rules(file=path).file
    assert file is not None

    def hangs(_now: float) -> None:
        asked.set()
        answers.wait()

    monkeypatch.setattr(file, "refresh", hangs)
    watching = asyncio.create_task(watch_rack_file(file))
    try:
        await asyncio.to_thread(asked.wait)
    finally:
        answers.set()
        watching.cancel()


def test_an_error_in_one_group_is_logged_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, watched = planner_of("broken", rules=BY_HOST), Racked()
    group = watched.groups["orders"]
    planners = {"broken": broken, "orders": watched.planner}
    both = Watched(watched.brokers, {"broken": group, "orders": group}, planners)
    monkeypatch.setattr(both.watches["broken"], "turn", lambda _: 1 / 0)
    with capture_logs() as logs:
        both.turns(1)
    assert [(line["event"], line["group"]) for line in logs] == [("group_not_watched", "broken")]
    assert both.wanted[-1:] == [("orders", REASON)]


@pytest.mark.parametrize("state", [State.WATCHING, State.DECIDING, State.SYNCING, State.LEAVING])
def test_in_other_states_nothing_is_asked(state: State) -> None:
    watched = Racked()
    watched.state(state)
    watched.turns(5)
    assert (watched.brokers.asked, watched.wanted) == (0, [])


def test_another_rack_of_a_member_is_noticed_where_something_else_has_described_the_group() -> None:
    watched = Racked()
    watched.turns(1)
    swapped = [
        replace(m, client_host=other.client_host) for m, other in zip(RACKED_SHOWN, reversed(RACKED_SHOWN), strict=True)
    ]
    watched.planner.racks.observe(swapped)
    watched.turns(1)
    assert len(watched.wanted) == 2


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


class CommitBrokers:
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


class Committed(Watched):
    def __init__(self, described: DescribeAnswer = EMPTY, **groups: Watcher) -> None:
        super().__init__(CommitBrokers(described), groups)

    def read(self, readings: Sequence[AnyCommitted | Exception]) -> None:
        """One after the other, at their time."""
        for reading in readings:
            self.brokers.offsets = reading
            self.turns(1, apart_s=COMMITS_S)


def test_offsets_that_rise_again_and_again_are_counted() -> None:
    group = Watcher()
    Committed(orders=group).read([committed(n) for n in range(20)])
    assert group.moves == 19
    role = group.membership.role
    assert role.reason is NotLeading.NO_SUBSCRIBERS
    assert "offsets are committed while no member is there" in role.detail


@pytest.mark.parametrize("protocols", [("range",), ("stream",)])
def test_a_group_is_joined_once_its_offsets_have_rested_for_longer_than_a_mirror_pauses(
    protocols: tuple[str, ...],
) -> None:
    group = Watcher(subscribes=True, protocols=protocols)
    watched = Committed(orders=group)
    while watched.now < 90.0:
        watched.read([committed(7)])
        assert "Join" not in group.described("Empty")
    watched.read([committed(7)])
    assert "Join" in group.described("Empty")


@pytest.mark.slow
def test_a_mirror_that_copies_every_minute_is_never_refused() -> None:
    group = Watcher(subscribes=True)
    watched = Committed(orders=group)
    for n in range(120):
        watched.read([committed(n // 6)])
        assert "Join" not in group.described("Empty")
    assert group.membership.role.reason is NotLeading.NO_SUBSCRIBERS


def test_an_order_to_lead_again_does_not_outweigh_what_was_seen() -> None:
    """Not even where the settings say that all consumers subscribe."""
    group = Watcher(subscribes=True, leave=LEAVE)
    Committed(orders=group).read([committed(n) for n in range(5)])
    assert group.moves == 4
    group.scenario.send(OrdersInForce("", ""))
    assert "Join" not in group.described("Empty")
    quiet = Watcher(subscribes=True, leave=LEAVE)
    Committed(orders=quiet).read([committed(1)] * 10)
    quiet.scenario.send(OrdersInForce("", ""))
    assert "Join" in quiet.described("Empty")


def test_a_reset_of_offsets_is_one_move_and_keeps_nobody_out_for_long() -> None:
    group = Watcher(subscribes=True)
    Committed(orders=group).read([committed(5), committed(5), *[committed(900)] * 31])
    assert group.moves == 1
    assert "Join" in group.described("Empty")


def test_offsets_that_go_back_or_appear_are_no_progress_and_no_rest() -> None:
    group = Watcher()
    readings = [committed(50, -1), committed(40, -1), committed(30, 7), AnyCommitted(False), committed(20, 7)]
    Committed(orders=group).read(readings)
    assert [(read.committed, read.moves, read.rest_s) for read in group.posted] == [
        (True, 0, 0.0), (True, 0, 0.0), (True, 0, 0.0), (False, 0, 0.0), (True, 0, 0.0),
    ]  # fmt: skip


def test_commits_of_a_member_that_has_just_come_do_not_count() -> None:
    group = Watcher()
    members = DescribeAnswer(0, 0, "Stable", "consumer", "range", (seen("a"),))
    Committed(members, orders=group).read([committed(n) for n in range(20)])
    assert group.moves == 0


def test_members_in_between_begin_it_anew() -> None:
    group = Watcher()
    watched = Committed(orders=group)
    watched.read([committed(1), committed(2)])
    group.described("Stable", seen("a"))
    watched.read([committed(3)])
    assert len(watched.brokers.asked) == 2, "members are in the group"


@pytest.mark.parametrize("group", [Watcher("Dead"), Watcher("Stable", seen("a"))], ids=["missing", "members"])
def test_a_group_that_is_missing_or_has_members_is_not_asked_about(group: Watcher) -> None:
    watched = Committed(orders=group)
    watched.read([committed(n) for n in range(5)])
    assert watched.brokers.asked == []


def test_an_error_or_silence_is_no_move() -> None:
    group = Watcher()
    silence = TransportError(Failure.TIMED_OUT, "silence")
    Committed(orders=group).read([committed(1), silence, AnyCommitted(False, 16), committed(1), silence, committed(1)])
    assert [read.rest_s for read in group.posted] == [0.0, 30.0, 50.0]
    assert group.moves == 0


async def test_each_group_is_read_at_intervals_and_few_at_once() -> None:
    groups = 3 * COMMITS_AT_ONCE
    watched = Committed(**{f"g{n}": Watcher() for n in range(groups)})
    await watched.turn_s(1)
    assert len(watched.brokers.asked) == COMMITS_AT_ONCE
    await watched.turn_s(29)
    assert len(watched.brokers.asked) == 3 * groups
    assert {watched.brokers.asked.count(group) for group in watched.groups} == {3}
