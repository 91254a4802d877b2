"""Scenarios of a leader that is alone or stopped: coalescing, lingering, leaving."""

import pytest

from bellwether_kafka.coordinator.membership import (
    DecisionReady,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    Note,
    State,
    StopRequested,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.membership import ME, Play, member, seen

REBALANCE_IN_PROGRESS = 27


def subscription(join: Join) -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription.decode(join.protocols[0][1])


# ---- alone -----------------------------------------------------------------------------------------------------------


def cold_start(growth: list[int | None]) -> float:
    """How long a lone leader holds a rebalance open while members arrive."""
    play = Play(coalesce_ms=1_000, coalesce_ms_max=4_000, linger_ms=None, heartbeat_interval_ms=400).joining()
    play.later(3.0).joined(member(ME)).synced()  # so long the broker waits
    play.wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.state is State.COALESCING
    return play.until_join(growth)


def test_a_cold_start_is_held_open_until_nobody_comes_any_more() -> None:
    assert cold_start([2]) == pytest.approx(0.6), "a member may have come since our last heartbeat"
    assert cold_start([2, 10, 50, 50]) == pytest.approx(1.5)


def test_a_cold_start_is_never_held_open_longer_than_its_bound() -> None:
    assert cold_start(list(range(2, 200))) == pytest.approx(4.0)


def test_without_coalescing_it_comes_back_at_once() -> None:
    play = Play(coalesce_ms=0).stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.kinds() == ["Join"]


def test_where_nobody_can_be_counted_it_comes_back() -> None:
    play = Play().stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.described(error=-1).kinds() == ["Join"]


def test_where_groups_cannot_be_described_it_holds_on_for_the_quiet_time() -> None:
    assert cold_start([None]) == pytest.approx(0.6)


def test_alone_for_too_long_it_leaves_and_waits_until_a_member_has_been_there() -> None:
    play = Play(adopt="when-empty", linger_ms=60_000).stable_alone()
    out = play.run(60.1)
    assert len([command for command in out if isinstance(command, Leave)]) == 1
    play.left()
    for state, members, expected in [
        ("Empty", [], []),
        ("Stable", [seen("a")], []),
        ("Empty", [], ["Join"]),
    ]:
        play.wake()
        assert play.described(state, *members).kinds() == expected


@pytest.mark.slow
def test_it_stays_for_ever_where_lingering_is_off() -> None:
    """By default: an application that comes after hours is led from its first rebalance."""
    play = Play(coalesce_ms=0).stable_alone()
    assert not [command for command in play.run(7_200) if isinstance(command, Leave)]
    play.wake().heartbeat(REBALANCE_IN_PROGRESS).joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert play.machine.view.role.leading


def test_company_ends_the_lingering() -> None:
    play = Play(linger_ms=60_000, coalesce_ms=0).stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert not [command for command in play.run(300) if isinstance(command, Leave)]


def test_left_alone_it_lists_the_applications_topics_and_stops_when_a_member_comes() -> None:
    play = Play(topics=("control",), coalesce_ms=0).deciding().planned(topics=("orders", "clicks")).synced()
    assert subscription(play.wake().heartbeat(REBALANCE_IN_PROGRESS).sent(Join)).topics == ("control",)
    play.joined(member(ME), generation=2).synced()
    assert subscription(play.sent(Join)).topics == ("clicks", "orders")
    play.joined(member(ME), generation=3)
    assert play.synced().kinds() == ["PlanDelivered"], "once is enough"
    assert subscription(play.wake().heartbeat(REBALANCE_IN_PROGRESS).sent(Join)).topics == ("control",)


# ---- stopping --------------------------------------------------------------------------------------------------------


def test_stopping_while_watching_is_silent() -> None:
    assert Play().coordinator_found().send(StopRequested()).kinds() == ["MembershipStopped"]


def test_stopping_in_stable_leaves_where_it_is_asked_to() -> None:
    play = Play(instance_id="bw", leave_on_stop=True).stable().send(StopRequested())
    assert play.kinds() == ["Leave"]
    assert play.left().kinds() == ["MembershipStopped"]
    assert play.send(DecisionReady(1, ())).kinds() == [], "nothing happens any more"
    assert play.machine.deadline() is None


def test_a_static_leader_stops_silently() -> None:
    """Its membership waits for the next process, and no member notices a restart."""
    assert Play(instance_id="bw").stable().send(StopRequested()).kinds() == ["MembershipStopped"]


def test_a_dynamic_leader_never_stops_silently() -> None:
    assert Play(leave_on_stop=False).stable().send(StopRequested()).kinds() == ["Leave"]


def test_stopping_without_a_plan_leaves() -> None:
    assert Play(instance_id="bw", leave_on_stop=False).deciding().send(StopRequested()).kinds() == ["Leave"]


def test_stopping_while_the_sync_is_under_way_waits_for_it() -> None:
    play = Play().deciding().planned().send(StopRequested())
    assert play.kinds() == []
    assert play.synced().kinds() == ["PlanDelivered", "Leave"]


def test_stopping_ends_where_the_answer_to_the_sync_never_comes() -> None:
    """It was still SYNCING a minute after it was stopped."""
    play = Play().deciding().planned().send(StopRequested())
    out = play.run(8, heartbeats=None)
    assert [type(command).__name__ for command in out if not isinstance(command, (Heartbeat, Note))] == [
        "Abandon",
        "Leave",
        "MembershipStopped",
    ]


def test_stopping_while_the_sync_fails_leaves() -> None:
    assert Play().deciding().planned().send(StopRequested()).synced(REBALANCE_IN_PROGRESS).kinds() == ["Leave"]


def test_stopping_while_a_rebalance_is_held_open_leaves() -> None:
    play = Play().stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS).send(StopRequested())
    assert play.kinds() == ["Leave"]


def test_stopping_while_the_first_join_is_parked() -> None:
    assert Play().joining().send(StopRequested()).kinds() == ["Abandon", "MembershipStopped"]
    play = Play(instance_id="bw").joining().send(StopRequested())
    assert play.kinds() == ["Abandon", "Leave"]
    assert (play.sent(Leave).member_id, play.sent(Leave).instance_id) == ("", "bw")
    taken = Play(instance_id="bw").coordinator_found().described("Stable", seen("bw-0", "bw"), protocol="range")
    assert taken.send(StopRequested()).kinds() == ["Abandon", "MembershipStopped"], "that slot may be another process's"


def test_stopping_twice_is_stopping_once() -> None:
    play = Play().stable().send(StopRequested()).send(StopRequested())
    assert play.kinds() == []
    assert play.left().kinds() == ["MembershipStopped"]


def test_nothing_is_due_for_ever_in_any_state() -> None:
    """A machine that waits for no answer always has a deadline: it cannot fall asleep."""
    for play in (
        Play().deciding(),
        Play().stable(),
        Play().stable_alone(),
        Play().coordinator_found().described("Stable", seen("a")),
    ):
        assert play.machine.deadline() is not None
    assert [type(command) for command in Play().last] == [FindCoordinator]
