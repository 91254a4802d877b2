"""The membership under operators' orders, and as one of several instances with one instance id."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import State
from tests.kit.membership import ME, Play, member, seen

LEAVE = membership.OrdersInForce("eve has ordered leave", "")
PAUSE = membership.OrdersInForce("", "eve has ordered pause")
NOTHING = membership.OrdersInForce("", "")
TURN = membership.ActiveRoleChanged(active=True, reason="the heartbeat of a has stopped")
NOT_ACTIVE = membership.ActiveRoleChanged(active=False, reason="b leads it")
FENCED = 82


def standby(**settings: object) -> Play:
    return Play(instance_id="bellwether", standby=True, **settings)


def test_an_order_to_leave_is_carried_out_and_remembered() -> None:
    play = Play(instance_id="bellwether").stable().send(LEAVE)
    assert play.sent(membership.Leave).reason == "eve has ordered leave"
    play.left()
    assert play.state is State.WATCHING
    play.run(60)
    play.described("Empty")
    assert play.state is State.WATCHING, "the group is empty, and we stay out"
    play.send(NOTHING)
    play.described("Empty")
    assert play.state is State.JOINING


def test_the_same_order_twice_is_one_order() -> None:
    play = Play(instance_id="bellwether").stable().send(LEAVE)
    play.send(LEAVE)
    assert play.kinds() == []


@pytest.mark.parametrize("state", [State.JOINING, State.DECIDING, State.SYNCING])
def test_an_order_to_leave_is_carried_out_at_any_moment(state: State) -> None:
    play = Play(instance_id="bellwether").joining()
    if state is not State.JOINING:
        play.joined(member(ME), member("a"))
    if state is State.SYNCING:
        play.planned()
    assert play.state is state
    play.send(LEAVE)
    assert play.sent(membership.Leave)
    play.left()
    assert play.state is State.WATCHING


def test_while_paused_bellwether_begins_no_rebalance_and_afterwards_the_one_that_was_wanted() -> None:
    play = Play(instance_id="bellwether").stable().send(PAUSE)
    play.send(membership.RebalanceWanted("a topic has grown", "topics"))
    play.run(120)
    assert play.state is State.STABLE
    play.send(NOTHING)
    assert play.sent(membership.Join).reason == "a topic has grown"


def test_a_rebalance_that_was_due_soon_is_paused_too() -> None:
    play = Play(instance_id="bellwether").stable().send(membership.RebalanceWanted("first", "first"))
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    play.send(membership.RebalanceWanted("second", "second"))
    assert play.state is State.STABLE, "never in quick repetition"
    play.send(PAUSE)
    play.run(60)
    assert play.state is State.STABLE


def test_while_paused_rebalances_of_members_are_answered_and_orders_carried_out() -> None:
    play = Play(instance_id="bellwether").stable().send(PAUSE)
    play.send(membership.RebalanceOrdered("eve has ordered rebalance"))
    assert play.sent(membership.Join).reason == "eve has ordered rebalance"
    play.joined(member(ME), member("a"), generation=2)
    assert play.state is State.DECIDING


def test_a_standby_watches_until_it_is_its_turn() -> None:
    play = standby().coordinator_found().described("Stable", seen("x", "bellwether"), seen("a"))
    assert play.state is State.WATCHING
    play.run(60)
    play.described("Empty")
    assert play.state is State.WATCHING, "even an empty group is for the active sidecar"
    play.send(TURN)
    play.described("Stable", seen("x", "bellwether"), seen("a"), protocol="range")
    assert play.sent(membership.Join).instance_id == "bellwether"


def test_a_fenced_instance_of_a_set_becomes_an_observer() -> None:
    play = standby().coordinator_found().described("Empty").send(TURN)
    play.described("Empty").joined(member(ME), member("a")).planned().synced()
    assert play.state is State.STABLE
    play.send(NOT_ACTIVE)
    assert play.state is State.STABLE, "it leads until somebody else does"
    play.run(1, heartbeats=FENCED)
    assert play.state is State.WATCHING
    assert not any(isinstance(command, (membership.Fatal, membership.Leave)) for command in play.seen)
    assert not play.machine.view.has_active_role


def test_who_is_fenced_by_nobody_it_knows_waits_ever_longer_before_it_comes_back() -> None:
    play = standby(readopt_ms=5_000).coordinator_found().described("Empty").send(TURN).described("Empty")
    waits = []
    for generation in range(1, 4):
        play.joined(member(ME), member("a"), generation=generation).planned(generation).synced()
        play.run(1, heartbeats=FENCED)
        assert play.state is State.WATCHING
        fenced_at = play.now
        play.send(TURN)  # nobody else says that it leads
        while play.state is State.WATCHING:
            if any(isinstance(command, membership.Describe) for command in play.last):
                play.described("Stable", seen("x", "bellwether"), seen("a"), protocol="range")
            else:
                play.wake()
        waits.append(round(play.now - fenced_at))
    assert waits[0] > 3
    assert waits[1] == pytest.approx(2 * waits[0], abs=1)
    assert waits[2] == pytest.approx(4 * waits[0], abs=2)


def test_a_fenced_instance_that_stops_ends_well() -> None:
    play = standby().coordinator_found().described("Empty").send(TURN)
    play.described("Empty").joined(member(ME), member("a")).planned().synced()
    play.send(NOT_ACTIVE).run(1, heartbeats=FENCED)
    play.send(membership.StopRequested())
    assert play.kinds() == ["MembershipStopped"]


def test_without_a_set_a_fenced_instance_ends_with_its_own_code() -> None:
    play = Play(instance_id="bellwether").stable()
    play.run(1, heartbeats=FENCED)
    (fatal,) = [command for command in play.seen if isinstance(command, membership.Fatal)]
    assert fatal.exit_code == 3
    assert play.state is State.STOPPED


def test_a_standby_without_an_instance_id_is_refused() -> None:
    from bellwether_kafka.coordinator.membership import MembershipConfig, check_timing

    assert "standby needs an instance_id" in (check_timing(MembershipConfig("orders", standby=True)) or "")


def test_a_rebalance_ordered_while_a_plan_is_made_follows_that_plan() -> None:
    play = Play().deciding().send(membership.RebalanceOrdered("an operator wants it"))
    assert play.kinds() == []
    play.planned().synced()
    joins = [x for x in (*play.last, *play.run(30)) if isinstance(x, membership.Join)]
    assert joins, "the round that was ordered never began"


def test_a_rebalance_ordered_by_nobodys_leader_is_no_rebalance() -> None:
    play = Play().coordinator_found()
    before = play.state
    play.send(membership.RebalanceOrdered("an operator wants it"))
    assert (play.state, play.kinds()) == (before, [])


def test_the_same_turn_reported_twice_changes_nothing() -> None:
    play = Play().stable().send(membership.ActiveRoleChanged(active=True, reason=""))
    assert (play.state, play.kinds()) == (State.STABLE, [])


def test_a_turn_that_comes_while_bellwether_leads_already_starts_nothing() -> None:
    play = Play().stable().send(membership.ActiveRoleChanged(active=False, reason="another leads"))
    play.send(membership.ActiveRoleChanged(active=True, reason=""))
    assert "FindCoordinator" not in play.kinds()


def test_kept_out_before_it_is_a_member_it_waits_without_a_leave_group() -> None:
    play = Play().joining()
    assert play.state is State.JOINING
    play.send(membership.OrdersInForce("an operator says so", ""))
    assert play.state is State.WATCHING
    assert "Leave" not in play.kinds()
    play.send(membership.OrdersInForce("", ""))
    assert play.kinds() == ["Describe"], "let in again, it looks for its group"


def test_kept_out_while_it_leaves_it_leaves_once() -> None:
    play = Play().stable().send(membership.OrdersInForce("an operator says so", ""))
    assert play.state is State.LEAVING
    play.send(membership.OrdersInForce("an operator says it again", ""))
    assert "Leave" not in play.kinds()


def test_let_in_while_it_still_leaves_it_comes_back_afterwards() -> None:
    play = (
        Play().stable().send(membership.OrdersInForce("an operator says so", "")).send(membership.OrdersInForce("", ""))
    )
    assert (play.state, play.kinds()) == (State.LEAVING, [])
    assert play.left().state is State.WATCHING


def test_let_in_while_it_leads_it_leads_on() -> None:
    play = Play().stable().send(membership.OrdersInForce("", "pause"))
    assert play.send(membership.OrdersInForce("", "")).state is State.STABLE
    assert play.kinds() == []
