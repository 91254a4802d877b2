"""A broker that answers slowly lets Bellwether try fewer member ids while members wait: members are not disturbed for a
search that would find none (285 ids were assumed in two seconds, 57 came at a load of nine)."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Forecasts, MembershipConfig, NotLeading, SizeLimit, State, tables
from tests.kit.membership import DRY_RUN, Play
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    CROWD,
    PACE_ID,
    UNKNOWN,
    client,
    paced,
    stable,
)

CONFIG = MembershipConfig("orders", instance_id="bellwether")


def watching(**settings: object) -> Play:
    return Play(
        adopt="take-over", instance_id="bellwether", size_limit=SizeLimit(1_000), **settings
    ).coordinator_found()


def answered_after(play: Play, seconds: float) -> list[str]:
    """The commands after the next description, which takes this long."""
    play.later(seconds).described("Stable", *CROWD, protocol="range")
    return play.kinds()


def begins(tries: int | None) -> bool:
    ids = [m.member_id for m in CROWD]
    return Forecasts().forecast(ids, tables(ids), "", CONFIG.evictions_max, 1_000, tries).begins


def test_a_slower_broker_lets_fewer_ids_be_tried() -> None:
    assert CONFIG.tries_max(None) == CONFIG.tries_max(0.5) == 285
    assert CONFIG.tries_max(20.0) == 50
    assert MembershipConfig("orders").tries_max(20.0) is None


def test_a_crowd_is_taken_over_where_the_broker_is_fast() -> None:
    assert begins(CONFIG.tries_max(1.0))
    assert answered_after(watching(), 0.001) == ["Decide"]


def test_a_crowd_is_left_alone_where_the_broker_is_slow_and_the_remedy_is_named() -> None:
    assert not begins(CONFIG.tries_max(100.0))
    play = watching()
    assert answered_after(play, 0.1) == []
    assert play.machine.view.role.detail == "" or "roll_ms_max" not in play.machine.view.role.detail, (
        "it may have been connecting"
    )
    answered_after(play.wake(), 0.1)
    assert "Decide" not in play.kinds()
    assert "raise roll_ms_max" in play.machine.view.role.detail


def test_answer_times_that_differ_a_little_change_neither_the_log_nor_the_role() -> None:
    """A blocked group is described every second: with the time of each answer in it, each led to two log lines."""
    play = watching()
    answered_after(play, 0.1)
    details = set()
    for seconds in (0.1, 0.12, 0.09, 0.15, 0.11, 0.14, 0.1):
        answered_after(play.wake(), seconds)
        details.add(play.machine.view.role.detail)
    assert len(details) == len(play.notes()) == 1
    for _ in range(5):
        answered_after(play.wake(), 0.9)
    assert "answers in 900 ms" in play.machine.view.role.detail


def test_the_time_to_connect_is_not_taken_for_a_slow_broker() -> None:
    play = watching()
    answered_after(play, 0.5)
    assert answered_after(play.wake(), 0.001) == ["Decide"]


def test_one_slow_answer_of_many_is_no_slow_broker() -> None:
    play = watching(takeover_obstacle=None)
    for seconds in (0.001, 0.001, 0.001):
        play.later(seconds).described("CompletingRebalance", *CROWD, protocol="range").wake()
    assert answered_after(play, 0.5) == ["Decide"]


# ---- the pace of the search itself -----------------------------------------------------------------------------------


def begun(answer_s: float) -> Play:
    """A broker that described the group at once answers the requests of the search in this time."""
    play = watching()
    answered_after(play, 0.001)
    play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False))
    assert play.state is State.APPROACHING
    return paced(play, CROWD, answer_s)


def joined_static(play: Play) -> bool:
    """Whether Bellwether has joined: then members wait."""
    return any(isinstance(command, membership.Join) and command.instance_id is not None for command in play.seen)


def test_the_search_begins_at_the_pace_that_its_own_requests_had() -> None:
    play = begun(0.001)
    assert play.state is State.APPROACHING
    asked = [command for command in play.last if isinstance(command, membership.Join)]
    assert len(asked) > 1, "temporary members"
    assert not joined_static(play)


def test_a_broker_that_answers_the_search_more_slowly_than_before_disturbs_no_member() -> None:
    """Searches with 1, 2, 4 and 9 ids to try began: the descriptions before them had come faster."""
    play = begun(0.06)
    assert play.state is State.WATCHING
    assert not joined_static(play)
    asked = [command for command in play.seen if isinstance(command, membership.Join)]
    assert {command.member_id for command in asked} == {PACE_ID}, "an id that is given back would begin a rebalance"
    assert not [command for command in play.seen if isinstance(command, membership.Evict)]
    role = play.machine.view.role
    assert role.reason is NotLeading.SET_BACK
    assert "no member was disturbed" in role.detail
    assert "run Bellwether beside the brokers" in role.detail


def test_one_very_slow_broker_is_not_measured_for_longer_than_a_search() -> None:
    play = begun(1.5)
    assert play.state is State.WATCHING
    assert sum(isinstance(command, membership.Join) for command in play.seen) == 2, "one to connect, one that counts"


@pytest.mark.parametrize("change", ["rebalances", "another member"])
def test_a_group_that_changes_before_the_search_is_left_alone(change: str) -> None:
    play = watching()
    answered_after(play, 0.001)
    play.send(membership.ComparisonReady(DRY_RUN, worth_moving=False))
    play.refused(UNKNOWN)
    if change == "rebalances":
        play.described("PreparingRebalance", *CROWD)
    else:
        stable(play, *CROWD[1:], client("late", "late"))
    assert play.state is State.WATCHING
    assert not joined_static(play)
    assert "the group has changed" in play.machine.view.role.detail


@pytest.mark.parametrize(("answer_s", "tries"), [(0.001, True), (0.2, False)])
def test_a_rebalance_that_waits_for_a_member_is_joined_only_where_an_id_is_likely_to_be_found(
    answer_s: float, *, tries: bool
) -> None:
    """Groups of slow brokers rebalance slowly: each rebalance was held open for two more seconds, and left again."""
    play = watching(takeover_obstacle=None)
    for _ in range(8):
        if play.later(answer_s).described("PreparingRebalance", *CROWD).state is State.WATCHING:
            play.wake()
    assert (play.state is State.APPROACHING) == tries
