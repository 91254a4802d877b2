"""Handing the lead back because members do not work: once in a day, and back only with a proof."""

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Decide, Join, Leave, NoteKind, NotLeading, State
from tests.kit.membership import DRY_RUN, ME, Play, member, seen

DAY_S = 86_400.0

HARM = membership.StepAsideWanted("the topology is not the application's")


def leading(**settings: object) -> Play:
    return Play(**settings).joining().joined(member(ME), member("a")).planned().synced()


def handed_back(**settings: object) -> Play:
    return leading(**settings).send(HARM).left()


def rehearsing(play: Play) -> Play:
    for _ in range(60):
        play.wake()
        if play.kinds() == ["Describe"]:
            play.described("Stable", seen("a"))
        if any(isinstance(command, Decide) for command in play.last):
            return play
    raise AssertionError("no rehearsal")


def test_a_hand_back_leaves_the_group_with_an_alert_and_a_reason_of_its_own() -> None:
    play = leading().send(HARM)
    assert play.sent(Leave).reason == HARM.reason
    assert (NoteKind.ALERT, f"handed back: {HARM.reason}") in play.notes()
    play.left()
    assert play.wake().described("Stable", seen("a")).machine.view.role.reason is NotLeading.HANDED_BACK
    assert HARM.reason in play.machine.view.role.detail


def test_members_that_all_ended_leave_an_empty_group_to_the_next_ones() -> None:
    play = Play().stable_alone().send(HARM)
    assert play.state is State.LEAVING
    play.left().wake().described("Empty")
    assert (play.state, play.machine.view.role.reason) == (State.WATCHING, NotLeading.HANDED_BACK)
    play.wake().described("Stable", seen("a"))
    assert any(isinstance(command, Decide) for command in play.last), "it rehearses whether it may return"


def test_with_the_setting_alert_it_only_raises_one() -> None:
    play = leading(hand_back="alert").send(HARM)
    assert play.state is State.STABLE
    assert (NoteKind.ALERT, f'{HARM.reason}; hand_back = "alert" keeps the lead') in play.notes()


def test_an_empty_group_is_not_joined_before_there_is_a_proof() -> None:
    play = handed_back()
    for _ in range(20):
        play.wake()
        if play.kinds() == ["Describe"]:
            play.described("Empty")
        assert not any(isinstance(command, Join) for command in play.last)


def test_it_returns_when_its_own_plan_would_differ_no_more() -> None:
    play = rehearsing(handed_back())
    play.send(membership.ComparisonFailed(DRY_RUN, "the application has another changelog"))
    assert "it stays out because the application has another changelog" in play.machine.view.role.detail
    rehearsing(play).send(membership.ComparisonReady(DRY_RUN, worth_moving=True, reason="3 tasks have no owner"))
    assert play.machine.view.role.reason is NotLeading.HANDED_BACK
    rehearsing(play).send(membership.ComparisonReady(DRY_RUN, worth_moving=False))
    assert play.machine.view.role.reason is not NotLeading.HANDED_BACK


def test_a_second_hand_back_within_a_day_is_an_alert_and_one_after_it_is_not() -> None:
    play = leading()
    play.send(membership.HandBackRemembered(3600.0, "an earlier one", waits=False)).send(HARM)
    assert play.state is State.STABLE
    assert any("once within 24 hours" in reason for kind, reason in play.notes() if kind is NoteKind.ALERT)
    late = leading().send(membership.HandBackRemembered(DAY_S + 1, "an earlier one", waits=False)).send(HARM)
    assert late.state is State.LEAVING


def test_an_earlier_process_is_remembered_and_its_wait_goes_on() -> None:
    play = Play().coordinator_found().send(membership.HandBackRemembered(60.0, "an earlier one", waits=True))
    play.described("Empty")
    assert play.state is State.WATCHING
    assert play.machine.view.role.reason is NotLeading.HANDED_BACK
    other = (
        Play()
        .coordinator_found()
        .send(membership.HandBackRemembered(60.0, "an earlier one", waits=False))
        .described("Empty")
    )
    assert any(isinstance(command, Join) for command in other.last)


EARLIER = membership.HandBackRemembered(60.0, "an earlier one", waits=True)


def test_a_process_that_came_in_before_it_read_the_memory_leaves_again() -> None:
    for play in (Play().stable_alone(), Play().deciding(), Play().deciding().planned(), Play().stable()):
        assert play.send(EARLIER).state is State.LEAVING
        play.left().wake().described("Empty")
        assert play.state is State.WATCHING
        assert play.machine.view.role.reason is NotLeading.HANDED_BACK
        assert "an earlier one" in play.machine.view.role.detail


def test_a_process_that_is_about_to_join_stops_on_the_way() -> None:
    play = Play().joining().send(EARLIER)
    assert (play.state, play.machine.view.role.reason) == (State.WATCHING, NotLeading.HANDED_BACK)


def test_what_was_read_while_leaving_counts_afterwards() -> None:
    play = Play().stable().send(membership.OrdersInForce("an operator says so", "")).send(EARLIER).left()
    assert play.state is State.WATCHING
    assert play.machine.view.hands_over is False
    assert play.machine.view.handed_back == "an earlier one"


def test_an_instance_id_that_is_a_member_still_is_taken_out_of_the_group() -> None:
    play = (
        Play(instance_id="bellwether").coordinator_found().send(EARLIER).described("Stable", seen("bw-0", "bellwether"))
    )
    assert play.state is State.JOINING, "its session would hold up every rebalance"
    play.joined(member(ME), member("a"), generation=4, skip_assignment=True)
    assert play.state is State.LEAVING
    assert play.left().machine.view.role.reason is NotLeading.HANDED_BACK


def test_of_two_instances_the_other_may_lead_again_when_one_of_them_did() -> None:
    play = Play().coordinator_found().send(EARLIER)
    play.later(30).send(membership.HandBackRemembered(90.01, "an earlier one", waits=False)).described("Empty")
    assert any(isinstance(command, Join) for command in play.last)


def test_an_older_hand_back_than_the_last_one_says_nothing() -> None:
    play = handed_back().send(membership.HandBackRemembered(3600.0, "a former one", waits=False))
    assert play.machine.view.role.reason is NotLeading.HANDED_BACK
    assert play.machine.view.handed_back == HARM.reason


def test_an_operator_ends_the_wait() -> None:
    play = (
        handed_back().send(membership.OrdersInForce("an operator says so", "")).send(membership.OrdersInForce("", ""))
    )
    for _ in range(20):
        if play.kinds() == ["Describe"]:
            play.described("Empty")
        if any(isinstance(command, Join) for command in play.last):
            return
        play.wake()
    raise AssertionError("it stays out")


def test_suspected_work_is_an_alert_and_nothing_else() -> None:
    play = leading().send(membership.WorkSuspected("task 0_1 commits nothing"))
    assert play.state is State.STABLE
    assert (NoteKind.ALERT, "task 0_1 commits nothing") in play.notes()
