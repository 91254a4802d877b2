"""How long something had no owner, as a leader and as looks see it."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import NOBODY, Moves
from bellwether_kafka.coordinator.observation import Observation, Pause, Pauses, SeenRebalance, seen_pause
from bellwether_kafka.coordinator.planning import CauseKind
from tests.kit.plans import COOPERATIVE, delivered


def seconds(pauses: tuple[Pause, ...]) -> list[tuple[float, int, CauseKind]]:
    return [(round(pause.seconds, 3), pause.items, pause.cause) for pause in pauses]


def test_what_is_handed_over_has_no_owner_from_one_answer_to_the_next() -> None:
    pauses = Pauses()
    assert pauses.delivered(delivered(10, [0, 0, 0, 0], [0, 0, 1, 1], (2, 3))) == ()
    then = delivered(13, [0, 0, NOBODY, NOBODY], [0, 0, 1, 1], why=CauseKind.PENDING)
    assert seconds(pauses.delivered(then)) == [(3.0, 2, CauseKind.JOINED)], "by what took it, not by what gave it"
    assert pauses.delivered(delivered(20, [0, 0, 1, 1], [0, 0, 1, 1])) == (), "owned all the time"


def test_what_a_member_had_that_died_has_none_from_the_beginning_of_the_rebalance() -> None:
    pauses = Pauses()
    measured = pauses.delivered(delivered(10, [0, 0, NOBODY, NOBODY], [0, 0, 0, 0], why=CauseKind.LEFT))
    assert seconds(measured) == [(1.5, 2, CauseKind.LEFT)]


def test_an_owner_that_does_not_give_up_still_has_it() -> None:
    pauses = Pauses()
    pauses.delivered(delivered(10, [0, 0, 0, 0], [0, 0, 0, 1], (3,)))
    pauses.delivered(delivered(20, [0, 0, 0, 0], [0, 0, 0, 1], (3,)))
    assert seconds(pauses.delivered(delivered(22, [0, 0, 0, NOBODY], [0, 0, 0, 1]))) == [(2.0, 1, CauseKind.JOINED)]


def test_what_stays_without_an_owner_is_counted_from_when_it_lost_it() -> None:
    pauses = Pauses()
    pauses.delivered(delivered(10, [0, 0, 0, NOBODY], [0, 0, 0, NOBODY], why=CauseKind.LEFT))
    pauses.delivered(delivered(50, [0, 0, 0, NOBODY], [0, 0, 0, NOBODY], why=CauseKind.AGAIN))
    measured = pauses.delivered(delivered(60, [0, 0, 0, NOBODY], [0, 0, 0, 0]))
    assert seconds(measured) == [(51.5, 1, CauseKind.LEFT)]


def test_in_an_eager_group_everything_pauses_for_the_whole_rebalance() -> None:
    pauses = Pauses().delivered(delivered(10, [0, 0, 1, 1], [0, 0, 1, 1], protocol="range"))
    assert seconds(pauses) == [(1.5, 4, CauseKind.JOINED)]


def test_the_first_rebalance_ends_no_pause_of_bellwethers() -> None:
    pauses = Pauses()
    assert pauses.delivered(delivered(10, [NOBODY] * 4, [0, 0, 1, 1], first=True)) == ()
    assert pauses.delivered(delivered(20, [0, 0, 1, 1], [0, 0, 1, 1])) == ()


@pytest.mark.parametrize(
    ("protocol", "kind", "moves", "paused"),
    [
        (COOPERATIVE, "classic", Moves(kept=8, moved=2, new=1, lost=0), 3),
        (COOPERATIVE, "classic", Moves(kept=8, moved=0, new=0, lost=1), None),
        ("range", "classic", Moves(kept=8, moved=0, new=0, lost=0), 8),
        ("stream", "classic", Moves(kept=8, moved=1, new=0, lost=0), 1),
        ("uniform", "consumer", Moves(kept=8, moved=1, new=0, lost=0), 1),
    ],
)
def test_refreshes_know_how_long_it_lasted_at_most(protocol: str, kind: str, moves: Moves, paused: int | None) -> None:
    seen = Observation("g", kind, "Stable", protocol, 20_000)  # type: ignore[arg-type]  # one of the kinds
    rebalance = SeenRebalance(10_000, "b joined", 5_000, 15_000, False, moves, CauseKind.JOINED)
    pause = seen_pause(seen, rebalance)
    assert (None if pause is None else pause.items) == paused
    assert pause is None or (pause.seconds, pause.cause) == (15.0, CauseKind.JOINED)
    assert seen_pause(seen, replace(rebalance, lasted_ms_max=None)) is None
