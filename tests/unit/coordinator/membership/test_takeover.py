"""Stories of a membership on its way into a group that somebody else leads."""

import pytest

from bellwether_kafka.coordinator.membership import commands as c
from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.adoption import REHEARSAL
from bellwether_kafka.coordinator.membership.commands import NoteKind
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.rules import subscription
from bellwether_kafka.coordinator.membership.takeover_policy import proven
from bellwether_kafka.coordinator.membership.transitions import State
from tests.unit.coordinator.membership.playbook import Play
from tests.unit.coordinator.membership.takeover_scenes import (
    ALSO_BAD,
    BAD,
    COOPERATIVE,
    FENCED,
    GOOD,
    GROUP,
    GROUP_MAX_SIZE_REACHED,
    IN_PROGRESS,
    LEADER,
    OTHER,
    REQUIRED,
    THIRD,
    UNKNOWN,
    WORSE,
    answered,
    client,
    dynamic_until_named,
    evicted,
    evictions,
    given,
    ids,
    parked,
    rehearsed,
    seeing,
    stable,
    with_us,
)

# ---- before anything is done ---------------------------------------------------------------------------------------


def test_nothing_is_joined_when_empty_is_waited_for() -> None:
    assert stable(Play().found()).kinds() == []


def test_a_plan_is_rehearsed_before_anybody_is_disturbed() -> None:
    play = seeing()
    decide = play.sent(c.Decide)
    assert (decide.dry, decide.generation, decide.own_member_id) == (True, REHEARSAL, "")
    assert [m.member_id for m in decide.members] == [LEADER, OTHER, THIRD]
    play.tell(e.ComparisonFailed(REHEARSAL, "its topology is not known"))
    assert play.state is State.WATCHING
    assert (NoteKind.WATCHING, "not taken over: its topology is not known") in play.notes()


def test_a_guard_keeps_it_away_and_says_so_once() -> None:
    play = seeing(takeover_guard="stores are not declared")
    assert play.kinds() == []
    stable(play.wake())
    assert play.notes() == [(NoteKind.WATCHING, "not taken over: stores are not declared")]


@pytest.mark.parametrize(("version", "allowed"), [((4, 3), True), ((3, 9), True), ((3, 8), False), ((), False)])
def test_brokers_that_were_never_tried_are_only_succeeded(version: tuple[int, ...], allowed: bool) -> None:
    config = MembershipConfig("orders", adopt="take-over")
    assert (proven(config, version).takeover_guard == "") == allowed
    assert proven(MembershipConfig("orders"), version) == MembershipConfig("orders")


def test_an_unknown_order_keeps_it_away() -> None:
    backwards = [client(ids(b, 1)[0], str(b)) for b in (15, 9, 5, 1)]
    play = stable(Play(adopt="take-over").found(), *backwards)
    assert play.kinds() == []
    assert "in an order that we do not know" in play.notes()[0][1]


def test_another_sidecar_is_left_its_group() -> None:
    """Found by simulation: two that share no instance id took a group from each other, three times an hour each."""
    rival = e.DescribedMember("rival-1", "rival", subscription(()), b"a", "bellwether", "/127.0.0.1")
    play = stable(Play(adopt="take-over").found(), *GROUP, rival)
    assert play.kinds() == []
    assert "rival-1 is another sidecar" in play.notes()[-1][1]
    stable(play.wake())
    assert play.kinds() == ["Decide"]


def test_what_the_group_uses_is_offered_first() -> None:
    join = rehearsed(protocols=("cooperative-sticky",)).sent(c.Join)
    assert [name for name, _ in join.protocols] == ["range", "cooperative-sticky"]


def test_what_the_group_used_is_offered_when_it_is_empty() -> None:
    play = stable(Play(adopt="succeed", protocols=("cooperative-sticky",)).found())
    join = play.wake().described("Empty").sent(c.Join)
    assert [name for name, _ in join.protocols] == ["range", "cooperative-sticky"]


# ---- without an instance id ----------------------------------------------------------------------------------------


def test_ids_that_do_not_sort_first_are_given_back_before_it_joins() -> None:
    play = rehearsed()
    assert (play.sent(c.Join).member_id, play.sent(c.Join).instance_id) == ("", None)
    assert given(play, BAD).sent(c.Join).member_id == ""
    assert given(play, GOOD).sent(c.Evict).member_ids == (BAD,)
    assert evicted(play).sent(c.Join).member_id == GOOD


def test_ids_that_are_to_spare_hold_the_round_of_cooperative_members_and_open_the_next() -> None:
    play = rehearsed(COOPERATIVE)
    for bad in (BAD, ALSO_BAD, WORSE):
        assert given(play, bad).sent(c.Join).member_id == ""
    assert given(play, GOOD).sent(c.Evict).member_ids == (BAD,)
    evicted(play)
    assert [command.member_id for command in play.last if isinstance(command, c.Join)] == [GOOD, WORSE]
    assert evictions(play) == [((WORSE,), 1), ((ALSO_BAD,), None)], "the last one held the round open until then"


def test_an_id_that_is_to_spare_opens_the_second_round() -> None:
    play = given(given(rehearsed(COOPERATIVE), BAD), GOOD)
    own, spare = (command for command in play.last if isinstance(command, c.Join))
    assert (own.member_id, spare.member_id) == (GOOD, BAD)
    assert (play.sent(c.Evict).member_ids, play.sent(c.Evict).lane) == ((BAD,), spare.lane)
    assert spare.lane != own.lane


def test_the_leader_is_removed_once_and_we_come_back_when_it_has() -> None:
    play = dynamic_until_named()
    assert play.sent(c.Evict).member_ids == (LEADER,)
    assert evicted(play).kinds() == ["Describe"]
    without = (client(GOOD, "bw"), *GROUP[1:])
    play.described("PreparingRebalance", *without)
    assert play.kinds() == [], "the round stays open"
    play.wake().described("PreparingRebalance", *without, client("m-new", "leader"))
    assert play.sent(c.Join).member_id == GOOD
    answered(play, GOOD, generation=6)
    assert play.state is State.DECIDING
    decide = play.sent(c.Decide)
    assert (decide.generation, decide.removed) == (6, (LEADER,))
    assert [kind for kind, _ in play.notes()] == [NoteKind.ADOPTED]


def test_it_does_not_wait_for_ever_for_the_leader() -> None:
    play = evicted(dynamic_until_named(roll_ms_max=250, hold_ms_max=250))
    for _ in range(60):
        play.described("PreparingRebalance", *GROUP[1:])
        if "Join" in play.kinds():
            break
        play.wake()
    assert play.sent(c.Join).member_id == GOOD


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
    assert play.sent(c.Leave).member_id == GOOD
    assert play.left().state is State.WATCHING


def test_who_would_lead_before_us_is_known_before_anybody_is_removed() -> None:
    first = client(ids(0, 1)[0], "first")
    play = stable(Play(adopt="take-over").found(), first, *GROUP)
    play.tell(e.ComparisonReady(REHEARSAL, worth_moving=False))
    answered(given(play, GOOD), LEADER)
    assert play.kinds() == ["Leave"]
    assert f"and {first.member_id} would be next" in play.notes()[-1][1]
    stable(play.left().run(30) and play, first, *GROUP)
    assert play.kinds() == [], "nothing is tried again while both are there"


def test_the_first_of_all_is_removed_if_it_leads() -> None:
    first = client(ids(0, 1)[0], "first")
    play = stable(Play(adopt="take-over").found(), first, *GROUP)
    play.tell(e.ComparisonReady(REHEARSAL, worth_moving=False))
    assert answered(given(play, GOOD), first.member_id).synced().sent(c.Evict).member_ids == (first.member_id,)


def test_attempts_are_bounded() -> None:
    play = Play(adopt="take-over", takeover_attempts_max=2, readopt_ms=10, readopt_ms_max=10).found()
    for _ in range(2):
        stable(play).tell(e.ComparisonReady(REHEARSAL, worth_moving=False))
        play.refused(15)
        play.left().wake() if play.state is State.LEAVING else play.wake()
    stable(play)
    assert play.kinds() == []
    assert "tried 2 times within an hour" in play.notes()[-1][1]


def test_an_id_must_sort_first_in_the_table_that_our_coming_makes_grow() -> None:
    """Twelve members fill a table of sixteen buckets; the thirteenth doubles it, and bucket 0 becomes two."""
    crowd = tuple(client(member_id, member_id) for bucket in range(3, 15) for member_id in ids(bucket, 1))
    late = ids(16, 1, prefix="late")[0]
    play = stable(Play(adopt="take-over").found(), *crowd).tell(e.ComparisonReady(REHEARSAL, worth_moving=False))
    assert given(play, late).sent(c.Join).member_id == "", "another one is asked for"
    assert evicted(given(play, GOOD)).sent(c.Join).member_id == GOOD


# ---- with an instance id -------------------------------------------------------------------------------------------


def test_a_static_id_is_replaced_in_the_round_until_it_sorts_first() -> None:
    play = parked()
    first = play.requests[c.Join]
    play.wake().described("PreparingRebalance", *GROUP)
    play.wake().described("PreparingRebalance", *with_us(BAD))
    assert (play.sent(c.Join).member_id, play.sent(c.Join).lane) == ("", 1)
    again = play.sent(c.Join)
    play.tell(e.JoinAnswer(first, FENCED, member_id=BAD))
    assert play.kinds() == ["Describe"]
    play.described("PreparingRebalance", *with_us(GOOD))
    comes = play.sent(c.Join)
    assert (comes.member_id, comes.instance_id, comes.lane) == ("opener", None, 0)
    assert evictions(play) == [(("opener",), 0), (("barrier",), None)], "the first one is read when the round has ended"
    play.requests[c.Join] = again.request_id
    assert answered(play, LEADER, protocol=COOPERATIVE).kinds() == [], "the opener opens the second round"
    play.wake()
    assert (play.sent(c.Evict).member_ids, play.sent(c.Evict).lane) == ((LEADER,), None)
    evicted(play).described("PreparingRebalance", *with_us(GOOD)[:1], *GROUP[1:], client("m-new", "leader"))
    join = play.sent(c.Join)
    assert (join.member_id, join.instance_id, join.lane) == (GOOD, "bellwether", 0)
    assert answered(play, GOOD).state is State.DECIDING


def test_answers_about_the_barrier_may_come_at_any_time() -> None:
    play = parked()
    own = play.requests[c.Join]
    play.wake().described("PreparingRebalance", *with_us(GOOD))
    came = play.requests[c.Join]
    opened, released = (command.request_id for command in play.last if isinstance(command, c.Evict))
    play.tell(e.JoinAnswer(own, 0, generation=5, protocol=COOPERATIVE, leader=LEADER, member_id=GOOD))
    play.tell(e.JoinAnswer(came, 0, generation=5, protocol="range", leader=LEADER, member_id="opener"))
    assert play.kinds() == []
    assert play.wake().sent(c.Evict).member_ids == (LEADER,)
    leader = play.requests[c.Evict]
    assert play.tell(e.LeaveAnswer(opened, 0)).kinds() == []
    assert play.tell(e.LeaveAnswer(released, 0)).kinds() == []
    assert play.tell(e.LeaveAnswer(leader, 0)).kinds() == ["Describe"]


def test_who_leads_already_when_the_round_ends_goes_on_from_there() -> None:
    play = parked()
    own = play.requests[c.Join]
    play.wake().described("PreparingRebalance", *with_us(GOOD))
    came, play.requests[c.Join] = play.requests[c.Join], own
    assert answered(play, GOOD).state is State.DECIDING
    play.tell(e.JoinAnswer(came, 0, generation=5, protocol="range", leader=GOOD, member_id="opener"))
    assert play.machine.member_id == GOOD, "the opener is not us, and leaves by itself"
    assert play.state is State.DECIDING


def test_eager_members_are_not_called_back_before_they_have_worked() -> None:
    play = rehearsed(instance_id="bellwether")
    given(play, "barrier")
    play.wake().described("PreparingRebalance", *with_us(GOOD))
    assert evictions(play) == [(("barrier",), None)]
    assert answered(evicted(play), LEADER).synced().sent(c.Evict).member_ids == (LEADER,)
    evicted(play).described("PreparingRebalance", *with_us(GOOD)[:1], *GROUP[1:], client("m-new", "leader"))
    assert (play.sent(c.Join).member_id, play.sent(c.Join).instance_id) == (GOOD, "bellwether")
    assert answered(play, GOOD).state is State.DECIDING


def test_the_round_is_held_until_there_is_an_opener() -> None:
    play = rehearsed(COOPERATIVE, instance_id="bellwether")
    given(play, "barrier")
    play.wake().described("PreparingRebalance", *with_us(GOOD))
    assert play.kinds() == []
    given(play, "opener")
    assert evictions(play) == [(("opener",), 1), (("barrier",), None)]


def test_a_group_without_room_for_a_barrier_is_given_up_with_the_brokers_reason() -> None:
    """It was waited for in vain, for ever."""
    play = rehearsed(instance_id="bellwether").refused(GROUP_MAX_SIZE_REACHED)
    assert "group.max.size" in play.sent(c.Fatal).message


def test_where_there_is_no_room_for_an_opener_the_barrier_opens_the_second_round() -> None:
    play = rehearsed(COOPERATIVE, instance_id="bellwether")
    opener = next(j for j in given(play, "barrier").last if isinstance(j, c.Join) and j.instance_id is None)
    play.wake().described("PreparingRebalance", *with_us(GOOD))
    play.tell(e.JoinAnswer(opener.request_id, GROUP_MAX_SIZE_REACHED))
    assert play.sent(c.Join).member_id == "barrier"
    assert evictions(play) == [(("barrier",), 1)]


def test_no_good_id_in_time_gives_everything_back() -> None:
    play = parked()
    play.later(3).wake().described("PreparingRebalance", *with_us(BAD))
    assert play.sent(c.Evict).member_ids == ("barrier", "opener")
    leave = play.sent(c.Leave)
    assert (leave.member_id, leave.instance_id) == ("", "bellwether")
    assert play.left().state is State.WATCHING


@pytest.mark.parametrize("story", ["stopped", "unreachable"])
def test_whatever_ends_it_leaves_nothing_behind(story: str) -> None:
    play = parked()
    if story == "stopped":
        play.tell(e.StopRequested())
    else:
        play.failed(c.Join)
    assert "Evict" in play.kinds()
    assert play.sent(c.Evict).member_ids == ("barrier", "opener")
    assert play.sent(c.Leave).instance_id == "bellwether"
    assert play.left().state is (State.STOPPED if story == "stopped" else State.WATCHING)


def test_an_order_to_leave_ends_the_attempt_and_leaves_nothing_behind() -> None:
    play = parked().tell(e.OrdersStand("an operator says so", ""))
    assert play.sent(c.Evict).member_ids == ("barrier", "opener")
    assert play.sent(c.Leave).instance_id == "bellwether"
    assert play.left().state is State.WATCHING
    assert play.tell(e.OrdersStand("", "")).kinds() == ["Describe"]
    stable(play)
    assert play.wake().kinds() == ["Describe"], "it goes on watching"


def test_a_rehearsal_that_ends_after_the_node_was_lost_begins_nothing() -> None:
    play = seeing().wake()
    play.failed(c.Describe).tell(e.ComparisonReady(REHEARSAL, worth_moving=False))
    assert play.state is State.WATCHING
    assert play.wake().kinds() == ["FindCoordinator"]
    assert play.found().kinds() == ["Describe"]


def test_a_description_that_comes_after_the_lead_says_nothing() -> None:
    play = parked()
    own = play.requests[c.Join]
    play.wake()
    play.requests[c.Join] = own
    assert answered(play, GOOD).state is State.DECIDING
    play.described("CompletingRebalance", *with_us(GOOD))
    assert (play.state, play.kinds()) == (State.DECIDING, [])


# ---- when the leader is removed: never while its SyncGroup may be parked, because the broker forgets it -------------


def test_an_eager_leaders_assignment_stands_before_it_is_removed() -> None:
    play = answered(given(rehearsed(), GOOD), LEADER)
    assert play.kinds() == ["Sync"]
    assert play.sent(c.Sync).assignments == ()
    assert play.synced(IN_PROGRESS).sent(c.Evict).member_ids == (LEADER,), "somebody else has opened a round"


def test_a_follower_whose_sync_is_refused_gives_up() -> None:
    assert answered(given(rehearsed(), GOOD), LEADER).synced(UNKNOWN).kinds() == ["Leave"]


def test_an_eager_leader_that_plans_for_ever_is_removed_all_the_same() -> None:
    play = answered(given(rehearsed(), GOOD), LEADER).wake()
    assert play.kinds() == ["Abandon", "Evict"]
    assert play.sent(c.Evict).member_ids == (LEADER,)


def test_a_leader_of_streams_is_removed_before_it_has_planned() -> None:
    play = answered(given(rehearsed(), GOOD), LEADER, protocol="stream")
    assert play.sent(c.Evict).member_ids == (LEADER,)


def test_a_cooperative_leader_is_removed_when_members_have_had_the_time_of_the_first_round() -> None:
    play = parked()
    own = play.requests[c.Join]
    play.wake().described("PreparingRebalance", *with_us(GOOD))
    play.requests[c.Join] = own
    answered(play.later(0.7), LEADER, protocol="cooperative-sticky")
    assert play.kinds() == []
    began = play.now
    assert play.wake().sent(c.Evict).member_ids == (LEADER,)
    assert 0.6 < play.now - began < 0.9


def cooperative() -> Play:
    """In the second round, after a first one for which members needed 0.7 s; the first id was good: none is spare."""
    return answered(given(rehearsed(COOPERATIVE), GOOD).later(0.7), LEADER, protocol=COOPERATIVE)


def test_a_second_round_without_a_spare_id_is_opened_by_a_changed_list_and_held_by_a_barrier() -> None:
    play = cooperative()
    again, barrier = (command for command in play.last if isinstance(command, c.Join))
    assert (again.member_id, again.lane, barrier.member_id, barrier.lane) == (GOOD, 0, "", 1)
    names = [name for name, _ in again.protocols]
    assert names[:-1] == [name for name, _ in barrier.protocols], "one name more opens the round"
    began = play.now
    given(play, "barrier-2")
    assert play.kinds() == [], "nobody is removed before the others are back"
    assert play.wake().sent(c.Evict).member_ids == (LEADER,)
    assert 0.6 < play.now - began < 0.9, "as long as the first round took"
    evicted(play).described("PreparingRebalance", *with_us(GOOD)[:1], *GROUP[2:], client("m-new", "leader"))
    assert play.sent(c.Evict).member_ids == ("barrier-2",)
    release, play.requests[c.Join] = play.requests[c.Evict], again.request_id
    assert answered(play, GOOD, generation=6, protocol="cooperative-sticky").state is State.DECIDING
    play.tell(e.LeaveAnswer(release, 0))
    assert play.state is State.DECIDING, "the answer about the barrier is not about us"


def test_nobody_is_removed_before_the_second_round_is_held_open() -> None:
    play = cooperative()
    barrier = play.requests[c.Join]
    assert play.wake().kinds() == []
    play.tell(e.JoinAnswer(barrier, REQUIRED, member_id="barrier-2"))
    assert play.wake().sent(c.Evict).member_ids == (LEADER,)


def test_a_second_round_that_ends_too_soon_is_followed_by_a_third() -> None:
    play = cooperative()
    (again, _) = (command for command in play.last if isinstance(command, c.Join))
    given(play, "barrier-2")
    play.requests[c.Join] = again.request_id
    answered(play, LEADER, generation=6, protocol="cooperative-sticky")
    assert [name for name, _ in play.sent(c.Join).protocols] != [name for name, _ in again.protocols]


def test_a_barrier_is_given_back_when_the_lead_has_come_early() -> None:
    play = cooperative()
    (again, _) = (command for command in play.last if isinstance(command, c.Join))
    given(play, "barrier-2")
    play.requests[c.Join] = again.request_id
    answered(play, GOOD, generation=6, protocol="cooperative-sticky")
    assert play.state is State.DECIDING
    assert play.sent(c.Evict).member_ids == ("barrier-2",)
