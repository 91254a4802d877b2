"""Who leads among sidecars that hear one another: stories of beats, each told to every sidecar in the same order."""

import random

from bellwether_kafka.coordinator.control.active_role import BEATS_MISSED, BEATS_TO_FORGET, Sidecars
from bellwether_kafka.coordinator.control.records import Beat

GROUP = "orders"


def active(name: str) -> Beat:
    return Beat(name, leads=(GROUP,))


def waiting(name: str) -> Beat:
    return Beat(name, stands_by=(GROUP,))


def started(name: str, *before: Beat) -> Sidecars:
    view = Sidecars(name)
    for beat in before:
        view.heard(beat)
    view.started()
    return view


def hear(view: Sidecars, *beats: Beat) -> None:
    for beat in beats:
        view.heard(beat)


def test_the_first_sidecar_waits_for_those_that_start_with_it() -> None:
    view = started("b")
    hear(view, waiting("b"))
    assert view.reason_to_take_over(GROUP) == ""
    hear(view, waiting("b"))
    assert view.reason_to_take_over(GROUP) == "no instance of Bellwether leads it"


def test_of_two_that_start_together_the_first_by_id_leads() -> None:
    first, second = started("a"), started("b")
    for _ in range(2):
        for view in (first, second):
            hear(view, waiting("a"), waiting("b"))
    assert first.reason_to_take_over(GROUP)
    assert second.reason_to_take_over(GROUP) == ""
    claim = Beat("a", claims=(GROUP,))
    hear(second, claim, waiting("b"))
    assert second.reason_to_take_over(GROUP) == ""


def test_a_claim_that_comes_to_nothing_passes_on() -> None:
    view = started("b")
    hear(view, waiting("a"), waiting("b"), waiting("b"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == "no instance of Bellwether leads it"


def test_silence_is_counted_in_our_own_beats() -> None:
    view = started("b")
    hear(view, active("a"))
    for _ in range(BEATS_MISSED - 1):
        hear(view, waiting("b"))
        assert view.reason_to_take_over(GROUP) == ""
    hear(view, waiting("b"))
    assert view.reason_to_take_over(GROUP) == "the beat of a has stopped"


def test_a_topic_that_nobody_reaches_raises_no_alarm() -> None:
    view = started("b")
    hear(view, active("a"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == "", "no beat comes back, so no time passes"


def test_the_second_standby_waits_one_beat_longer() -> None:
    first, second = started("b"), started("c")
    turns: dict[str, int] = {}
    for view in (first, second):
        hear(view, active("a"), waiting("b"), waiting("c"))
    for step in range(2, 6):
        for view in (first, second):
            hear(view, waiting("b"), waiting("c"))
            if view.reason_to_take_over(GROUP):
                turns.setdefault(view.own_id, step)
    assert turns == {"b": BEATS_MISSED, "c": BEATS_MISSED + 1}


def test_a_dead_standby_does_not_hold_up_the_others() -> None:
    view = started("c", waiting("b"), active("a"))
    for _ in range(BEATS_MISSED):
        hear(view, waiting("c"))
    assert view.successors(GROUP) == []
    assert view.reason_to_take_over(GROUP)


def test_a_hand_over_is_taken_at_once_and_by_one() -> None:
    first, second = started("b"), started("c")
    for view in (first, second):
        hear(view, active("a"), waiting("b"), waiting("c"), Beat("a", leads=(GROUP,), hands_over=(GROUP,)))
    assert first.reason_to_take_over(GROUP) == "a hands it over"
    assert second.reason_to_take_over(GROUP) == ""


def test_what_was_handed_over_and_taken_is_not_taken_again() -> None:
    """Found by a rolling restart of three: the old leader beats until it hears, by its next heartbeat, that it was
    fenced, and the second standby took the group from the first."""
    view = started("c")
    handing = Beat("a", leads=(GROUP,), hands_over=(GROUP,))
    hear(view, active("a"), waiting("b"), waiting("c"), handing, Beat("b", claims=(GROUP,)), handing)
    assert view.reason_to_take_over(GROUP) == ""
    hear(view, active("b"), handing, waiting("c"))
    assert view.reason_to_take_over(GROUP) == ""


def test_beats_between_the_regular_ones_are_no_time() -> None:
    """Found by a rolling restart of three: whoever had much to say within a moment took the others for dead."""
    view = started("b")
    hear(view, active("a"))
    for _ in range(2 * BEATS_MISSED):
        hear(view, Beat("b", stands_by=(GROUP,), between=True))
    assert view.reason_to_take_over(GROUP) == ""


def test_an_old_beat_of_ours_was_another_process() -> None:
    view = started("a", active("a"))
    assert view.holder(GROUP) is None
    hear(view, waiting("a"), waiting("a"))
    assert view.reason_to_take_over(GROUP)


def test_a_beat_left_over_from_long_ago_gets_time_to_prove_itself() -> None:
    view = started("b", active("a"))
    hear(view, waiting("b"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == ""
    hear(view, waiting("b"))
    assert view.reason_to_take_over(GROUP)


def test_a_sidecar_that_stopped_in_good_order_is_forgotten_at_once() -> None:
    view = started("b", active("a"))
    view.gone("a")
    hear(view, waiting("b"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == "no instance of Bellwether leads it"
    view.gone("never heard of")


def test_a_leader_waits_to_be_fenced_before_it_yields() -> None:
    view = started("a")
    hear(view, Beat("a", leads=(GROUP,)), active("b"))
    assert view.must_yield(GROUP, leading=True) == ""
    assert view.must_yield(GROUP, leading=False) == "b"


def test_of_two_claims_the_first_id_stays_unless_it_was_fenced() -> None:
    first, second = started("a"), started("b")
    for view in (first, second):
        hear(view, Beat("a", claims=(GROUP,)), Beat("b", claims=(GROUP,)))
    assert first.must_yield(GROUP, leading=False) == ""
    assert second.must_yield(GROUP, leading=False) == "a"
    assert first.must_yield(GROUP, leading=False, fenced=True) == "b"


def test_beats_of_the_dead_are_withdrawn_in_the_end() -> None:
    view = started("b", active("a"))
    for _ in range(BEATS_TO_FORGET - 1):
        hear(view, active("b"))
    assert view.forgotten() == []
    hear(view, active("b"))
    assert view.forgotten() == ["a"]


def test_with_any_loss_of_sidecars_exactly_one_ends_up_leading() -> None:
    """Random crashes and starts; then calm: one leader, and nobody else claims."""
    for seed in range(200):
        rng = random.Random(seed)
        views: dict[str, Sidecars] = {}
        holds: set[str] = set()
        log: list[Beat] = []

        def tick(views: dict[str, Sidecars] = views, holds: set[str] = holds, log: list[Beat] = log) -> None:
            for name in sorted(views):
                beat = active(name) if name in holds else waiting(name)
                log.append(beat)
                for view in views.values():
                    view.heard(beat)
            for name, view in views.items():
                if name in holds and len(holds & views.keys()) > 1:
                    continue
                if name not in holds and view.reason_to_take_over(GROUP):
                    holds.clear()  # the newest fences the others
                    holds.add(name)

        for _ in range(40):
            name = f"s{rng.randrange(4)}"
            if name in views and rng.random() < 0.3 and len(views) > 1:
                del views[name]
                holds.discard(name)
            elif name not in views:
                views[name] = started(name, *log)
            tick()
        for _ in range(12):
            tick()
        assert len(holds & views.keys()) == 1, f"seed {seed}"
        assert not any(view.reason_to_take_over(GROUP) for name, view in views.items() if name not in holds), (
            f"seed {seed}"
        )
