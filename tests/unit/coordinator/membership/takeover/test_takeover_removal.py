"""When the leader is removed: never while its SyncGroup may be parked, because the broker forgets it."""

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import State
from tests.kit.membership import Play
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    COOPERATIVE,
    GOOD,
    GROUP,
    IN_PROGRESS,
    LEADER,
    REQUIRED,
    UNKNOWN,
    answered,
    client,
    dry_run_done,
    evicted,
    evictions,
    given,
    parked,
    with_bellwether,
)


def test_eager_members_are_not_called_back_before_they_have_worked() -> None:
    play = dry_run_done(instance_id="bellwether")
    given(play, "blocker")
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    assert evictions(play) == [(("blocker",), None)]
    assert answered(evicted(play), LEADER).synced().sent(membership.Evict).member_ids == (LEADER,)
    evicted(play).described("PreparingRebalance", *with_bellwether(GOOD)[:1], *GROUP[1:], client("m-new", "leader"))
    assert (play.sent(membership.Join).member_id, play.sent(membership.Join).instance_id) == (GOOD, "bellwether")
    assert answered(play, GOOD).state is State.DECIDING


def test_an_eager_leaders_assignment_is_in_force_before_it_is_removed() -> None:
    play = answered(given(dry_run_done(), GOOD), LEADER)
    assert play.kinds() == ["Sync"]
    assert play.sent(membership.Sync).assignments == ()
    assert play.synced(IN_PROGRESS).sent(membership.Evict).member_ids == (LEADER,), "somebody else has opened a round"


def test_a_follower_whose_sync_is_refused_gives_up() -> None:
    assert answered(given(dry_run_done(), GOOD), LEADER).synced(UNKNOWN).kinds() == ["Leave"]


def test_an_eager_leader_that_plans_for_ever_is_removed_all_the_same() -> None:
    play = answered(given(dry_run_done(), GOOD), LEADER).wake()
    assert play.kinds() == ["Abandon", "Evict"]
    assert play.sent(membership.Evict).member_ids == (LEADER,)


def test_a_leader_of_streams_is_removed_before_it_has_planned() -> None:
    play = answered(given(dry_run_done(), GOOD), LEADER, protocol="stream")
    assert play.sent(membership.Evict).member_ids == (LEADER,)


def test_a_cooperative_leader_is_removed_when_members_have_had_the_time_of_the_first_rebalance() -> None:
    play = parked()
    own = play.requests[membership.Join]
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    play.requests[membership.Join] = own
    answered(play.later(0.7), LEADER, protocol="cooperative-sticky")
    assert play.kinds() == []
    began = play.now
    assert play.wake().sent(membership.Evict).member_ids == (LEADER,)
    assert 0.6 < play.now - began < 0.9


def cooperative() -> Play:
    """In the second rebalance, after a first one for which members needed 0.7 s; the first id was good: none is
    spare."""
    return answered(given(dry_run_done(COOPERATIVE), GOOD).later(0.7), LEADER, protocol=COOPERATIVE)


def test_a_second_rebalance_without_a_spare_id_is_opened_by_a_changed_list_and_held_by_a_blocker() -> None:
    play = cooperative()
    again, blocker = (command for command in play.last if isinstance(command, membership.Join))
    assert (again.member_id, again.lane, blocker.member_id, blocker.lane) == (GOOD, 0, "", 1)
    names = [name for name, _ in again.protocols]
    assert names[:-1] == [name for name, _ in blocker.protocols], "one name more opens the round"
    began = play.now
    given(play, "barrier-2")
    assert play.kinds() == [], "nobody is removed before the others are back"
    assert play.wake().sent(membership.Evict).member_ids == (LEADER,)
    assert 0.6 < play.now - began < 0.9, "as long as the first round took"
    evicted(play).described("PreparingRebalance", *with_bellwether(GOOD)[:1], *GROUP[2:], client("m-new", "leader"))
    assert play.sent(membership.Evict).member_ids == ("barrier-2",)
    release, play.requests[membership.Join] = play.requests[membership.Evict], again.request_id
    assert answered(play, GOOD, generation=6, protocol="cooperative-sticky").state is State.DECIDING
    play.send(membership.LeaveAnswer(release, 0))
    assert play.state is State.DECIDING, "the answer about the barrier is not about us"


def test_nobody_is_removed_before_the_second_rebalance_is_held_open() -> None:
    play = cooperative()
    blocker = play.requests[membership.Join]
    assert play.wake().kinds() == []
    play.send(membership.JoinAnswer(blocker, REQUIRED, member_id="barrier-2"))
    assert play.wake().sent(membership.Evict).member_ids == (LEADER,)


def test_a_second_rebalance_that_ends_too_soon_is_followed_by_a_third() -> None:
    play = cooperative()
    (again, _) = (command for command in play.last if isinstance(command, membership.Join))
    given(play, "barrier-2")
    play.requests[membership.Join] = again.request_id
    answered(play, LEADER, generation=6, protocol="cooperative-sticky")
    assert [name for name, _ in play.sent(membership.Join).protocols] != [name for name, _ in again.protocols]


def test_a_blocker_is_given_back_when_the_lead_has_come_early() -> None:
    play = cooperative()
    (again, _) = (command for command in play.last if isinstance(command, membership.Join))
    given(play, "barrier-2")
    play.requests[membership.Join] = again.request_id
    answered(play, GOOD, generation=6, protocol="cooperative-sticky")
    assert play.state is State.DECIDING
    assert play.sent(membership.Evict).member_ids == ("barrier-2",)
