"""Rebalances as refreshes of a group show them: why, how long at least and at most, and what moved."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import Moves
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Rebalances, SeenRebalance
from bellwether_kafka.coordinator.planning import CauseKind
from tests.kit.observed import observed_member, refresh

LINES_MAX = 50


def rebalances_between(*refreshes: Observation) -> tuple[SeenRebalance, ...]:
    rebalances = Rebalances()
    for seen in refreshes:
        rebalances.observe(seen)
    return rebalances.lines()


def test_one_between_two_refreshes_is_known_by_what_it_changed() -> None:
    before, after = (
        refresh(10, observed_member("a-1", "t-0", "t-1")),
        refresh(20, observed_member("a-1", "t-0"), observed_member("b-1", "t-1", "t-2")),
    )
    moved = Moves(kept=1, moved=1, new=1, lost=0)
    assert rebalances_between(before, after) == (
        SeenRebalance(20_000, "b joined", 0, 10_000, False, moved, CauseKind.JOINED),
    )


def test_one_that_is_seen_running_lasts_from_refresh_to_refresh() -> None:
    refreshes = [
        refresh(10, observed_member("a-1", "t-0"), observed_member("b-1", "t-1")),
        refresh(20, observed_member("a-1"), state="PreparingRebalance"),
        refresh(30, observed_member("a-1"), state="CompletingRebalance"),
    ]
    assert rebalances_between(*refreshes) == (
        SeenRebalance(20_000, "b left or died", 10_000, None, True, None, CauseKind.LEFT),
    )
    (line,) = rebalances_between(*refreshes, refresh(40, observed_member("a-1", "t-0", "t-1")))
    assert (line.seen_at_ms, line.lasted_ms_min, line.lasted_ms_max, line.running) == (20_000, 10_000, 30_000, False)
    assert line.moves == Moves(kept=1, moved=1, new=0, lost=0)


def test_of_one_that_began_before_the_first_refresh_neither_cause_nor_duration_is_known() -> None:
    refreshes = (
        refresh(10, observed_member("a-1"), state="PreparingRebalance"),
        refresh(20, observed_member("a-1", "t-0")),
    )
    assert rebalances_between(*refreshes) == (SeenRebalance(10_000, "", 0, None, False, None),)


def test_a_group_at_rest_has_none() -> None:
    rest = refresh(10, observed_member("a-1", "t-0"))
    assert rebalances_between(rest, replace(rest, seen_at_ms=20_000)) == ()


def test_a_static_member_that_restarted_in_its_place_is_no_rebalance() -> None:
    assert (
        rebalances_between(
            refresh(1, observed_member("a-1", "t-0", instance_id="i")),
            refresh(2, observed_member("a-2", "t-0", instance_id="i")),
        )
        == ()
    )


def test_a_group_that_cannot_be_read_leaves_the_last_refresh_in_force() -> None:
    missing = Observation("g", "missing", "", "", 15_000, trouble="we may not see it")
    (line,) = rebalances_between(
        refresh(10, observed_member("a-1", "t-0")), missing, refresh(20, observed_member("b-1", "t-0"))
    )
    assert (line.cause, line.lasted_ms_max) == ("b joined, a left or died", 10_000)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (
            [observed_member("a-1", "t-0")],
            [observed_member("a-1", "t-0"), observed_member("a-2"), observed_member("a-3"), observed_member("b-1")],
            "a (2 members), b joined",
        ),
        ([observed_member("a-1", "t-0")], [], "a left or died"),
        (
            [observed_member("a-1", "t-0")],
            [observed_member("a-1", "t-0", "u-0", topics=("t", "u"))],
            "a changed the subscription",
        ),
        (
            [observed_member("a-1", "t-0"), observed_member("b-1")],
            [observed_member("a-1"), observed_member("b-1", "t-0")],
            "",
        ),
    ],
    ids=["joined", "left", "subscribed", "nothing that shows"],
)
def test_causes(before: list[ObservedMember], after: list[ObservedMember], cause: str) -> None:
    (line,) = rebalances_between(refresh(1, *before), refresh(2, *after, state="Stable" if after else "Empty"))
    assert line.cause == cause


def test_a_topic_that_grew_is_a_cause() -> None:
    before = replace(refresh(1, observed_member("a-1", "t-0")), lags={"t": (0,)})
    after = replace(refresh(2, observed_member("a-1", "t-0", "t-1")), lags={"t": (0, None)})
    assert [line.cause for line in rebalances_between(before, after)] == ["topic t went from 1 to 2 partitions"]


def test_the_newest_come_first_and_the_oldest_are_forgotten() -> None:
    lines = rebalances_between(*(refresh(n, observed_member(f"m{n}-1", "t-0")) for n in range(LINES_MAX + 5)))
    assert len(lines) == LINES_MAX
    assert lines[0].seen_at_ms > lines[-1].seen_at_ms
