"""Scenarios of a take-over on its way to a member id that sorts first."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NotLeading, State
from tests.kit.membership import DRY_RUN, Play
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    ALSO_BAD,
    BAD,
    COOPERATIVE,
    FENCED,
    FIVE,
    GOOD,
    GROUP,
    GROUP_MAX_SIZE_REACHED,
    LEADER,
    OTHER,
    WORSE,
    answered,
    client,
    dry_run_done,
    evicted,
    evictions,
    given,
    ids,
    in_order,
    parked,
    stable,
    with_bellwether,
)

# ---- without an instance id ------------------------------------------------------------------------------------------


def test_ids_that_do_not_sort_first_are_given_back_before_it_joins() -> None:
    play = dry_run_done()
    assert (play.sent(membership.Join).member_id, play.sent(membership.Join).instance_id) == ("", None)
    assert given(play, BAD).sent(membership.Join).member_id == ""
    assert given(play, GOOD).sent(membership.Evict).member_ids == (BAD,)
    assert evicted(play).sent(membership.Join).member_id == GOOD


def test_ids_that_are_to_spare_hold_the_rebalance_of_cooperative_members_and_open_the_next() -> None:
    play = dry_run_done(COOPERATIVE)
    for bad in (BAD, ALSO_BAD, WORSE):
        assert given(play, bad).sent(membership.Join).member_id == ""
    assert given(play, GOOD).sent(membership.Evict).member_ids == (BAD,)
    evicted(play)
    assert [command.member_id for command in play.last if isinstance(command, membership.Join)] == [GOOD, WORSE]
    assert evictions(play) == [((WORSE,), 1), ((ALSO_BAD,), None)], "the last one held the round open until then"


def test_an_id_that_is_to_spare_opens_the_second_rebalance() -> None:
    play = given(given(dry_run_done(COOPERATIVE), BAD), GOOD)
    own, spare = (command for command in play.last if isinstance(command, membership.Join))
    assert (own.member_id, spare.member_id) == (GOOD, BAD)
    assert (play.sent(membership.Evict).member_ids, play.sent(membership.Evict).lane) == ((BAD,), spare.lane)
    assert spare.lane != own.lane


def test_an_id_must_sort_first_in_the_table_that_bellwethers_coming_makes_grow() -> None:
    """Twelve members fill a table of sixteen buckets; the thirteenth doubles it, and bucket 0 becomes two."""
    crowd = tuple(client(member_id, member_id) for bucket in range(3, 15) for member_id in ids(bucket, 1))
    late = ids(16, 1, prefix="late")[0]
    play = stable(Play(adopt="take-over").coordinator_found(), *crowd).send(
        membership.ComparisonReady(DRY_RUN, worth_moving=False)
    )
    assert given(play, late).sent(membership.Join).member_id == "", "another one is asked for"
    assert evicted(given(play, GOOD)).sent(membership.Join).member_id == GOOD


def test_only_unsuitable_ids_until_time_is_up_end_the_attempt() -> None:
    play = dry_run_done(roll_ms_max=100)
    play.later(1.0)
    given(play, "zzz-no-good")
    assert play.state is not State.APPROACHING or "Evict" in play.kinds()


def test_a_search_at_rest_that_finds_no_id_leaves_its_ids_to_the_broker_until_a_rebalance_waits_for_them() -> None:
    """LeaveGroup of a pending id begins a rebalance in a stable group (4.3): 50 members had one every few seconds."""
    bad = ids(15, 3, prefix="no-good")
    play = dry_run_done()
    for member_id in bad[:2]:
        given(play, member_id)
    play = given(play.later(60.0), bad[2])
    assert play.state is State.WATCHING
    play.wake()
    assert stable(play).kinds().count("Evict") == 0
    assert play.wake().described("PreparingRebalance", *GROUP).sent(membership.Evict).member_ids == tuple(bad)
    play.wake()
    assert "Evict" not in play.described("PreparingRebalance", *GROUP).kinds(), "once"


def test_ids_that_the_broker_has_forgotten_are_not_given_back() -> None:
    play = given(dry_run_done().later(60.0), BAD).later(10.1).wake()
    assert "Evict" not in play.described("PreparingRebalance", *GROUP).kinds()


def test_only_the_ids_of_the_last_session_are_kept() -> None:
    """A search that fails for weeks would keep all that it ever got."""
    play = given(dry_run_done().later(60.0), BAD).later(60.0).wake()
    stable(play).send(membership.ComparisonReady(DRY_RUN, worth_moving=False))
    assert play.state is State.APPROACHING
    given(play.later(60.0), ALSO_BAD).wake()
    assert play.described("PreparingRebalance", *GROUP).sent(membership.Evict).member_ids == (ALSO_BAD,)


# ---- with an instance id ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waited_s", "will_do"), [(0.0, False), (1.2, True)])
def test_after_a_while_an_id_will_do_behind_a_member_that_may_be_removed(waited_s: float, *, will_do: bool) -> None:
    """The group waits for the id, and in large ones an id that sorts first is rare."""
    second = ids(6, 1, prefix="bellwether")[0]
    play = given(dry_run_done(members=FIVE, instance_id="bellwether"), "blocker").later(waited_s)
    bellwether = client(second, "bw", "bellwether")
    play.wake().described("PreparingRebalance", *in_order(*FIVE, bellwether, buckets=16))
    assert play.kinds() == (["Evict"] if will_do else ["Join", "Describe"])
    if will_do:
        answered(play, OTHER, member_id=second).synced()
        assert play.sent(membership.Evict).member_ids == (OTHER, LEADER)


def test_a_static_id_is_replaced_in_the_rebalance_until_it_sorts_first() -> None:
    play = parked()
    first = play.requests[membership.Join]
    play.wake().described("PreparingRebalance", *GROUP)
    play.wake().described("PreparingRebalance", *with_bellwether(BAD))
    assert (play.sent(membership.Join).member_id, play.sent(membership.Join).lane) == ("", 1)
    again = play.sent(membership.Join)
    assert play.kinds() == ["Join", "Describe"], "together: one answer shows whether the next id is good"
    play.send(membership.JoinAnswer(first, FENCED, member_id=BAD))
    assert play.kinds() == []
    play.described("PreparingRebalance", *with_bellwether(GOOD))
    comes = play.sent(membership.Join)
    assert (comes.member_id, comes.instance_id, comes.lane) == ("opener", None, 0)
    assert evictions(play) == [(("opener",), 0), (("blocker",), None)], "the first one is read when the round has ended"
    play.requests[membership.Join] = again.request_id
    assert answered(play, LEADER, protocol=COOPERATIVE).kinds() == [], "the opener opens the second round"
    play.wake()
    assert (play.sent(membership.Evict).member_ids, play.sent(membership.Evict).lane) == ((LEADER,), None)
    evicted(play).described("PreparingRebalance", *with_bellwether(GOOD)[:1], *GROUP[1:], client("m-new", "leader"))
    join = play.sent(membership.Join)
    assert (join.member_id, join.instance_id, join.lane) == (GOOD, "bellwether", 0)
    assert answered(play, GOOD).state is State.DECIDING
    assert play.notes()[-1][1].endswith("with member id number 2"), "the one that was replaced was the first"


def test_a_static_id_is_replaced_on_the_two_lanes_in_turn() -> None:
    play = parked()
    before, lanes = play.requests[membership.Join], []
    play.wake()
    for bad in (BAD, ALSO_BAD, WORSE):
        play.described("PreparingRebalance", *with_bellwether(bad))
        lanes.append(play.sent(membership.Join).lane)
        play.send(membership.JoinAnswer(before, FENCED, member_id=bad))
        before = play.requests[membership.Join]
    assert lanes == [1, 0, 1]


def test_the_next_id_is_asked_for_when_the_connection_of_the_one_before_is_free() -> None:
    play = parked()
    first = play.requests[membership.Join]
    play.wake().described("PreparingRebalance", *with_bellwether(BAD))
    play.described("PreparingRebalance", *with_bellwether(ALSO_BAD))
    assert play.kinds() == []
    play.send(membership.JoinAnswer(first, FENCED, member_id=BAD))
    assert play.kinds() == ["Join", "Describe"]
    assert play.sent(membership.Join).lane == 0


def test_a_description_that_the_broker_reads_before_the_next_join_is_asked_for_again() -> None:
    play = parked()
    play.wake().described("PreparingRebalance", *with_bellwether(BAD))
    play.described("PreparingRebalance", *with_bellwether(BAD))
    assert play.kinds() == ["Describe"]


def test_the_rebalance_is_held_until_there_is_an_opener() -> None:
    play = dry_run_done(COOPERATIVE, instance_id="bellwether")
    given(play, "blocker")
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    assert play.kinds() == []
    given(play, "opener")
    assert evictions(play) == [(("opener",), 1), (("blocker",), None)]


def test_a_group_without_room_for_a_blocker_is_given_up_with_the_brokers_reason() -> None:
    """It was waited for in vain, for ever."""
    play = dry_run_done(instance_id="bellwether").refused(GROUP_MAX_SIZE_REACHED)
    assert play.machine.view.role.reason is NotLeading.DENIED
    assert "group.max.size" in play.machine.view.role.detail


def test_where_there_is_no_room_for_an_opener_the_blocker_opens_the_second_rebalance() -> None:
    play = dry_run_done(COOPERATIVE, instance_id="bellwether")
    opener = next(j for j in given(play, "blocker").last if isinstance(j, membership.Join) and j.instance_id is None)
    play.wake().described("PreparingRebalance", *with_bellwether(GOOD))
    play.send(membership.JoinAnswer(opener.request_id, GROUP_MAX_SIZE_REACHED))
    assert play.sent(membership.Join).member_id == "blocker"
    assert evictions(play) == [(("blocker",), 1)]


def test_no_good_id_in_time_gives_everything_back() -> None:
    play = parked()
    play.later(3).wake().described("PreparingRebalance", *with_bellwether(BAD))
    assert play.sent(membership.Evict).member_ids == ("blocker", "opener")
    leave = play.sent(membership.Leave)
    assert (leave.member_id, leave.instance_id) == ("", "bellwether")
    assert play.left().state is State.WATCHING


def test_an_order_that_no_broker_of_bellwethers_has_ends_the_attempt_while_all_can_go_on() -> None:
    play = parked()
    bellwether = client(BAD, "bw", "bellwether")
    play.wake().described("PreparingRebalance", GROUP[2], GROUP[0], bellwether, GROUP[1])
    assert play.state is not State.APPROACHING
    assert any("in an unknown order" in reason for _, reason in play.notes())
    assert "blocker" in play.sent(membership.Evict).member_ids, "nothing of ours stays in their way"
