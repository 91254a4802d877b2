"""Commits without members, and how long the last one counts."""

import pytest

from bellwether_kafka.coordinator.observation import MemberlessCommits
from bellwether_kafka.coordinator.observation.self_assigned import Committed

LASTS_MS_MIN = 300_000
PAUSES = 3


def after(*readings: Committed, apart_ms: int = 10_000) -> MemberlessCommits:
    commits = MemberlessCommits(0)
    for number, reading in enumerate(readings):
        commits = commits.after(reading, number * apart_ms)
    return commits


@pytest.mark.parametrize(
    ("readings", "moves"),
    [
        ([{"t": [1, 5]}], 0),
        ([{"t": [1, 5]}, {"t": [1, 5]}], 0),
        ([{"t": [1, 5]}, {"t": [1, 6]}], 1),
        ([{"t": [1, 5]}, {"t": [0, 0]}], 0),
        ([{"t": [9, 5]}, {"t": [0, 6]}], 1),
        ([{"t": [-1]}, {"t": [5]}], 0),
        ([{"t": [1]}, {"t": [-1]}, {"t": [1]}], 0),
        ([{"t": [1]}, {"t": [1, 7]}, {"u": [3]}], 0),
        ([{"t": [1]}, {"t": [2, 7]}, {"u": [3], "t": [2, 8]}], 2),
        ([{}, {"t": [2]}, {"t": []}], 0),
    ],
)
def test_only_known_offsets_that_rise_are_moves(readings: list[Committed], moves: int) -> None:
    assert after(*readings).moves == moves


def test_the_last_move_counts_for_a_while() -> None:
    moved = after({"t": [1]}, {"t": [2]})
    assert moved.self_assigned
    assert moved.after({"t": [2]}, moved.moved_at_ms + LASTS_MS_MIN).self_assigned
    assert not moved.after({"t": [2]}, moved.moved_at_ms + LASTS_MS_MIN + 1).self_assigned


def test_consumers_that_commit_rarely_are_waited_for_longer() -> None:
    apart_ms = 10 * LASTS_MS_MIN
    rare = after({"t": [1]}, {"t": [2]}, {"t": [3]}, apart_ms=apart_ms)
    assert rare.after({"t": [3]}, rare.moved_at_ms + PAUSES * apart_ms).self_assigned
    assert not rare.after({"t": [3]}, rare.moved_at_ms + PAUSES * apart_ms + 1).self_assigned


def test_a_clock_that_goes_back_begins_anew() -> None:
    moved = after({"t": [1]}, {"t": [2]})
    again = moved.after({"t": [9]}, 0)
    assert not again.self_assigned
    assert again.after({"t": [10]}, 1).moves == 1
