"""Events that come at odd moments, and small rules of a membership that no other story needs."""

import pytest

from bellwether_kafka.coordinator.membership import commands as c
from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.adoption import REHEARSAL
from bellwether_kafka.coordinator.membership.config import MembershipConfig, check_timing
from bellwether_kafka.coordinator.membership.member import State
from bellwether_kafka.coordinator.membership.rules import (
    NOT_TO_BE_CONVERTED,
    empty_assignment,
    subscription,
    with_own,
    without_sidecars,
)
from bellwether_kafka.coordinator.membership.takeover import BATCH
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.messages.streams_subscription import SubscriptionInfo
from bellwether_kafka.protocol.primitives.types import ProcessId
from tests.unit.coordinator.membership.playbook import ME, Play
from tests.unit.coordinator.membership.takeover_scenes import (
    BAD,
    GROUP,
    LEADER,
    client,
    dynamic_until_named,
    evicted,
    given,
    ids,
    parked,
    rehearsed,
    seeing,
    stable,
)

# ---- orders and turns ----------------------------------------------------------------------------------------------


def test_a_round_ordered_while_a_plan_is_made_follows_that_plan() -> None:
    play = Play().deciding().tell(e.RoundOrdered("an operator wants it"))
    assert play.kinds() == []
    play.planned().synced()
    joins = [x for x in (*play.last, *play.run(30)) if isinstance(x, c.Join)]
    assert joins, "the round that was ordered never began"


def test_a_round_ordered_by_nobodys_leader_is_no_round() -> None:
    play = Play().found()
    before = play.state
    play.tell(e.RoundOrdered("an operator wants it"))
    assert (play.state, play.kinds()) == (before, [])


def test_the_same_turn_told_twice_changes_nothing() -> None:
    play = Play().stable().tell(e.TurnChanged(ours=True, reason=""))
    assert (play.state, play.kinds()) == (State.STABLE, [])


def test_a_turn_that_comes_while_we_lead_already_starts_nothing() -> None:
    play = Play().stable().tell(e.TurnChanged(ours=False, reason="another leads"))
    play.tell(e.TurnChanged(ours=True, reason=""))
    assert "FindCoordinator" not in play.kinds()


def test_kept_out_before_it_is_a_member_it_waits_without_a_leave_group() -> None:
    play = Play().joining()
    assert play.state is State.JOINING
    play.tell(e.OrdersStand("an operator says so", ""))
    assert play.state is State.WATCHING
    assert "Leave" not in play.kinds()
    play.tell(e.OrdersStand("", ""))
    assert play.kinds() == ["Describe"], "let in again, it looks for its group"


def test_kept_out_while_it_leaves_it_leaves_once() -> None:
    play = Play().stable().tell(e.OrdersStand("an operator says so", ""))
    assert play.state is State.LEAVING
    play.tell(e.OrdersStand("an operator says it again", ""))
    assert "Leave" not in play.kinds()


def test_let_in_while_it_still_leaves_it_comes_back_afterwards() -> None:
    play = Play().stable().tell(e.OrdersStand("an operator says so", "")).tell(e.OrdersStand("", ""))
    assert (play.state, play.kinds()) == (State.LEAVING, [])
    assert play.left().state is State.WATCHING


def test_let_in_while_it_leads_it_leads_on() -> None:
    play = Play().stable().tell(e.OrdersStand("", "pause"))
    assert play.tell(e.OrdersStand("", "")).state is State.STABLE
    assert play.kinds() == []


def test_who_is_not_sure_of_its_broker_says_since_when() -> None:
    assert Play().stable().machine.doubt_since is None


# ---- taking over ---------------------------------------------------------------------------------------------------


def test_a_rehearsal_that_ends_after_the_group_was_left_alone_begins_nothing() -> None:
    play = seeing().tell(e.OrdersStand("an operator says so", ""))
    play.tell(e.StopRequested())
    assert play.tell(e.ComparisonReady(REHEARSAL, worth_moving=False)).kinds() == []


def test_a_comparison_that_nobody_asked_for_begins_nothing() -> None:
    play = Play(adopt="take-over").found()
    assert play.tell(e.ComparisonReady(REHEARSAL, worth_moving=False)).kinds() == []
    assert play.state is State.WATCHING


def test_a_request_that_nobody_waits_for_any_more_may_fail_during_a_takeover() -> None:
    play = rehearsed()
    play.tell(e.RequestFailed(9_999, e.Failure.DISCONNECTED, "an old one"))
    assert play.state is State.APPROACHING


def test_only_unsuitable_ids_until_time_is_up_end_the_attempt() -> None:
    play = rehearsed(roll_ms_max=100)
    play.later(1.0)
    given(play, "zzz-no-good")
    assert play.state is not State.APPROACHING or "Evict" in play.kinds()


def test_a_leave_of_the_leader_that_is_refused_ends_the_attempt() -> None:
    play = dynamic_until_named()
    assert play.sent(c.Evict).member_ids == (LEADER,)
    evicted(play, 29)
    assert play.state is not State.APPROACHING
    assert any("LEAVE of" in reason for _, reason in play.notes())


def test_a_batch_without_a_good_id_is_given_back_before_it_asks_on() -> None:
    play = rehearsed()
    for bad in ids(15, BATCH, prefix="no-good"):
        given(play, bad)
    assert len(play.sent(c.Evict).member_ids) == BATCH
    assert play.kinds() == ["Evict"], "not more than a batch of pending ids at a time"
    assert evicted(play).kinds() == ["Join"]


def test_an_order_that_no_broker_of_ours_has_ends_the_attempt_while_all_can_go_on() -> None:
    play = parked()
    us = client(BAD, "bw", "bellwether")
    play.wake().described("PreparingRebalance", GROUP[2], GROUP[0], us, GROUP[1])
    assert play.state is not State.APPROACHING
    assert any("in an order that we do not know" in reason for _, reason in play.notes())
    assert "barrier" in play.sent(c.Evict).member_ids, "nothing of ours stays in their way"


@pytest.mark.parametrize("people", [GROUP, GROUP[1:]], ids=["it is still there", "it has gone by itself"])
def test_a_leader_that_did_not_make_way_is_no_obstacle_for_ever(people: tuple[e.DescribedMember, ...]) -> None:
    play = dynamic_until_named()
    evicted(play, 29)
    play.left()
    for _ in range(20):
        if any(isinstance(x, c.Decide) for x in play.last):
            break
        play.wake()
        if any(isinstance(x, c.FindCoordinator) for x in play.last):
            play.found()
        if any(isinstance(x, c.Describe) for x in play.last):
            stable(play, *people)
    assert play.sent(c.Decide).generation == REHEARSAL


# ---- small rules ---------------------------------------------------------------------------------------------------


def test_sidecars_that_stand_by_for_each_other_share_an_instance_id() -> None:
    sentence = check_timing(MembershipConfig("orders", standby=True))
    assert sentence is not None
    assert "instance_id" in sentence


def test_a_takeover_must_fit_into_a_session() -> None:
    sentence = check_timing(MembershipConfig("orders", adopt="take-over", hold_ms_max=60_000))
    assert sentence is not None
    assert "would stall its members" in sentence


def test_our_own_empty_assignment_can_be_read_by_those_it_is_for() -> None:
    assert ConsumerProtocolAssignment.decode(empty_assignment()).user_data is None
    assert ConsumerProtocolAssignment.decode(empty_assignment(streams=True)).user_data


@pytest.mark.parametrize(("conversion", "marked"), [("allow", False), ("block", True)])
def test_only_where_conversion_is_blocked_our_assignment_carries_a_mark(conversion: str, marked: bool) -> None:
    config = MembershipConfig("orders", online_conversion=conversion)  # type: ignore[arg-type]  # one of its literals
    plan = dict(with_own((("a", b"plan"), (ME, b"nothing")), ME, config))
    assert plan["a"] == b"plan"
    data = ConsumerProtocolAssignment.decode(plan[ME]).user_data if marked else plan[ME]
    assert data == (NOT_TO_BE_CONVERTED if marked else b"nothing")


def test_a_sidecar_is_no_thread_of_an_application_and_what_cannot_be_read_may_be_one() -> None:
    thread = SubscriptionInfo(process_id=ProcessId(1, 2)).encode()
    people = (
        e.DescribedMember("us", None, subscription(("t",), streams=True)),
        e.DescribedMember("thread", None, ConsumerProtocolSubscription(3, ("t",), thread).encode()),
        e.DescribedMember("odd", None, b"\x00"),
    )
    left = without_sidecars(e.DescribeAnswer(1, 0, "Stable", members=people)).members
    assert [m.member_id for m in left] == ["thread", "odd"]
