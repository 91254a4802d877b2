"""Whether a group that a member leads is taken over, and the plan that is tried before."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    MembershipConfig,
    NoteKind,
    NotLeading,
    Obstacle,
    SearchTurns,
    State,
    proven,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.membership import DRY_RUN, Play, own_subscription
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    GOOD,
    GROUP,
    LEADER,
    OTHER,
    THIRD,
    answered,
    client,
    dry_run_done,
    dynamic_until_named,
    evicted,
    given,
    ids,
    in_order,
    seeing,
    stable,
)

TURN_S = 30.0

# ---- which groups ----------------------------------------------------------------------------------------------------


def test_nothing_is_joined_when_empty_is_waited_for() -> None:
    assert stable(Play(adopt="when-empty").coordinator_found()).kinds() == []


def test_a_group_that_a_member_leads_is_taken_over_unless_configured_otherwise() -> None:
    """After an absence that was longer than Bellwether's session, the lead comes back without anybody's doing."""
    assert stable(Play(instance_id="bellwether").coordinator_found()).kinds() == ["Decide"]


def test_a_plan_that_could_not_be_made_is_tried_again_within_a_minute_however_often_it_failed() -> None:
    play = seeing()
    for _ in range(10):
        play.send(membership.ComparisonFailed(DRY_RUN, "an internal topic is missing"))
        began = play.now
        while "Decide" not in play.kinds():
            stable(play.wake())
        assert play.now - began < 40


def test_a_guard_keeps_it_away_and_says_so_once() -> None:
    play = seeing(takeover_obstacle=Obstacle(NotLeading.UNDECLARED, "stores are not declared"))
    assert play.kinds() == []
    stable(play.wake())
    assert play.notes() == [(NoteKind.WATCHING, "not taken over: stores are not declared")]


@pytest.mark.parametrize(("version", "allowed"), [((4, 3), True), ((3, 9), True), ((3, 8), False), ((), False)])
def test_brokers_that_were_never_tried_are_only_succeeded(version: tuple[int, ...], allowed: bool) -> None:
    config = MembershipConfig("orders", adopt="take-over")
    obstacle = proven(config, version).takeover_obstacle
    assert (obstacle is None) == allowed
    assert obstacle is None or "restart Bellwether when all have 3.9 or newer" in obstacle.sentence
    waiting = MembershipConfig("orders", adopt="when-empty")
    assert proven(waiting, version) == waiting


def test_an_unknown_order_keeps_it_away() -> None:
    backwards = [client(ids(b, 1)[0], str(b)) for b in (15, 9, 5, 1)]
    play = stable(Play(adopt="take-over").coordinator_found(), *backwards)
    assert play.kinds() == []
    assert "in an unknown order" in play.notes()[0][1]


def test_another_instance_is_left_its_group() -> None:
    """Found by simulation: two that share no instance id took a group from each other, three times an hour each."""
    rival = membership.DescribedMember("rival-1", "rival", own_subscription(), b"a", "bellwether", "/127.0.0.1")
    play = stable(Play(adopt="take-over").coordinator_found(), *GROUP, rival)
    assert play.kinds() == []
    assert "rival-1 is another instance of Bellwether" in play.notes()[-1][1]
    stable(play.wake())
    assert play.kinds() == ["Decide"]


@pytest.mark.parametrize(
    ("protocol", "client_id", "user_data", "allowed"),
    [
        ("roundrobin", "kafka-python-3.0.0", b"", False),
        ("roundrobin", "shop", b"", False),
        ("roundrobin", "aiokafka-0.12.0", b"", True),
        ("roundrobin", "sarama", None, True),
        ("range", "kafka-python-3.0.0", b"", True),
    ],
)
def test_a_leader_that_would_die_of_a_member_without_topics_is_left_alone(
    protocol: str, client_id: str, user_data: bytes | None, *, allowed: bool
) -> None:
    """Found by an hour of soak: kafka-python's round robin raises KeyError on unequal subscriptions."""
    metadata = ConsumerProtocolSubscription(0, ("orders",), user_data).encode()
    people = [replace(member, metadata=metadata, client_id=client_id) for member in GROUP]
    play = stable(Play(adopt="take-over").coordinator_found(), *people, protocol=protocol)
    assert play.kinds() == (["Decide"] if allowed else [])
    if not allowed:
        assert "looks like kafka-python" in play.notes()[-1][1]
        for _ in range(20):
            play.wake().described("PreparingRebalance", *GROUP)
        assert play.kinds() == [], "nor is it succeeded: another of its kind may lead then"


BOUNDED = {"takeovers_in_vain_max": 9, "readopt_ms": 10, "readopt_ms_max": 10}


def fails_in_the_rebalance(play: Play) -> Play:
    """An attempt that members notice."""
    while "Decide" not in play.kinds():
        stable(play.wake())
    given(play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False)), GOOD)
    return answered(play, LEADER).synced(29).left()


def fails_at_rest(play: Play) -> Play:
    """An attempt that no member notices."""
    while "Decide" not in play.kinds():
        stable(play.wake())
    return play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False)).refused(15)


def test_attempts_are_bounded_and_the_status_says_when_the_next_is_and_how_to_have_it_at_once() -> None:
    play = Play(takeover_attempts_max=2, **BOUNDED).coordinator_found()
    stable(play)
    for _ in range(2):
        fails_in_the_rebalance(play)
    stable(play.wake())
    assert play.kinds() == []
    role = play.machine.view.role
    assert role.reason is NotLeading.SET_BACK
    assert "tried 2 times within an hour" in role.detail
    assert "order leave and resume" in role.detail
    assert "`bellwether leave` and then `bellwether resume`" in role.remedy
    assert role.next_attempt is not None
    assert 3_000 < role.next_attempt - play.now <= 3_600


def test_what_disturbed_no_member_is_no_attempt() -> None:
    """Two groups were banned for an hour after attempts that had only waited for ids of temporary members."""
    play = stable(Play(takeover_attempts_max=2, **BOUNDED).coordinator_found())
    for _ in range(5):
        fails_at_rest(play)
    stable(play.wake())
    assert "Decide" in play.kinds()


def test_a_take_over_that_the_end_of_an_order_asks_for_is_not_counted_with_those_before() -> None:
    """Found by an hour of soak: an operator that has Bellwether leave and resume four times an hour does so on
    purpose."""
    play = stable(Play(takeover_attempts_max=1, **BOUNDED).coordinator_found())
    fails_in_the_rebalance(play)
    assert stable(play.wake()).kinds() == [], "once within the hour is enough"
    play.send(membership.OrdersInForce("ann has ordered leave", ""))
    play.send(membership.OrdersInForce("", ""))
    while "Decide" not in play.kinds():
        stable(play.wake())


def test_the_end_of_an_order_ends_the_wait_after_a_setback_too() -> None:
    play = stable(Play(readopt_ms=200_000).coordinator_found())
    fails_at_rest(play)
    assert stable(play.wake()).kinds() == [], "it waits"
    play.send(membership.OrdersInForce("ann has ordered leave", ""))
    assert stable(play.send(membership.OrdersInForce("", ""))).kinds() == ["Decide"]


# ---- several groups of one process -----------------------------------------------------------------------------------


def test_few_groups_of_a_process_search_at_the_same_time() -> None:
    """Of twelve at once each made the broker's answers to the others slower than any of them had measured."""
    turns = SearchTurns(at_once=2)
    first, second, third = (Play(turns=turns, group_id=f"g{i}").coordinator_found() for i in range(3))
    assert stable(first).kinds() == stable(second).kinds() == ["Decide"]
    assert stable(third).kinds() == []
    assert third.machine.view.role.reason is NotLeading.TAKING_OVER
    assert "other groups of this process" in third.machine.view.role.detail
    first.send(membership.ComparisonReady(DRY_RUN, worth_moving=False))
    assert stable(third.wake()).kinds() == [], "the first one searches"
    given(first, GOOD)
    assert stable(third.wake()).kinds() == ["Decide"], "the first one has its id"


@pytest.mark.parametrize("end", ["refused", "no plan", "empty", "stopped"])
def test_a_turn_ends_with_whatever_ends_the_attempt(end: str) -> None:
    turns = SearchTurns(at_once=1)
    first, second = (Play(turns=turns, group_id=f"g{i}").coordinator_found() for i in range(2))
    stable(first)
    match end:
        case "refused":
            first.send(membership.ComparisonReady(DRY_RUN, worth_moving=False)).refused(15)
        case "no plan":
            first.send(membership.ComparisonFailed(DRY_RUN, "a topic is missing"))
        case "empty":
            first.wake().described("Empty")
        case "stopped":
            first.send(membership.StopRequested())
    assert stable(second).kinds() == ["Decide"]


def test_a_turn_that_is_never_given_back_does_not_keep_others_waiting_for_ever() -> None:
    turns = SearchTurns(at_once=1)
    assert turns.take("a", 0.0)
    assert not turns.take("b", TURN_S - 1)
    assert turns.take("b", TURN_S)


@pytest.mark.parametrize("people", [GROUP, GROUP[1:]], ids=["it is still there", "it has gone by itself"])
def test_a_leader_that_did_not_make_way_is_no_obstacle_for_ever(people: tuple[membership.DescribedMember, ...]) -> None:
    play = dynamic_until_named(takeovers_in_vain_max=2)
    evicted(play, 29)
    play.left()
    for _ in range(20):
        if any(isinstance(x, membership.Decide) for x in play.last):
            break
        play.wake()
        if any(isinstance(x, membership.FindCoordinator) for x in play.last):
            play.coordinator_found()
        if any(isinstance(x, membership.Describe) for x in play.last):
            stable(play, *people)
    assert play.sent(membership.Decide).generation == DRY_RUN


# ---- nobody is disturbed twice ---------------------------------------------------------------------------------------

BACK = client(ids(9, 1)[0], "leader")
NEWCOMER = ids(10, 1)[0]


def in_vain() -> Play:
    """The leader has been removed, and another one leads again; the leader is back under another id."""
    play = evicted(dynamic_until_named(readopt_ms=10, readopt_ms_max=10))
    play.described("PreparingRebalance", client(GOOD, "bw"), *GROUP[1:], BACK)
    answered(play, OTHER, generation=6)
    assert play.state is State.LEAVING
    return play.left()


def refreshes(play: Play, *members: membership.DescribedMember) -> Play:
    """Until a plan has a dry run, which begins an attempt, or a while has passed."""
    for _ in range(20):
        if any(isinstance(x, membership.FindCoordinator) for x in play.last):
            play.coordinator_found()
        elif any(isinstance(x, membership.Describe) for x in play.last):
            stable(play, *in_order(*members, buckets=16))
        elif begins(play):
            break
        else:
            play.wake()
    return play


def begins(play: Play) -> bool:
    return any(isinstance(x, membership.Decide) for x in play.last)


def test_members_that_an_attempt_has_disturbed_in_vain_are_not_disturbed_again() -> None:
    """In a trial two of four groups ended blocked after their members had been disturbed twice."""
    play = refreshes(in_vain(), *GROUP[1:], BACK)
    assert not begins(play)
    role = play.machine.view.role
    assert role.reason is NotLeading.BLOCKED
    assert f"without success ({OTHER} leads the group" in role.detail
    assert "restart one of them, or order leave and resume" in role.detail


def test_a_removed_leader_that_is_back_late_is_no_other_member() -> None:
    play = refreshes(in_vain(), *GROUP[1:])
    assert not begins(refreshes(play, *GROUP[1:], BACK))


@pytest.mark.parametrize(
    "members",
    [(GROUP[1], BACK), (GROUP[1], client(NEWCOMER, "third"), BACK), (*GROUP[1:], BACK, client(NEWCOMER, "new"))],
    ids=["one has gone", "one has been restarted", "another has come"],
)
def test_other_members_may_be_disturbed(members: tuple[membership.DescribedMember, ...]) -> None:
    assert begins(refreshes(refreshes(in_vain(), *GROUP[1:], BACK), *members))


def test_an_operator_may_ask_for_another_attempt() -> None:
    play = refreshes(in_vain(), *GROUP[1:], BACK)
    play.send(membership.OrdersInForce("ann has ordered leave", ""))
    play.send(membership.OrdersInForce("", ""))
    assert begins(refreshes(play, *GROUP[1:], BACK))


# ---- the dry run -----------------------------------------------------------------------------------------------------


def test_a_plan_is_made_in_a_dry_run_before_anybody_is_disturbed() -> None:
    play = seeing()
    decide = play.sent(membership.Decide)
    assert (decide.dry, decide.generation, decide.own_member_id) == (True, DRY_RUN, "")
    assert [m.member_id for m in decide.members] == [LEADER, OTHER, THIRD]
    play.send(membership.ComparisonFailed(DRY_RUN, "its topology is not known"))
    assert play.state is State.WATCHING
    assert (NoteKind.WATCHING, "not taken over: its topology is not known") in play.notes()


def test_a_dry_run_that_ends_after_the_group_was_left_alone_begins_nothing() -> None:
    play = seeing().send(membership.OrdersInForce("an operator says so", ""))
    play.send(membership.StopRequested())
    assert play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False)).kinds() == []


def test_a_comparison_that_nobody_asked_for_begins_nothing() -> None:
    play = Play(adopt="take-over").coordinator_found()
    assert play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False)).kinds() == []
    assert play.state is State.WATCHING


def test_a_dry_run_that_ends_after_the_node_was_lost_begins_nothing() -> None:
    play = seeing().wake()
    play.failed(membership.Describe).send(membership.ComparisonReady(DRY_RUN, worth_moving=False))
    assert play.state is State.WATCHING
    assert play.wake().kinds() == ["FindCoordinator"]
    assert play.coordinator_found().kinds() == ["Describe"]


# ---- what is offered -------------------------------------------------------------------------------------------------


def test_what_the_group_uses_is_offered_first() -> None:
    join = dry_run_done(protocols=("cooperative-sticky",)).sent(membership.Join)
    assert [name for name, _ in join.protocols] == ["range", "cooperative-sticky"]


def test_what_the_group_used_is_offered_when_it_is_empty() -> None:
    play = stable(Play(adopt="succeed", protocols=("cooperative-sticky",)).coordinator_found())
    join = play.wake().described("Empty").sent(membership.Join)
    assert [name for name, _ in join.protocols] == ["range", "cooperative-sticky"]
