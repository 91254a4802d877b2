"""A leader learns where its members are between rebalances, and asks for one only where that is worth it."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Failure, MembershipView, State
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner, RackRules
from bellwether_kafka.coordinator.runtime import rack_watch
from bellwether_kafka.coordinator.runtime.rack_watch import RackWatch
from tests.kit.membership import ME, Play
from tests.kit.plans import (
    BY_CLIENT,
    BY_HOST,
    IN_BOTH_RACKS,
    OWN,
    RACKED_MEMBERS,
    RACKED_SHOWN,
    Reader,
    decide_racked,
    rack_rules,
)

REST_S = 1.0
AGAIN_S = 10.0
TICK_S = 1.0

REASON = "by the racks of members that are known now, 0 partitions instead of 2 are read from another rack"


class Group:
    def __init__(self) -> None:
        own = replace(RACKED_MEMBERS[0], member_id=ME)
        play = Play().joining().joined(own, *RACKED_MEMBERS[1:], protocol="range").planned().synced()
        self.membership: MembershipView = play.machine.view


class Brokers:
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


class Watched:
    """A group whose plan was made before anything was known of its members."""

    def __init__(self, rules: RackRules = BY_HOST, policy: str = "rack-first") -> None:
        self.group, self.brokers, self.now = Group(), Brokers(*RACKED_SHOWN), 0.0
        self.wanted: list[tuple[str, str]] = []
        self.planner = Planner("orders", ConsumerKind(Reader(IN_BOTH_RACKS), Policy(policy)), racks=rules)
        asyncio.run(self.planner.plan(decide_racked(self.group.membership.generation)))
        assert self.planner.delivered(self.group.membership.generation) is not None
        self.watch = RackWatch(
            rules,
            {"orders": self.group},
            {"orders": self.planner},
            self.brokers,
            lambda *each: self.wanted.append(each),
            clock=lambda: self.now,
        )

    def turns(self, number: int) -> None:
        for _ in range(number):
            asyncio.run(self.watch.turn())
            self.now += 1.0

    def state(self, state: State) -> None:
        self.group.membership = replace(self.group.membership, state=state)


def test_new_members_are_described_once_and_their_racks_are_compared_once() -> None:
    watched = Watched()
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (1, [("orders", REASON)])


def test_under_a_policy_that_ignores_racks_no_rebalance_is_wanted() -> None:
    watched = Watched(policy="sticky-min-churn")
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (1, [])


def test_a_changed_file_is_compared_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    path.write_text("10.1.0.0/16 az2\n10.2.0.0/16 az2")
    rules = rack_rules(file=path)
    watched = Watched(rules)
    watched.turns(5)
    assert (watched.brokers.asked, watched.wanted) == (1, []), "all in one rack: no plan is better"
    path.write_text("10.1.0.0/16 az1\n10.2.0.0/16 az2")
    assert rules.file is not None
    for now in (1.0, 1.0 + REST_S):
        rules.file.refresh(now)
    watched.turns(5)
    assert (watched.brokers.asked, watched.wanted) == (1, [("orders", REASON)])


def test_where_client_ids_suffice_brokers_are_not_asked() -> None:
    watched = Watched(BY_CLIENT)
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (0, [])


def test_a_broker_that_does_not_answer_is_asked_again_at_intervals() -> None:
    watched = Watched()
    watched.brokers.down = True
    watched.turns(30)
    assert (watched.brokers.asked, watched.wanted) == (30 / AGAIN_S, [])
    watched.brokers.down = False
    watched.turns(1)
    assert watched.wanted == [("orders", REASON)]


def test_members_are_described_while_they_join_so_that_the_plan_knows_their_hosts() -> None:
    watched = Watched()
    watched.state(State.JOINING)
    watched.turns(1)
    assert [watched.planner.racks.of(member).rack for member in RACKED_MEMBERS[1:]] == ["az1", "az2"]
    assert watched.wanted == []


def test_a_rebalance_that_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rack_watch, "TICK_S", 60.0)

    async def scenario(watched: Watched) -> None:
        running = asyncio.create_task(watched.watch.run())
        watched.watch.poll_now()
        async with asyncio.timeout(10.0):
            await watched.brokers.answered.wait()
        running.cancel()

    watched = Watched()
    watched.state(State.JOINING)
    asyncio.run(scenario(watched))
    assert [watched.planner.racks.of(member).rack for member in RACKED_MEMBERS[1:]] == ["az1", "az2"]


def test_groups_do_not_wait_for_a_rack_file_whose_file_system_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, answers = tmp_path / "racks", threading.Event()
    path.write_text("10.1.0.0/16 az1\n10.2.0.0/16 az2")
    rules = rack_rules(file=path)
    monkeypatch.setattr(rules.file, "refresh", lambda _now: answers.wait())

    async def scenario(watched: Watched) -> None:
        running = asyncio.create_task(watched.watch.run())
        watched.watch.poll_now()
        try:
            async with asyncio.timeout(10 * TICK_S):
                await watched.brokers.answered.wait()
        finally:
            answers.set()
            running.cancel()

    watched = Watched(rules)
    watched.state(State.JOINING)
    asyncio.run(scenario(watched))
    assert [watched.planner.racks.of(member).rack for member in RACKED_MEMBERS[1:]] == ["az1", "az2"]


def test_an_error_in_one_group_is_logged_and_stops_no_other() -> None:
    watched = Watched()
    watched.watch._led = {"broken": watched.group, "orders": watched.group}  # the first has no planner
    with capture_logs() as logs:
        watched.turns(1)
    assert [(line["event"], line["group"]) for line in logs] == [("racks_not_watched", "broken")]
    assert watched.wanted == [("orders", REASON)]


@pytest.mark.parametrize("state", [State.WATCHING, State.DECIDING, State.SYNCING, State.LEAVING])
def test_in_other_states_nothing_is_asked(state: State) -> None:
    watched = Watched()
    watched.state(state)
    watched.turns(5)
    assert (watched.brokers.asked, watched.wanted) == (0, [])


def test_another_rack_of_a_member_is_noticed_where_something_else_has_described_the_group() -> None:
    watched = Watched()
    watched.turns(1)
    swapped = [
        replace(m, client_host=other.client_host) for m, other in zip(RACKED_SHOWN, reversed(RACKED_SHOWN), strict=True)
    ]
    watched.planner.racks.observe(swapped)
    watched.turns(1)
    assert len(watched.wanted) == 2
    assert OWN not in {m.member_id for m in swapped}
