"""Stories of a membership that waits for the leader of a group to go, and what holds under any leader."""

from bellwether_kafka.coordinator.membership import commands as c
from bellwether_kafka.coordinator.membership.transitions import State
from tests.unit.coordinator.membership.playbook import Play, seen
from tests.unit.coordinator.membership.takeover_scenes import GOOD, LEADER, answered, given, has_waited, stable


def test_a_round_that_waits_for_somebody_is_joined_and_another_leader_left_at_once() -> None:
    play = Play(adopt="succeed").found()
    began = play.now
    has_waited(play)
    assert play.now - began >= 4, "not in an ordinary round"
    assert given(play, GOOD).sent(c.Join).member_id == GOOD
    answered(play, LEADER)
    assert play.kinds() == ["Leave"]


def test_whose_leader_had_gone_we_lead() -> None:
    play = has_waited(Play(adopt="succeed").found())
    answered(given(play, GOOD), GOOD)
    assert play.state is State.DECIDING
    assert not [command for command in play.seen if isinstance(command, c.Evict)]


def test_a_group_at_rest_is_not_joined_to_succeed() -> None:
    assert stable(Play(adopt="succeed").found()).kinds() == []


def test_a_follower_never_stays() -> None:
    """Whatever JoinGroup is answered with another leader is followed by LeaveGroup, and nothing is ever synced."""
    play = Play().joining().joined(leader="somebody")
    assert play.kinds() == ["Leave"]
    assert not [command for command in play.seen if isinstance(command, c.Sync)]
    assert seen("x").member_id == "x"


def test_heartbeats_end_with_the_decision_deadline() -> None:
    """So that a process whose plan hangs and whose LeaveGroup is lost is expelled within its session."""
    play = Play().deciding()
    kinds = [type(command) for command in play.run(20.0) if isinstance(command, c.Request)]
    assert kinds.count(c.Heartbeat) == 3
    assert c.Heartbeat not in kinds[kinds.index(c.Leave) :]
