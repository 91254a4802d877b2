"""Scenarios of a membership that waits for the leader of a group to go, and what holds under any leader."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NotLeading, Obstacle, State
from tests.kit.membership import Play, seen
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    GOOD,
    GROUP,
    LEADER,
    OTHER,
    THIRD,
    answered,
    client,
    given,
    has_waited,
    ids,
    stable,
    waiting,
    with_bellwether,
)


def test_a_rebalance_that_waits_for_a_member_is_joined_and_another_leader_left_at_once() -> None:
    play = Play(adopt="succeed").coordinator_found()
    began = play.now
    has_waited(play)
    assert play.now - began >= 4, "not in an ordinary round"
    assert given(play, GOOD).sent(membership.Join).member_id == GOOD
    answered(play, LEADER)
    assert play.kinds() == ["Leave"]


def test_whose_leader_had_gone_bellwether_leads() -> None:
    play = has_waited(Play(adopt="succeed").coordinator_found())
    answered(given(play, GOOD), GOOD)
    assert play.state is State.DECIDING
    assert not [command for command in play.seen if isinstance(command, membership.Evict)]


def test_a_group_at_rest_is_not_joined_to_succeed() -> None:
    assert stable(Play(adopt="succeed").coordinator_found()).kinds() == []


def test_a_follower_never_stays() -> None:
    """Whatever JoinGroup is answered with another leader is followed by LeaveGroup, and nothing is ever synced."""
    play = Play().joining().joined(leader="somebody")
    assert play.kinds() == ["Leave"]
    assert not [command for command in play.seen if isinstance(command, membership.Sync)]
    assert seen("x").member_id == "x"


def test_heartbeats_end_with_the_decision_deadline() -> None:
    """So that a process whose plan hangs and whose LeaveGroup is lost is expelled within its session."""
    play = Play().deciding()
    kinds = [type(command) for command in play.run(20.0) if isinstance(command, membership.Request)]
    assert kinds.count(membership.Heartbeat) == 3
    assert membership.Heartbeat not in kinds[kinds.index(membership.Leave) :]


# ---- before dead members are removed ---------------------------------------------------------------------------------

GUARDED = Obstacle(NotLeading.MEMBER_LEADS, "the application is exactly once")
BACK = client(ids(13, 1)[0], "leader")


def proven(
    play: Play, *dead: str, members: tuple[membership.DescribedMember, ...] = (*GROUP, BACK), state: str = ""
) -> Play:
    """The leader's process is back under another id, in a rebalance that waits for the one before."""
    answer = membership.DescribeAnswer(0, 0, state or "PreparingRebalance", "consumer", "", members)
    return play.send(membership.DeathsProven(answer, dead))


def watching(**settings: object) -> Play:
    """A group that may not be taken over, at rest under another leader."""
    return stable(Play(takeover_obstacle=GUARDED, **settings).coordinator_found())


def test_bellwether_is_in_front_before_a_dead_leader_is_removed_and_leads() -> None:
    """Ghosts of an exactly-once application were removed within 0.2 s, and the lead passed to a member each time."""
    play = proven(watching(), LEADER)
    assert play.sent(membership.Join).member_id == ""
    assert play.machine.view.in_front == ""
    given(play, GOOD)
    assert play.machine.view.in_front == GOOD
    answered(play, GOOD)
    assert play.state is State.DECIDING
    assert play.machine.view.in_front == ""
    assert not [command for command in play.seen if isinstance(command, membership.Evict)], (
        "the watch over ghosts removes it"
    )


def test_with_an_instance_id_it_is_in_front_once_the_group_lists_it() -> None:
    play = proven(watching(instance_id="bellwether"), LEADER)
    given(play, "blocker")
    assert play.machine.view.in_front == ""
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    assert play.machine.view.in_front == GOOD


@pytest.mark.parametrize("adopt", ["succeed", "take-over"])
def test_whatever_may_be_taken_over_later_is_led_when_a_leader_dies(adopt: str) -> None:
    assert proven(stable(Play(adopt=adopt).coordinator_found()), LEADER).state is State.APPROACHING


def test_who_waits_for_an_empty_group_comes_into_no_rebalance() -> None:
    assert proven(stable(Play(adopt="when-empty").coordinator_found()), LEADER).state is State.WATCHING


def test_another_leader_is_left_at_once_and_remembered() -> None:
    """It costs one rebalance, once: from then on Bellwether waits for that member."""
    play = answered(given(proven(watching(), LEADER), GOOD), OTHER)
    assert play.kinds() == ["Leave"]
    play.left()
    stable(play.wake(), *GROUP[1:], BACK)
    assert proven(play, THIRD, members=(*GROUP[1:], BACK)).state is State.WATCHING
    assert proven(play, OTHER, members=(*GROUP[1:], BACK)).state is State.APPROACHING, "without a wait"


def test_who_would_not_lead_anyway_does_not_come() -> None:
    """In the first bucket of the broker's table it sorts before every new id. If the leader is removed it leads."""
    first = client(ids(0, 1)[0], "first")
    crowd = (first, *GROUP, BACK)
    play = proven(stable(watching().wake(), first, *GROUP), LEADER, members=crowd)
    assert play.state is State.WATCHING
    assert play.kinds() == []
    assert proven(play, first.member_id, members=crowd).state is State.APPROACHING


@pytest.mark.parametrize("state", ["CompletingRebalance", "Empty", "Dead"])
def test_no_rebalance_is_opened_beside_one_that_has_just_ended(state: str) -> None:
    assert proven(watching(), LEADER, state=state).state is State.WATCHING


def test_it_keeps_out_while_an_operator_says_so_and_after_a_setback() -> None:
    ordered = watching().send(membership.OrdersInForce("ann has ordered leave", ""))
    assert proven(ordered, LEADER).state is State.WATCHING
    set_back = watching()
    set_back.machine._core.policy.set_back(set_back.now, Obstacle(NotLeading.NO_PLAN, "no topology"))
    assert proven(set_back, LEADER).state is State.WATCHING


def test_no_id_in_time_leaves_the_removal_to_others() -> None:
    play = proven(watching(roll_ms_max=100), LEADER)
    play.later(1.0)
    given(play, ids(15, 1, prefix="bellwether")[0])
    assert play.state is State.WATCHING
    assert play.machine.view.in_front == ""


def test_a_death_that_is_proven_elsewhere_does_not_disturb_a_leader() -> None:
    play = Play().stable()
    assert proven(play, "a", members=(seen("a"),)).kinds() == []
    assert play.state is State.STABLE
    assert waiting(watching().wake()).kinds() == []
