"""Scenarios of members that come before any new id: the table grows for them, or they are removed with the leader."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NotLeading, SizeLimit, State
from tests.kit.membership import DRY_RUN, Play
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    ALWAYS_FRONT,
    COOPERATIVE,
    FIVE,
    FOUR,
    FRONT,
    GOOD,
    GROUP_MAX_SIZE_REACHED,
    IN_PROGRESS,
    LEADER,
    REQUIRED,
    UNKNOWN,
    answered,
    client,
    dry_run_done,
    evicted,
    evictions,
    gathered,
    gathering,
    given,
    growing,
    in_order,
    joins,
    seeing,
    shrinking,
    stable,
)

ALWAYS = client(ALWAYS_FRONT, "always")
TEMPORARY = tuple(f"t-{number}" for number in range(1, 10))


# ---- the table grows -------------------------------------------------------------------------------------------------


def test_temporary_members_reserve_ids_at_rest_each_on_a_connection_of_its_own() -> None:
    play = gathering(instance_id="bellwether")
    asked = joins(play)
    assert [(join.member_id, join.instance_id) for join in asked] == [("", None)] * 9
    assert [join.lane for join in asked] == list(range(2, 11)), "lanes 0 and 1 are Bellwether's own"


def test_a_group_in_which_an_id_sorts_first_needs_no_temporary_member() -> None:
    assert len(joins(dry_run_done(size_limit=SizeLimit(1_000)))) == 1


def test_temporary_members_come_only_when_the_rebalance_is_held_open_and_leave_before_bellwether_comes() -> None:
    play = gathered(instance_id="bellwether")
    assert [join.lane for join in joins(play)] == [1], "the barrier"
    came = joins(given(play, "blocker"))
    assert [join.member_id for join in came] == list(TEMPORARY)
    assert len({join.lane for join in came}) == 9
    play.wake().described("PreparingRebalance", *in_order(*FOUR, client("t-1", "bw")))
    assert play.kinds() == [], "eight are missing"
    play.wake().described("PreparingRebalance", *in_order(*FOUR, *(client(m, "bw") for m in TEMPORARY)))
    assert evictions(play) == [(TEMPORARY, None)]
    evicted(play)
    assert [join.instance_id for join in joins(play)] == ["bellwether"]
    assert "Abandon" in play.kinds(), "their connections are dropped"


def test_an_id_that_was_no_good_in_the_small_table_leads_in_the_large_one() -> None:
    play = evicted(shrinking())
    assert play.sent(membership.Join).member_id == GOOD
    assert answered(play, LEADER).synced().sent(membership.Evict).member_ids == (LEADER,), "the one in front stays"


def test_a_table_that_the_broker_lists_in_another_order_than_it_should_ends_the_attempt() -> None:
    play = growing().wake()
    others = (client(m, "bw") for m in TEMPORARY)
    play.described("PreparingRebalance", *reversed(in_order(*FOUR, *others)))
    assert evicted(play).state is State.WATCHING
    assert any("unknown order" in reason for _, reason in play.notes())


@pytest.mark.parametrize("when", ["growing", "shrinking"])
@pytest.mark.parametrize("instance_id", ["bellwether", None])
def test_an_attempt_that_ends_early_gives_all_temporary_members_back(when: str, instance_id: str | None) -> None:
    settings = {} if instance_id is None else {"instance_id": instance_id}
    play = {"growing": growing, "shrinking": shrinking}[when](**settings)
    play.send(membership.OrdersInForce("an operator says so", ""))
    assert {*TEMPORARY} <= {member_id for ids, _ in evictions(play) for member_id in ids}
    assert "Abandon" in play.kinds()
    assert play.state is State.WATCHING


def test_ids_that_do_not_come_in_time_end_the_attempt_before_any_member_notices() -> None:
    play = gathering()
    play.send(membership.JoinAnswer(joins(play)[0].request_id, REQUIRED, member_id="t-1"))
    assert play.wake().state is State.WATCHING
    assert evictions(play) == []
    play.wake().described("PreparingRebalance", *FOUR)
    assert evictions(play) == [(("t-1",), None)]


def test_answers_to_temporary_members_that_leave_say_nothing_before_and_after_that_to_their_leave() -> None:
    """Found by simulation: the broker answers parked JoinGroups on other connections, and so perhaps earlier."""
    play = growing()
    early, late, *_ = joins(play)
    play.wake().described("PreparingRebalance", *in_order(*FOUR, *(client(m, "bw") for m in TEMPORARY)))
    assert play.send(membership.JoinAnswer(early.request_id, UNKNOWN)).kinds() == []
    assert evicted(play).sent(membership.Join).member_id == GOOD
    assert play.send(membership.JoinAnswer(late.request_id, UNKNOWN)).kinds() == []
    assert play.state is State.APPROACHING


# ---- the brokers' limit of group sizes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("size_max", "grows"), [(1_000, True), (15, True), (14, False), (None, False)])
def test_a_group_never_becomes_so_full_that_the_broker_would_refuse_its_members(
    size_max: int | None, *, grows: bool
) -> None:
    play = dry_run_done(members=FOUR, size_limit=SizeLimit(size_max))
    assert len(joins(play)) == (9 if grows else 0)


UNKNOWN_LIMIT = SizeLimit(unknown="2 of 3 brokers are silent", remedy="wait until Bellwether asks again")


def test_an_unknown_limit_is_named_with_its_reason_and_what_helps() -> None:
    role = seeing(members=FOUR, size_limit=UNKNOWN_LIMIT).machine.view.role
    assert role.reason is NotLeading.BLOCKED
    assert "2 of 3 brokers are silent, so their table is not made to grow" in role.detail
    assert "wait until Bellwether asks again, or restart it" in role.detail


def test_a_take_over_is_considered_again_when_the_limit_becomes_known() -> None:
    """In a trial the brokers were busy at the start, and the group stayed blocked for as long as Bellwether ran."""
    play = seeing(members=FOUR, size_limit=UNKNOWN_LIMIT)
    assert play.kinds() == []
    play.send(membership.SizeLimitRead(SizeLimit(1_000)))
    stable(play.wake(), *FOUR)
    assert len(joins(play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False)))) == 9


def test_a_limit_that_stays_unknown_has_the_reason_of_the_last_answer() -> None:
    play = seeing(members=FOUR, size_limit=UNKNOWN_LIMIT)
    play.send(membership.SizeLimitRead(SizeLimit(unknown="a right is missing", remedy="grant it")))
    assert "a right is missing" in stable(play.wake(), *FOUR).machine.view.role.detail


def test_a_broker_that_refuses_a_temporary_member_is_asked_for_fewer() -> None:
    play = growing()
    play.send(membership.JoinAnswer(joins(play)[0].request_id, GROUP_MAX_SIZE_REACHED))
    assert evictions(play) == [(TEMPORARY, None)]
    evicted(play)
    assert play.state is State.WATCHING, "not fatal: Bellwether itself had room"
    stable(play.run(30) and play, *FOUR)
    assert play.kinds() == [], "no smaller table would do"
    assert FRONT in play.machine.view.role.detail


def test_after_a_refusal_the_attempt_goes_on_where_the_table_as_it_is_will_do() -> None:
    """Five members, of which one comes before any new id in 16 buckets: it is removed with the leader."""
    play = dry_run_done(members=(client(FRONT, "front"), *FIVE), size_limit=SizeLimit(1_000))
    for number, join in enumerate(joins(play), 1):
        play.send(membership.JoinAnswer(join.request_id, REQUIRED, member_id=f"t-{number}"))
    given(play, GOOD)
    play.send(membership.JoinAnswer(joins(play)[0].request_id, GROUP_MAX_SIZE_REACHED))
    evicted(play)
    assert answered(play, LEADER).synced().sent(membership.Evict).member_ids == (LEADER, FRONT)


# ---- one more is removed ---------------------------------------------------------------------------------------------


def in_front(**settings: object) -> Play:
    """Six members, of which one comes before any new id in every table."""
    return given(dry_run_done(members=(ALWAYS, *FIVE), **settings), GOOD)


def test_who_would_lead_next_is_removed_with_the_leader_in_one_request() -> None:
    play = answered(in_front(), LEADER).synced()
    assert play.sent(membership.Evict).member_ids == (LEADER, ALWAYS_FRONT)
    evicted(play)
    rest = (client(GOOD, "bw"), *FIVE[1:])
    play.described("PreparingRebalance", *rest, client("m-new", "leader"))
    assert play.kinds() == [], "the other one is not back"
    play.wake().described("PreparingRebalance", *rest, client("m-new", "leader"), client("a-new", "always"))
    assert play.sent(membership.Join).member_id == GOOD
    assert answered(play, GOOD, generation=6).sent(membership.Decide).removed == (LEADER, ALWAYS_FRONT)


def test_two_of_one_client_are_both_waited_for() -> None:
    same_clients = (client(ALWAYS_FRONT, "leader"), *FIVE)
    play = answered(given(dry_run_done(members=same_clients), GOOD), LEADER).synced()
    evicted(play).described("PreparingRebalance", *FIVE[1:], client("m-new", "leader"))
    assert play.kinds() == []
    play.wake().described("PreparingRebalance", *FIVE[1:], client("m-new", "leader"), client("m-newer", "leader"))
    assert play.sent(membership.Join).member_id == GOOD


def test_a_leader_in_front_is_removed_alone() -> None:
    assert answered(in_front(), ALWAYS_FRONT).synced().sent(membership.Evict).member_ids == (ALWAYS_FRONT,)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_never_half_of_the_group_is_removed_so_nothing_begins(size: int) -> None:
    play = seeing(members=(ALWAYS, *FIVE[: size - 1]), size_limit=SizeLimit(1_000))
    assert play.kinds() == []
    detail = play.machine.view.role.detail
    assert f"{ALWAYS_FRONT} might lead after the leader, which is not known before Bellwether joins" in detail
    assert f"1 of {size} members may be removed" in detail
    assert "restart it" in detail


def test_a_single_member_is_the_leader_wherever_it_is() -> None:
    play = given(dry_run_done(members=(ALWAYS,)), GOOD)
    assert answered(play, ALWAYS_FRONT).synced().sent(membership.Evict).member_ids == (ALWAYS_FRONT,)


def test_one_may_be_the_limit() -> None:
    assert seeing(members=(ALWAYS, *FIVE), evictions_max=1).kinds() == []


def test_members_with_parked_requests_are_removed_when_the_leader_is_out() -> None:
    """A leader plans for so long that the others' SyncGroups are parked, which the broker forgets with their member."""
    play = answered(in_front(), LEADER).wake()
    assert play.sent(membership.Evict).member_ids == (LEADER,)
    assert evicted(play).sent(membership.Evict).member_ids == (ALWAYS_FRONT,)
    assert evicted(play).kinds() == ["Describe"]


def test_a_streams_leader_is_removed_with_another_only_when_its_assignment_is_in_effect() -> None:
    play = answered(in_front(), LEADER, protocol="stream")
    assert play.kinds() == ["Sync"]
    assert play.synced(IN_PROGRESS).sent(membership.Evict).member_ids == (LEADER, ALWAYS_FRONT)


def test_cooperative_members_are_removed_together_in_the_second_rebalance() -> None:
    play = given(dry_run_done(COOPERATIVE, members=(ALWAYS, *FIVE)), GOOD).later(0.7)
    answered(play, LEADER, protocol=COOPERATIVE)
    given(play, "blocker")
    assert play.wake().sent(membership.Evict).member_ids == (LEADER, ALWAYS_FRONT)
