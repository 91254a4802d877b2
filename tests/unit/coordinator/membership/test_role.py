"""What a membership says of its lead is what the brokers' latest answers say."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NotLeading, Obstacle
from tests.kit.membership import DRY_RUN, ME, Play, member, seen
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    GOOD,
    GROUP,
    OTHER,
    answered,
    before_removal,
    dry_run_done,
    given,
    seeing,
    stable,
)

DENIED, UNKNOWN, FENCED, FULL, ILLEGAL_GENERATION = 30, 25, 82, 81, 22
R = NotLeading
NOT_CLASSIC = "Group orders is not a classic group."


def reason(play: Play) -> NotLeading | None:
    return play.machine.view.role.reason


def heartbeat(play: Play, error: int) -> Play:
    while not any(isinstance(command, membership.Heartbeat) for command in play.last):
        play.wake()
    return play.heartbeat(error)


def given_back() -> Play:
    play = Play(adopt="when-empty").deciding().send(membership.DecisionFailed(1, "no topology")).left()
    return play.wake().described("Stable", seen("a"))


@pytest.mark.parametrize(
    ("play", "expected"),
    [
        (Play(), R.STARTING),
        (Play().coordinator_found(), R.STARTING),
        (Play().joining(), R.JOINING),
        (Play().deciding().planned().synced(ILLEGAL_GENERATION), R.JOINING),
        (Play().deciding(), None),
        (Play().deciding().planned(), None),
        (Play().stable(), None),
        (heartbeat(Play().stable(), 27), None),
        (heartbeat(heartbeat(Play().stable(), 27), ILLEGAL_GENERATION), R.JOINING),  # the next coordinator's is older
        (Play().joining().joined(member(ME)).synced(), R.EMPTY),
        (heartbeat(Play().joining().joined(member(ME)).synced(), 27), None),
        (Play().coordinator_found().described("Dead").joined(member(ME)).synced(), R.UNKNOWN_GROUP),
        (Play().coordinator_found().described(error=69).joined(member(ME)).synced(), R.UNKNOWN_GROUP),
        (Play(adopt="when-empty").coordinator_found().described("Stable", seen("a")), R.MEMBER_LEADS),
        (Play(adopt="succeed").coordinator_found().described("Stable", seen("a")), R.MEMBER_LEADS),
        (Play(adopt="take-over").coordinator_found().described("PreparingRebalance", seen("a")), R.REBALANCING),
        (seeing(takeover_obstacle=Obstacle(R.UNDECLARED, "stores is not declared")), R.UNDECLARED),
        (
            stable(Play(adopt="take-over", takeover_obstacle=Obstacle(R.BLOCKED, "old brokers")).coordinator_found()),
            R.BLOCKED,
        ),
        (seeing(), R.TAKING_OVER),
        (dry_run_done(), R.TAKING_OVER),
        (seeing().send(membership.ComparisonFailed(DRY_RUN, "its topology is not known")), R.NO_PLAN),
        (Play().deciding().send(membership.DecisionFailed(1, "no topology")), R.LEAVING),
        (Play().deciding().send(membership.DecisionFailed(1, "no topology")).left(), R.NO_PLAN),
        (given_back(), R.NO_PLAN),
        (
            Play().stable().send(membership.StepAsideWanted("no good")).left().wake().described("Stable", seen("a")),
            R.HANDED_BACK,
        ),
        (heartbeat(Play().stable(), UNKNOWN), R.SET_BACK),
        (Play().stable().send(membership.OrdersInForce("an operator says so", "")), R.LEAVING),
        (Play().stable().send(membership.OrdersInForce("an operator says so", "")).left(), R.ORDERED_OUT),
        (Play(standby=True, instance_id="bw"), R.STANDBY),
        (heartbeat(Play().stable(), FENCED), R.FENCED),
        (heartbeat(Play(unclear_ms_max=0).stable(), DENIED).left(), R.DENIED),
        (Play().coordinator_found(error=DENIED), R.DENIED),
        (Play().coordinator_found().described(error=DENIED), R.DENIED),
        (Play().joining().refused(DENIED), R.DENIED),
        (Play().joining().refused(FULL), R.DENIED),
        (Play().coordinator_found().described("Stable", message=NOT_CLASSIC), R.CONVERTED),
        (Play().coordinator_found().described("Stable", seen("a"), protocol_type="connect"), R.UNFIT),
        (Play().stable().send(membership.StopRequested()).left(), R.STOPPED),
    ],
)
def test_the_role_follows_from_the_latest_answers(play: Play, expected: NotLeading | None) -> None:
    assert reason(play) is expected


def test_a_leader_that_hears_nothing_for_a_session_timeout_does_not_lead() -> None:
    play = Play().stable()
    play.run(9, heartbeats=None)
    assert reason(play) is None
    play.run(3, heartbeats=None)
    assert reason(play) is R.UNREACHABLE


def test_a_broker_that_names_the_generation_of_a_parked_join_answers() -> None:
    """The coordinator node had moved and its group was a generation behind (seed 67 of the simulation)."""
    play = Play(session_timeout_ms=10_000).stable().wake().heartbeat(27)
    play.run(15.0, heartbeats=22)
    assert reason(play) is not R.UNREACHABLE


def test_a_watcher_that_no_broker_answers_says_so() -> None:
    play = Play().coordinator_found().described("Stable", seen("a")).wake().failed(membership.Describe)
    for _ in range(2):
        play.wake().failed(membership.FindCoordinator)
    assert reason(play) is R.UNREACHABLE


def test_the_role_begins_when_its_reason_changes_and_not_when_its_words_do() -> None:
    play = Play(adopt="when-empty").coordinator_found().described("Stable", seen("a"))
    since = play.machine.view.role.since
    play.wake().described("Stable", seen("a"), seen("b"))
    assert play.machine.view.role.since == since
    play.wake().described("Empty")
    assert play.machine.view.role.since > since


def test_a_group_that_was_given_back_says_why_and_when_the_next_attempt_is_due() -> None:
    play = Play(adopt="when-empty").deciding().send(membership.DecisionFailed(1, "no topology")).left()
    role = play.machine.view.role
    assert role.detail == "no topology"
    assert role.next_attempt is not None
    assert role.next_attempt > play.now


@pytest.mark.parametrize("adopt", ["when-empty", "succeed", "take-over"])
def test_a_group_that_others_lead_says_when_it_is_refreshed_again(adopt: str) -> None:
    play = Play(adopt=adopt, watch_interval_ms=5_000).coordinator_found().described("PreparingRebalance", seen("a"))
    next_attempt = play.machine.view.role.next_attempt
    assert next_attempt is not None
    assert play.wake().kinds() == ["Describe"]
    assert play.now == next_attempt


def test_a_group_that_is_watched_after_it_was_given_back_still_says_why() -> None:
    play = given_back()
    for _ in range(8):
        play.wake().described("Stable", seen("a"))
    assert reason(play) is R.MEMBER_LEADS
    assert "no topology" in play.machine.view.role.detail


@pytest.mark.parametrize("settings", [{"adopt": "succeed"}, {"takeover_obstacle": Obstacle(R.MEMBER_LEADS, "once")}])
def test_a_leader_that_an_answer_has_named_is_named_until_it_goes(settings: dict[str, object]) -> None:
    play = answered(given(before_removal(**settings), GOOD), OTHER)
    play.left()
    stable(play.wake())
    assert reason(play) is R.MEMBER_LEADS
    assert play.machine.view.role.detail.endswith(f"; {OTHER} leads")
    stable(play.wake(), *(member for member in GROUP if member.member_id != OTHER))
    assert OTHER not in play.machine.view.role.detail


def test_members_that_have_come_and_gone_leave_an_empty_group_and_no_unknown_one() -> None:
    play = Play().coordinator_found().described("Dead").joined(member(ME), member("a")).planned().synced()
    assert reason(play) is None
    heartbeat(play, 27).wake()
    play.joined(member(ME), generation=2).synced()
    assert reason(play) is R.EMPTY


@pytest.mark.parametrize(
    "alone_again",
    [
        Play(instance_id="bw").coordinator_found().described("Stable", seen(ME, "bw")),
        Play().coordinator_found().described("Dead"),
    ],
)
def test_offsets_show_that_a_member_was_in_the_group_before_bellwether_started(alone_again: Play) -> None:
    """A restart in a group whose application was scaled to zero was reported as an unknown group."""
    play = alone_again.joined(member(ME, alone_again.config.instance_id)).synced()
    assert reason(play) is R.UNKNOWN_GROUP
    play.send(membership.OffsetsFound())
    assert reason(play) is R.EMPTY


def test_a_group_of_others_without_instance_ids_is_not_taken_for_an_empty_one() -> None:
    assert (
        reason(Play(adopt="when-empty", instance_id=None).coordinator_found().described("Stable", *GROUP))
        is R.MEMBER_LEADS
    )


@pytest.mark.parametrize(
    ("play", "expected"),
    [
        (Play(standby=True, instance_id="bw"), R.STANDBY),
        (Play().send(membership.OrdersInForce("an operator says so", "")), R.ORDERED_OUT),
    ],
)
def test_a_bar_is_reported_and_keeps_bellwether_out(play: Play, expected: NotLeading) -> None:
    play.coordinator_found().described().wake().described("Stable", seen("a"))
    assert (play.state, reason(play)) == (membership.State.WATCHING, expected)
