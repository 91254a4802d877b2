"""A first start of an application whose group Bellwether is alone in: how long its first members wait for their
rebalance."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from bellwether_kafka.coordinator import membership
from tests.kit.membership import ME, Play, member, seen

REBALANCE_IN_PROGRESS = 27
MEMBER_REBALANCE_S = 300.0  # clients' default
HEARTBEAT_S = 1.0
TRIP_S = 0.01

# Seconds at which instances arrive, the first one at 0.
ONE_MEMBER = (0.0,)
THREE = (0.0, 0.4, 0.9)
THIRTY = tuple(5.0 * number / 29 for number in range(30))
STARTS = {"one": ONE_MEMBER, "three": THREE, "thirty": THIRTY}
# How much later than Bellwether's last heartbeat the first one comes.
PHASES = (0.05, 0.5, 0.95)


def alone(broker_delay_s: float, **settings: Any) -> Play:
    """Bellwether joins an empty group, for which the broker waits like that, and is alone in it."""
    play = Play(instance_id="bw", **settings).joining().later(broker_delay_s)
    return play.joined(member(ME)).synced()


def waited(play: Play, arrivals: Sequence[float], phase_s: float) -> float:
    """Seconds from the arrival of the first member until Bellwether comes back, which ends the rebalance; each answer
    takes TRIP_S, those to Bellwether's looks a little less or more."""
    trips = itertools.cycle((TRIP_S, TRIP_S / 2, 2 * TRIP_S))
    while not any(isinstance(command, membership.Heartbeat) for command in play.last):
        play.wake()
    first, todo = play.now + phase_s, list[membership.Command](play.last)
    while play.now < first + 60:
        match todo.pop(0) if todo else None:
            case None:
                play.wake()
            case membership.Join():
                return play.now - first
            case membership.Heartbeat():
                came = play.now >= first
                play.later(TRIP_S).heartbeat(REBALANCE_IN_PROGRESS if came else 0)
            case membership.Describe():
                people = [seen(ME), *(seen(str(n)) for n, at in enumerate(arrivals) if first + at <= play.now)]
                play.later(next(trips)).described("PreparingRebalance", *people)
            case _:
                continue
        todo += play.last
    raise AssertionError("it never came back")


def without_bellwether(arrivals: Sequence[float], delay_s: float) -> float:
    """How long the broker itself waits for the members of an empty group
    (docs/internals/broker-behaviour.md#states)."""
    over, left = delay_s, MEMBER_REBALANCE_S - delay_s
    since = 0.0
    while left > 0 and any(since < at <= over for at in arrivals):
        since, more = over, min(delay_s, left)
        over, left = over + more, left - more
    return over


@pytest.mark.parametrize("phase_s", PHASES)
@pytest.mark.parametrize("arrivals", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("delay_s", [3.0, 1.5])
def test_a_first_start_takes_no_longer_with_bellwether_than_without(
    arrivals: Sequence[float], phase_s: float, delay_s: float
) -> None:
    assert waited(alone(delay_s), arrivals, phase_s) <= without_bellwether(arrivals, delay_s) + 0.1


@pytest.mark.parametrize("phase_s", PHASES)
def test_where_the_broker_does_not_wait_neither_does_bellwether_for_half_a_second(phase_s: float) -> None:
    assert waited(alone(0.01), ONE_MEMBER, phase_s) <= 0.25 + 0.2 + 0.05


@pytest.mark.parametrize("phase_s", PHASES)
def test_many_members_that_come_one_after_the_other_still_are_one_rebalance(phase_s: float) -> None:
    for delay_s in (0.01, 1.5, 3.0):
        assert waited(alone(delay_s), THIRTY, phase_s) >= THIRTY[-1]


@pytest.mark.parametrize("phase_s", PHASES)
def test_three_members_that_come_within_a_second_are_one_rebalance(phase_s: float) -> None:
    for delay_s in (1.5, 3.0):
        assert waited(alone(delay_s), THREE, phase_s) >= THREE[-1]


def test_a_fifth_of_a_second_is_held_however_late_bellwether_hears_of_it() -> None:
    assert waited(alone(3.0, coalesce_ms=400), ONE_MEMBER, PHASES[0]) == pytest.approx(
        HEARTBEAT_S - PHASES[0] + 0.2, abs=0.04
    )


def test_the_brokers_wait_is_not_known_where_bellwether_comes_back_to_the_same_place() -> None:
    """As after a restart of Bellwether: the broker answers at once, whatever it does with an empty group."""
    back = Play(instance_id="bw").coordinator_found().described("Stable", seen("bw-0", "bw"), protocol="range")
    back.later(0.01).joined(member(ME), skip_assignment=True).synced()
    assert 2.0 <= waited(back, ONE_MEMBER, 0.5) <= 3.1


def test_the_brokers_wait_is_not_known_where_another_was_in_the_rebalance() -> None:
    play = Play(instance_id="bw").joining().later(0.2).joined(member(ME), member("a")).planned().synced()
    play.wake().heartbeat(REBALANCE_IN_PROGRESS).joined(member(ME), generation=2).synced()
    play.joined(member(ME), generation=3).synced()  # which lists the application's topics
    assert 2.0 <= waited(play, ONE_MEMBER, 0.5) <= 3.1
