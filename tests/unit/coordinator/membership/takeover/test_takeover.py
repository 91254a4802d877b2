"""Scenarios of a take-over from the answer that names the old leader to its end."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NoteKind, State
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    COOPERATIVE,
    GOOD,
    GROUP,
    LEADER,
    OTHER,
    answered,
    client,
    dry_run_done,
    dynamic_until_named,
    evicted,
    parked,
    stable,
    with_bellwether,
)


def test_the_leader_is_removed_once_and_bellwether_comes_back_when_it_has() -> None:
    play = dynamic_until_named()
    assert play.sent(membership.Evict).member_ids == (LEADER,)
    assert evicted(play).kinds() == ["Describe"]
    without = (client(GOOD, "bw"), *GROUP[1:])
    play.described("PreparingRebalance", *without)
    assert play.kinds() == [], "the round stays open"
    play.wake().described("PreparingRebalance", *without, client("m-new", "leader"))
    assert play.sent(membership.Join).member_id == GOOD
    answered(play, GOOD, generation=6)
    assert play.state is State.DECIDING
    decide = play.sent(membership.Decide)
    assert (decide.generation, decide.removed) == (6, (LEADER,))
    assert [kind for kind, _ in play.notes()] == [NoteKind.ADOPTED]


def test_it_does_not_wait_for_ever_for_the_leader() -> None:
    play = evicted(dynamic_until_named(roll_ms_max=250, hold_ms_max=250))
    for _ in range(60):
        play.described("PreparingRebalance", *GROUP[1:])
        if "Join" in play.kinds():
            break
        play.wake()
    assert play.sent(membership.Join).member_id == GOOD


def test_it_gives_up_when_it_cannot_see_who_is_there() -> None:
    play = evicted(dynamic_until_named())
    play.described("", error=16)
    assert play.kinds() == ["Leave"]
    assert play.left().state is State.WATCHING


def test_another_leader_again_is_left_at_once() -> None:
    play = evicted(dynamic_until_named())
    play.described("PreparingRebalance", *GROUP[1:], client("m-new", "leader"))
    answered(play, OTHER, generation=6)
    assert play.kinds() == ["Leave"]
    assert play.sent(membership.Leave).member_id == GOOD
    assert play.left().state is State.WATCHING


def test_answers_about_the_blocker_may_come_at_any_time() -> None:
    play = parked()
    own = play.requests[membership.Join]
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    came = play.requests[membership.Join]
    opened, released = (command.request_id for command in play.last if isinstance(command, membership.Evict))
    play.send(membership.JoinAnswer(own, 0, generation=5, protocol=COOPERATIVE, leader=LEADER, member_id=GOOD))
    play.send(membership.JoinAnswer(came, 0, generation=5, protocol="range", leader=LEADER, member_id="opener"))
    assert play.kinds() == []
    assert play.wake().sent(membership.Evict).member_ids == (LEADER,)
    leader = play.requests[membership.Evict]
    assert play.send(membership.LeaveAnswer(opened, 0)).kinds() == []
    assert play.send(membership.LeaveAnswer(released, 0)).kinds() == []
    assert play.send(membership.LeaveAnswer(leader, 0)).kinds() == ["Describe"]


def test_who_leads_already_when_the_rebalance_ends_goes_on_from_there() -> None:
    play = parked()
    own = play.requests[membership.Join]
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    came, play.requests[membership.Join] = play.requests[membership.Join], own
    assert answered(play, GOOD).state is State.DECIDING
    play.send(membership.JoinAnswer(came, 0, generation=5, protocol="range", leader=GOOD, member_id="opener"))
    assert play.machine.view.member_id == GOOD, "the opener is not us, and leaves by itself"
    assert play.state is State.DECIDING


@pytest.mark.parametrize("scenario", ["stopped", "unreachable"])
def test_whatever_ends_it_leaves_nothing_behind(scenario: str) -> None:
    play = parked()
    if scenario == "stopped":
        play.send(membership.StopRequested())
    else:
        play.failed(membership.Join)
    assert "Evict" in play.kinds()
    assert play.sent(membership.Evict).member_ids == ("blocker", "opener")
    assert play.sent(membership.Leave).instance_id == "bellwether"
    assert play.left().state is (State.STOPPED if scenario == "stopped" else State.WATCHING)


def test_an_order_to_leave_ends_the_attempt_and_leaves_nothing_behind() -> None:
    play = parked().send(membership.OrdersInForce("an operator says so", ""))
    assert play.sent(membership.Evict).member_ids == ("blocker", "opener")
    assert play.sent(membership.Leave).instance_id == "bellwether"
    assert play.left().state is State.WATCHING
    assert play.send(membership.OrdersInForce("", "")).kinds() == ["Describe"]
    stable(play)
    assert play.wake().kinds() == ["Describe"], "it goes on watching"


def test_a_description_that_comes_after_the_lead_says_nothing() -> None:
    play = parked()
    own = play.requests[membership.Join]
    play.wake()
    play.requests[membership.Join] = own
    assert answered(play, GOOD).state is State.DECIDING
    play.described("CompletingRebalance", *with_bellwether(GOOD))
    assert (play.state, play.kinds()) == (State.DECIDING, [])


def test_a_request_that_nobody_waits_for_any_more_may_fail_during_a_takeover() -> None:
    play = dry_run_done()
    play.send(membership.RequestFailed(9_999, membership.Failure.DISCONNECTED, "an old one"))
    assert play.state is State.APPROACHING


def test_a_leave_of_the_leader_that_is_refused_ends_the_attempt() -> None:
    play = dynamic_until_named()
    assert play.sent(membership.Evict).member_ids == (LEADER,)
    evicted(play, 29)
    assert play.state is not State.APPROACHING
    assert any("LEAVE of" in reason for _, reason in play.notes())
