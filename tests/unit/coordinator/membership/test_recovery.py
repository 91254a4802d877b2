"""A membership in trouble: error codes (docs/internals/broker-behaviour.md#error-codes), lost nodes, bounded doubt."""

import pytest
from kafka.errors import for_code

from bellwether_kafka.coordinator.membership import (
    Code,
    Describe,
    Failure,
    FindCoordinator,
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    Leave,
    NoteKind,
    NotLeading,
    RequestFailed,
    State,
    StopRequested,
    Sync,
    SyncAnswer,
    name_of,
)
from tests.kit.membership import (
    ME,
    NODE,
    OTHER_NODE,
    UNKNOWN_SERVER_ERROR,
    UNNAMED_ERROR,
    Play,
    alerts,
    fatal_of,
    member,
    seen,
)

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCE = 22, 25, 27


# ---- finding the coordinator node ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [NOT_AVAILABLE, LOADING, UNKNOWN_SERVER_ERROR, UNNAMED_ERROR])
def test_it_asks_again_for_the_node_with_growing_pauses(error: int) -> None:
    play = Play()
    pauses = []
    for _ in range(8):
        play.coordinator_found(error=error)
        assert play.kinds() == []
        before = play.now
        assert play.wake().kinds() == ["FindCoordinator"]
        pauses.append(play.now - before)
    assert pauses == sorted(pauses)
    assert 0.08 <= pauses[0] <= 0.12
    assert 1.6 <= pauses[-1] <= 2.4


@pytest.mark.parametrize("error", [NOT_AVAILABLE, NOT_COORDINATOR])
def test_a_join_at_the_wrong_node_finds_another_and_keeps_the_member_id(error: int) -> None:
    play = Play().joining().refused(79, member_id=ME).refused(error)
    assert play.wake().kinds() == ["FindCoordinator"]
    join = play.coordinator_found(OTHER_NODE).sent(Join)
    assert (join.member_id, join.node) == (ME, OTHER_NODE)


def test_a_loading_coordinator_is_asked_again_at_the_same_node() -> None:
    play = Play().joining().refused(LOADING)
    assert play.wake().sent(Join).node == NODE


def test_a_lost_connection_while_joining_finds_the_node_again() -> None:
    play = Play().joining().failed(Join)
    assert play.wake().kinds() == ["FindCoordinator"]
    assert play.coordinator_found().kinds() == ["Join"]


def test_a_parked_join_survives_a_lost_control_connection_but_not_a_move() -> None:
    def parked() -> Play:
        play = Play().stable().wake().heartbeat(REBALANCE).wake()
        assert play.kinds() == ["Heartbeat"]
        play.failed(Heartbeat)
        assert [*play.kinds(), *play.wake().kinds()] == ["FindCoordinator"]
        return play

    assert parked().coordinator_found(NODE).kinds() == ["Heartbeat"]
    moved = parked().coordinator_found(OTHER_NODE)
    assert moved.kinds() == ["Abandon", "Join", "Heartbeat"]
    assert moved.sent(Join).node == OTHER_NODE


def test_a_parked_sync_is_given_up_when_the_coordinator_moves() -> None:
    play = Play().deciding().wake().planned().failed(Heartbeat).wake().coordinator_found(OTHER_NODE)
    assert play.kinds() == ["Abandon", "Join", "Heartbeat"], "never Sync twice on a guess"


@pytest.mark.parametrize("error", [NOT_COORDINATOR, LOADING])
def test_a_sync_that_met_no_coordinator_is_not_repeated(error: int) -> None:
    play = Play().deciding().planned().synced(error).wake()
    if error == NOT_COORDINATOR:
        play.coordinator_found()
    assert isinstance(play.last[0], Join)
    assert not [command for command in play.last if isinstance(command, Sync)]


def test_a_plan_waits_for_the_node_that_is_being_found() -> None:
    play = Play().deciding().wake().heartbeat(NOT_COORDINATOR)
    assert play.planned().kinds() == []
    assert play.wake().kinds() == ["FindCoordinator"]
    assert play.coordinator_found(OTHER_NODE).kinds() == ["Sync", "Heartbeat"]

    play = Play().deciding().wake().heartbeat(NOT_COORDINATOR).wake()
    assert play.planned().kinds() == [], "one search at a time"
    assert play.coordinator_found(OTHER_NODE).kinds() == ["Sync", "Heartbeat"]


def test_in_stable_a_moved_coordinator_costs_no_rebalance() -> None:
    play = Play().stable().wake().heartbeat(NOT_COORDINATOR).wake().coordinator_found(OTHER_NODE)
    assert play.kinds() == ["Heartbeat"]
    assert play.sent(Heartbeat).node == OTHER_NODE
    assert play.state is State.STABLE


def test_a_coordinator_node_that_is_away_for_longer_than_bellwethers_session_costs_no_rebalance() -> None:
    """A broker that dies is fenced after nine seconds; the next one gives every member a new session as it loads."""
    play = Play().stable().wake().failed(Heartbeat)
    lost_at = play.now
    while play.now - lost_at < 15:
        play.wake()
        play = play.coordinator_found(NODE) if FindCoordinator in map(type, play.last) else play
        play = play.failed(Heartbeat) if Heartbeat in map(type, play.last) else play
    while FindCoordinator not in map(type, play.last):
        play.wake()
    assert play.coordinator_found(OTHER_NODE).kinds() == ["Heartbeat"]
    assert play.heartbeat().state is State.STABLE
    assert not [command for command in play.seen if isinstance(command, Join)][1:]


def test_every_search_asks_another_broker() -> None:
    """One that lags behind would name the dead node for ever."""
    play = Play().stable()
    for attempt in (1, 2, 3):
        play.wake().failed(Heartbeat)
        play = play if FindCoordinator in map(type, play.last) else play.wake()
        assert play.sent(FindCoordinator).attempt == attempt
        play.coordinator_found(NODE)
        assert play.kinds() == ["Heartbeat"]


def test_a_loading_coordinator_delays_a_heartbeat_by_one_interval() -> None:
    play = Play().stable().wake().heartbeat(LOADING)
    assert play.kinds() == []
    assert play.wake().kinds() == ["Heartbeat"]


# ---- membership lost -------------------------------------------------------------------------------------------------


def test_an_illegal_generation_rejoins_with_the_same_id() -> None:
    assert Play().stable().wake().heartbeat(ILLEGAL_GENERATION).sent(Join).member_id == ME
    assert Play().deciding().planned().synced(ILLEGAL_GENERATION).sent(Join).member_id == ME


@pytest.mark.parametrize("where", ["join", "sync", "heartbeat", "parked"])
def test_an_unknown_member_watches_instead_of_becoming_a_worker(where: str) -> None:
    play = Play(instance_id="bw", readopt_ms=5_000)
    if where == "join":
        play.joining().refused(UNKNOWN_MEMBER)
    elif where == "sync":
        play.deciding().planned().synced(UNKNOWN_MEMBER)
    else:
        play.stable().wake()
        if where == "parked":
            play.heartbeat(REBALANCE).wake()
        play.heartbeat(UNKNOWN_MEMBER)
        assert play.kinds() == (["Abandon"] if where == "parked" else [])
    assert play.state is State.WATCHING
    assert (play.machine.view.member_id, play.machine.view.generation) == ("", -1)
    assert play.wake().kinds() == ["Describe"]
    assert play.described("Stable", seen("a")).kinds() == []


def test_being_expelled_while_stopping_is_the_end() -> None:
    play = Play().deciding().planned().send(StopRequested()).synced(UNKNOWN_MEMBER)
    assert play.kinds() == ["MembershipStopped"]


@pytest.mark.parametrize("where", ["join", "sync", "heartbeat"])
def test_a_fenced_instance_stops_with_a_code_of_its_own_and_leaves_the_other_alone(where: str) -> None:
    play = Play(instance_id="bw")
    if where == "join":
        play.joining().refused(82)
    elif where == "sync":
        play.deciding().planned().synced(82)
    else:
        play.stable().wake().heartbeat(82)
    assert play.kinds()[-2:] == ["Fatal", "MembershipStopped"]
    assert "Leave" not in play.kinds()
    assert fatal_of(play).exit_code == 3
    assert "'bw'" in fatal_of(play).message


# ---- no answer at all ------------------------------------------------------------------------------------------------


def test_a_refused_login_is_tried_again_from_the_start_on() -> None:
    play = Play().failed(FindCoordinator, Failure.AUTHENTICATION, "SASL said no")
    assert play.kinds() == []
    assert play.machine.view.role.reason is NotLeading.DENIED
    assert "SASL said no" in play.machine.view.role.detail
    assert play.wake().coordinator_found().described().kinds() == ["Join"]
    later = Play().stable().wake().failed(Heartbeat, Failure.AUTHENTICATION)
    assert (later.kinds(), later.state) == ([], State.STABLE)


def test_a_login_that_is_refused_while_bellwether_leads_is_reported_once_and_again_after_one_that_worked() -> None:
    """The group went to a member without a word: the client library's own log is off."""
    play = Play().stable().wake().failed(Heartbeat, Failure.AUTHENTICATION, "SASL said no")
    (reported,) = alerts(play)
    assert "SASL said no" in reported
    assert "sasl.*" in reported
    play.wake().failed(FindCoordinator, Failure.AUTHENTICATION, "SASL said no")
    assert alerts(play) == [reported]
    play.wake().coordinator_found().wake().failed(Heartbeat, Failure.AUTHENTICATION, "SASL said no")
    assert alerts(play) == [reported, reported]


def test_a_broker_without_a_request_that_bellwether_needs_may_be_upgraded() -> None:
    play = Play().failed(FindCoordinator, Failure.UNSUPPORTED)
    assert "Kafka 2.3" in play.machine.view.role.detail
    assert play.wake().coordinator_found().described().kinds() == ["Join"]


def test_an_unreadable_join_answer_gives_the_group_back() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE).failed(Join, Failure.MALFORMED, "200 MB")
    assert play.kinds() == ["Leave"]
    first = Play().joining().failed(Join, Failure.MALFORMED, "200 MB")
    assert (first.kinds(), first.state) == ([], State.WATCHING)


def test_answers_that_nobody_waits_for_are_ignored() -> None:
    play = Play().stable()
    for event in (JoinAnswer(3, 0, 9, leader=ME), SyncAnswer(4, 25), HeartbeatAnswer(1, 25)):
        assert play.send(event).kinds() == []
    assert play.send(RequestFailed(3, Failure.DISCONNECTED)).kinds() == []
    assert play.state is State.STABLE


def test_a_lost_connection_while_counting_ends_the_count() -> None:
    play = Play().stable_alone().wake().heartbeat(REBALANCE)
    assert play.kinds() == ["Describe"]
    play.failed(Describe)
    assert play.state is State.JOINING
    assert play.wake().kinds() == ["FindCoordinator"]
    assert "Join" in play.coordinator_found().kinds()


def test_a_lost_connection_while_watching_goes_on_watching() -> None:
    play = Play().coordinator_found().failed(Describe).wake()
    assert play.kinds() == ["FindCoordinator"]
    assert play.coordinator_found().kinds() == ["Describe"]


# ---- errors that nobody can explain ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [UNKNOWN_SERVER_ERROR, UNNAMED_ERROR])
def test_an_unexplained_join_error_is_borne_for_a_while_then_it_leaves(error: int) -> None:
    play = Play(unclear_ms_max=10_000).joining().refused(79, member_id=ME)
    began = play.now
    while play.state is State.JOINING:
        play.refused(error)
        if play.state is State.JOINING:
            assert play.wake().kinds() == ["Join"]
    assert 10 <= play.now - began <= 13
    assert play.kinds() == ["Leave"]
    assert any(kind is NoteKind.ALERT and name_of(error) in reason for kind, reason in play.notes())


def test_without_an_id_there_is_nothing_to_leave() -> None:
    play = Play(unclear_ms_max=0).joining().refused(UNKNOWN_SERVER_ERROR)
    assert (play.kinds(), play.state) == ([], State.WATCHING)


def test_an_unexplained_sync_error_does_not_begin_again_with_every_rebalance() -> None:
    """A group record over the broker's limit lets every join succeed and every sync fail
    (docs/internals/broker-behaviour.md#limits)."""
    play = Play(unclear_ms_max=5_000).deciding()
    began, generation = play.now, 1
    while play.state is not State.LEAVING:
        play.planned(generation).synced(UNKNOWN_SERVER_ERROR)
        if play.state is State.LEAVING:
            break
        while "Join" not in play.wake().kinds():
            play.heartbeat()
        generation += 1
        play.joined(member(ME), member("a"), generation=generation)
        play.later(1)
        assert generation < 50
    assert 5 <= play.now - began <= 8


def test_an_unexpected_heartbeat_error_now_and_then_is_forgiven() -> None:
    play = Play(unclear_ms_max=2_000).stable()
    for _ in range(10):
        play.run(30)
        while "Heartbeat" not in play.wake().kinds():
            pass
        play.heartbeat(UNKNOWN_SERVER_ERROR)
    assert play.state is State.STABLE


def test_unexpected_heartbeat_errors_without_end_give_the_group_back() -> None:
    play = Play(unclear_ms_max=3_000).stable()
    assert [command for command in play.run(8, heartbeats=UNKNOWN_SERVER_ERROR) if isinstance(command, Leave)]


def test_watching_bears_everything() -> None:
    play = Play(unclear_ms_max=0).coordinator_found()
    for _ in range(5):
        assert play.described(error=UNKNOWN_SERVER_ERROR).kinds() == []
        assert play.wake().kinds() == ["Describe"]


def test_who_is_not_sure_of_its_broker_says_since_when() -> None:
    assert Play().stable().machine.view.unclear_since is None


# ---- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [UNKNOWN_MEMBER, 82, 30])
def test_a_leave_that_is_refused_for_good_is_a_leave(error: int) -> None:
    assert Play().stable().send(StopRequested()).left(error).kinds() == ["MembershipStopped"]


def test_a_leave_follows_a_moved_coordinator() -> None:
    play = Play().stable().send(StopRequested()).left(NOT_COORDINATOR).wake()
    assert play.kinds() == ["FindCoordinator"]
    assert play.coordinator_found(OTHER_NODE).sent(Leave).node == OTHER_NODE
    assert play.left().kinds() == ["MembershipStopped"]


def test_a_leave_without_an_answer_ends_by_itself() -> None:
    play = Play(leave_ms_max=2_000).stable().send(StopRequested())
    began = play.now
    while play.state is not State.STOPPED:
        play.wake()
    assert play.now - began == pytest.approx(2)
    assert (NoteKind.ALERT, "the broker did not answer LeaveGroup in time") in play.notes()


def test_heartbeats_that_come_while_leaving_change_nothing() -> None:
    play = Play().deciding().wake().send(StopRequested())
    assert play.heartbeat(UNKNOWN_MEMBER).kinds() == []
    assert play.state is State.LEAVING


def test_a_runtime_that_cannot_go_on_can_still_leave() -> None:
    assert Play().machine.final_leave("a bug") is None
    leave = Play().stable().machine.final_leave("a bug")
    assert leave is not None
    assert (leave.member_id, leave.reason) == (ME, "a bug")


# ---- names and arithmetic --------------------------------------------------------------------------------------------


def test_codes_have_the_names_that_kafka_gives_them() -> None:
    codes = [code for code in Code if code > 0]
    assert [name_of(code) for code in codes] == [for_code(code).message for code in codes]
    assert name_of(UNKNOWN_SERVER_ERROR) == "UNKNOWN_SERVER_ERROR"
    assert name_of(UNNAMED_ERROR) == "error 99"
