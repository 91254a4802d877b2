"""Scenarios of a leader at work: deadlines, objections, rebalances and second rebalances."""

import pytest

from bellwether_kafka.coordinator.membership import (
    Abandon,
    Decide,
    DecisionFailed,
    Heartbeat,
    Join,
    Leave,
    NoteKind,
    RebalanceWanted,
    State,
    Wake,
)
from tests.kit.membership import ME, Play, member

UNKNOWN_MEMBER_ID = 25
ILLEGAL_GENERATION = 22
REBALANCE_IN_PROGRESS = 27


def test_the_members_beside_it_are_counted_without_itself() -> None:
    play = Play().deciding(1, "a", "b").planned().synced()
    assert (NoteKind.LEADING, "2 members beside Bellwether") in play.notes()


# ---- deadlines and objections ----------------------------------------------------------------------------------------


def test_no_plan_in_time_means_leaving() -> None:
    play = Play().deciding()
    out = play.run(3.0)
    assert [type(command).__name__ for command in out if isinstance(command, Leave)] == ["Leave"]
    assert (NoteKind.REFUSED, "no plan before the decision deadline") in play.notes()
    assert play.planned().kinds() == [], "too late"


def test_a_refused_plan_means_leaving_with_its_reason() -> None:
    play = Play().deciding().send(DecisionFailed(1, "the guard said no"))
    assert play.kinds() == ["Leave"]
    assert (NoteKind.REFUSED, "the guard said no") in play.notes()


def test_a_plan_or_refusal_for_an_old_generation_counts_for_nothing() -> None:
    play = Play().deciding(5)
    assert play.planned(4).kinds() == []
    assert play.send(DecisionFailed(4, "old")).kinds() == []
    assert play.state is State.DECIDING


def test_a_plan_that_comes_after_the_session_is_not_sent() -> None:
    play = Play().deciding().later(10.1)
    assert play.planned().kinds() == ["Join"], "no Sync"


def test_waking_after_the_session_it_comes_back_before_it_plans() -> None:
    play = Play().deciding().later(11)
    assert play.send(Wake()).sent(Join).member_id == ME
    assert play.state is State.JOINING


def test_waking_after_the_session_in_stable_it_asks_before_it_disturbs_anybody() -> None:
    play = Play().stable().later(11)
    assert play.send(Wake()).kinds() == ["Heartbeat"]
    assert play.heartbeat().state is State.STABLE
    assert play.later(11).wake().heartbeat(UNKNOWN_MEMBER_ID).state is State.WATCHING


@pytest.mark.parametrize("error", [REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION])
def test_a_heartbeat_of_the_last_generation_says_nothing_about_this_one(error: int) -> None:
    """Seen on a busy machine: answered late, on its own connection, it made Bellwether start another rebalance while
    deciding."""
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.wake().kinds() == ["Heartbeat"]
    play.joined(member(ME), member("a"), generation=2)
    assert play.heartbeat(error).kinds() == []
    assert play.state is State.DECIDING


def test_a_short_pause_is_none() -> None:
    play = Play().stable().later(9)
    assert "Join" not in play.send(Wake()).kinds()


# ---- rebalances ------------------------------------------------------------------------------------------------------


def test_in_a_running_group_it_comes_back_at_once() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    join = play.sent(Join)
    assert join.member_id == ME
    assert play.joined(member(ME), member("a"), member("b"), generation=2).kinds() == ["Decide"]


def test_in_a_running_group_it_can_wait_a_moment() -> None:
    play = Play(coalesce_running_ms=200).stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert (play.kinds(), play.state) == ([], State.COALESCING)
    began = play.now
    assert play.wake().kinds() == ["Join"]
    assert play.now == pytest.approx(began + 0.2)


def test_a_rebalance_while_it_decides_invalidates_the_plan() -> None:
    play = Play().deciding().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.kinds() == ["Join"]
    assert play.planned(1).kinds() == []
    assert "Leave" not in [type(command).__name__ for command in play.run(5)], "no deadline is left over"


def test_a_rebalance_while_it_syncs_is_reported_by_the_sync() -> None:
    play = Play().deciding().wake().planned().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.kinds() == []
    assert play.synced(REBALANCE_IN_PROGRESS).kinds() == ["Join"]


def test_a_join_that_the_broker_may_never_have_seen_is_sent_again_on_a_new_connection() -> None:
    """Packets of one connection vanished, heartbeats on the other went on: the group waited for Bellwether for its
    largest rebalance timeout (seed 128 of the simulation)."""
    play = Play(session_timeout_ms=10_000).stable().wake()
    play.heartbeat(27)
    early = play.run(7.0, heartbeats=27)
    assert not any(isinstance(command, Join | Abandon) for command in early)
    late = [command for command in play.run(2.0, heartbeats=27) if not isinstance(command, Heartbeat)]
    assert [type(command) for command in late] == [Abandon, Join]
    assert play.joined(member("a"), member(ME), generation=2).machine.view.state is State.DECIDING


def test_a_join_whose_answer_was_lost_is_sent_again() -> None:
    """The rebalance had ended without Bellwether, heartbeats were answered with ILLEGAL_GENERATION, and Bellwether
    waited for an answer that had been lost (seed 39 of the simulation)."""
    play = Play(session_timeout_ms=10_000).stable().wake()
    play.heartbeat(27)
    play.run(7.0, heartbeats=27)
    late = [command for command in play.run(2.0, heartbeats=22) if not isinstance(command, Heartbeat)]
    assert [type(command) for command in late] == [Abandon, Join]


def test_a_rebalance_that_a_living_member_holds_up_is_an_alert() -> None:
    """A thread waited for a changelog and did not join for 238 s; nothing said so, because watches act at rest."""
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.run(50.0, heartbeats=REBALANCE_IN_PROGRESS)
    assert not [reason for kind, reason in play.notes() if kind is NoteKind.ALERT]
    play.run(200.0, heartbeats=REBALANCE_IN_PROGRESS)
    alerts = [reason for kind, reason in play.notes() if kind is NoteKind.ALERT]
    assert len(alerts) == 1
    assert "a member that is alive has not joined" in alerts[0]
    play.joined(member(ME), member("a"), generation=2).planned(2).synced().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.run(70.0, heartbeats=REBALANCE_IN_PROGRESS)
    assert len([reason for kind, reason in play.notes() if kind is NoteKind.ALERT]) == 2


def test_a_first_join_is_left_where_it_is_parked() -> None:
    play = Play().joining()
    assert not any(isinstance(command, Join) for command in play.run(60.0))


def test_heartbeats_go_on_while_the_join_is_parked() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.wake().kinds() == ["Heartbeat"]
    assert play.heartbeat(REBALANCE_IN_PROGRESS).kinds() == []
    assert play.wake().kinds() == ["Heartbeat"]


def test_wanted_rebalances_begin_in_stable_and_rarely() -> None:
    play = Play(rebalance_interval_ms_min=10_000).stable()
    assert play.send(RebalanceWanted("a topic grew", "topics")).sent(Join).reason == "a topic grew"
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert play.send(RebalanceWanted("another grew", "topics")).kinds() == [], "too soon"
    out = play.run(10.1)
    assert [command.reason for command in out if isinstance(command, Join)] == ["another grew"]


def test_a_wanted_rebalance_while_a_plan_is_on_its_way_waits_for_stable() -> None:
    play = Play().deciding().send(RebalanceWanted("a topic grew", "topics"))
    assert play.kinds() == []
    play.planned()
    assert "Join" in play.synced().kinds()


def test_a_wanted_rebalance_before_the_plan_is_served_by_it() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS).send(RebalanceWanted("a topic grew", "topics"))
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert play.kinds() == ["PlanDelivered"]


def test_the_plan_of_a_rebalance_that_was_requested_knows_the_reason() -> None:
    play = Play().stable().send(RebalanceWanted("a topic grew", "topics"))
    play.joined(member(ME), member("a"), generation=2)
    assert play.sent(Decide).wanted == "a topic grew"
    play.planned(2).synced().wake().heartbeat(REBALANCE_IN_PROGRESS).joined(member(ME), member("a"), generation=3)
    assert play.sent(Decide).wanted == "", "a member began this one"


def test_a_wanted_rebalance_while_watching_or_alone_is_nobodys() -> None:
    assert Play().coordinator_found().send(RebalanceWanted("x", "x")).kinds() == []
    assert Play().stable_alone().send(RebalanceWanted("x", "x")).kinds() == []


def test_rebalances_that_others_start_do_not_put_off_what_bellwether_wants() -> None:
    """A member joins, then the warm-ups made for it have caught up: nothing was repeated, so nothing has to wait."""
    play = Play(rebalance_interval_ms_min=10_000).stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.joined(member(ME), member("a"), member("b"), generation=2).planned(2).synced()
    assert play.send(RebalanceWanted("probe", "probe")).kinds() == ["Join"]
    play.joined(member(ME), member("a"), member("b"), generation=3).planned(3).synced()
    assert play.send(RebalanceWanted("probe", "probe")).kinds() == []


def test_pending_partitions_force_a_second_rebalance_later_each_time() -> None:
    play = Play(followup_ms=3_000, followup_ms_max=10_000).deciding()
    waits = []
    for generation in range(1, 5):
        play.planned(generation, pending=True).synced()
        began = play.now
        while not [command for command in play.wake().last if isinstance(command, Join)]:
            play.heartbeat()
        waits.append(play.now - began)
        play.joined(member(ME), member("a"), generation=generation + 1)
        play.heartbeat()
    assert waits == pytest.approx([3, 6, 10, 10])
    play.planned(5).synced()
    assert [command for command in play.run(60) if isinstance(command, Join)] == []


def test_the_second_rebalance_is_not_noticed_a_heartbeat_late() -> None:
    """Members rejoin as soon as they have let go; what is pending has no owner until the leader has come too."""
    play = Play(heartbeat_interval_ms=1_000, followup_ms=3_000).deciding().planned(pending=True).synced()
    began = play.now
    while not [command for command in play.last if isinstance(command, Join)]:
        play.heartbeat(REBALANCE_IN_PROGRESS if play.now - began >= 0.2 else 0)
        if not [command for command in play.last if isinstance(command, Join)]:
            play.wake()
    assert play.now - began < 0.4


def test_a_rebalance_that_members_are_called_to_is_not_noticed_a_heartbeat_late() -> None:
    """Under exactly-once nothing is committed while members wait for the leader."""
    play = Play(heartbeat_interval_ms=1_000).deciding().planned(called_in_ms=600).synced()
    assert not any(isinstance(command, Join) for command in play.heartbeat().run(0.65, heartbeats=0))
    assert play.until_join([]) < 0.15


@pytest.mark.parametrize("called_in_ms", [600, 45_000])
def test_it_waits_for_it_for_a_second_and_no_more(called_in_ms: int) -> None:
    play = Play(heartbeat_interval_ms=1_000).deciding().planned(called_in_ms=called_in_ms).synced().heartbeat()
    before, around, after = (
        [command for command in play.run(seconds, heartbeats=0) if isinstance(command, Heartbeat)]
        for seconds in (called_in_ms / 1000 - 0.1, 1.2, 10)
    )
    assert len(before) <= called_in_ms / 1000
    assert 15 <= len(around) <= 25
    assert len(after) <= 11


def test_a_second_rebalance_that_does_not_come_is_waited_for_at_the_usual_pace() -> None:
    play = Play(heartbeat_interval_ms=1_000).deciding().planned(pending=True).synced()
    quick = [command for command in [*play.last, *play.heartbeat().run(2.9)] if isinstance(command, Heartbeat)]
    assert len(quick) > 20
    play.wake().joined(member(ME), member("a"), generation=2).planned(2, pending=True).synced()
    slow = [command for command in play.run(2.9) if isinstance(command, Heartbeat)]
    assert len(slow) <= 4


def test_a_generation_that_starts_by_itself_replaces_the_second_rebalance() -> None:
    play = Play().deciding().planned(pending=True).synced().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert [command for command in play.run(60) if isinstance(command, Join)] == []
