"""Who leads among instances that read one another: sequences of heartbeats, each read by every instance in order."""

import random

import pytest

from bellwether_kafka.coordinator.control import (
    InstanceHeartbeat,
    Instances,
)

HEARTBEATS_MISSED = 3
HEARTBEATS_TO_FORGET = 600

GROUP = "orders"


def active(name: str) -> InstanceHeartbeat:
    return InstanceHeartbeat(name, leads=(GROUP,))


def waiting(name: str) -> InstanceHeartbeat:
    return InstanceHeartbeat(name, standby_for=(GROUP,))


def started(name: str, *before: InstanceHeartbeat) -> Instances:
    view = Instances(name)
    for heartbeat in before:
        view.received(heartbeat)
    view.started()
    return view


def receive(view: Instances, *heartbeats: InstanceHeartbeat) -> None:
    for heartbeat in heartbeats:
        view.received(heartbeat)


def test_the_first_instance_waits_for_those_that_start_with_it() -> None:
    view = started("b")
    receive(view, waiting("b"))
    assert view.reason_to_take_over(GROUP) == ""
    receive(view, waiting("b"))
    assert view.reason_to_take_over(GROUP) == "no instance of Bellwether leads it"


def test_of_two_that_start_together_the_first_by_id_leads() -> None:
    first, second = started("a"), started("b")
    for _ in range(2):
        for view in (first, second):
            receive(view, waiting("a"), waiting("b"))
    assert first.reason_to_take_over(GROUP)
    assert second.reason_to_take_over(GROUP) == ""
    claim = InstanceHeartbeat("a", claims=(GROUP,))
    receive(second, claim, waiting("b"))
    assert second.reason_to_take_over(GROUP) == ""


def test_a_claim_that_comes_to_nothing_passes_on() -> None:
    view = started("b")
    receive(view, waiting("a"), waiting("b"), waiting("b"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == "no instance of Bellwether leads it"


def test_silence_is_counted_in_own_heartbeats() -> None:
    view = started("b")
    receive(view, active("a"))
    for _ in range(HEARTBEATS_MISSED - 1):
        receive(view, waiting("b"))
        assert view.reason_to_take_over(GROUP) == ""
    receive(view, waiting("b"))
    assert view.reason_to_take_over(GROUP) == "the heartbeat of a has stopped"


def test_a_topic_that_nobody_reaches_raises_no_alarm() -> None:
    view = started("b")
    receive(view, active("a"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == "", "no beat comes back, so no time passes"


def test_the_second_standby_waits_one_heartbeat_longer() -> None:
    first, second = started("b"), started("c")
    turns: dict[str, int] = {}
    for view in (first, second):
        receive(view, active("a"), waiting("b"), waiting("c"))
    for step in range(2, 6):
        for view in (first, second):
            receive(view, waiting("b"), waiting("c"))
            if view.reason_to_take_over(GROUP):
                turns.setdefault(view.own_id, step)
    assert turns == {"b": HEARTBEATS_MISSED, "c": HEARTBEATS_MISSED + 1}


def test_a_dead_standby_does_not_hold_up_the_others() -> None:
    view = started("c", waiting("b"), active("a"))
    for _ in range(HEARTBEATS_MISSED):
        receive(view, waiting("c"))
    assert view.successors(GROUP) == []
    assert view.reason_to_take_over(GROUP)


def test_a_hand_over_is_taken_at_once_and_by_one() -> None:
    first, second = started("b"), started("c")
    for view in (first, second):
        receive(
            view, active("a"), waiting("b"), waiting("c"), InstanceHeartbeat("a", leads=(GROUP,), hands_over=(GROUP,))
        )
    assert first.reason_to_take_over(GROUP) == "a hands it over"
    assert second.reason_to_take_over(GROUP) == ""


def test_what_was_handed_over_and_taken_is_not_taken_again() -> None:
    """Found by a rolling restart of three: the old leader heartbeats until it hears, by its next heartbeat, that it was
    fenced, and the second standby took the group from the first."""
    view = started("c")
    handing = InstanceHeartbeat("a", leads=(GROUP,), hands_over=(GROUP,))
    receive(view, active("a"), waiting("b"), waiting("c"), handing, InstanceHeartbeat("b", claims=(GROUP,)), handing)
    assert view.reason_to_take_over(GROUP) == ""
    receive(view, active("b"), handing, waiting("c"))
    assert view.reason_to_take_over(GROUP) == ""


def test_heartbeats_between_the_regular_ones_are_no_time() -> None:
    """Found by a rolling restart of three: an instance that had much to write within a moment took the others for
    dead."""
    view = started("b")
    receive(view, active("a"))
    for _ in range(2 * HEARTBEATS_MISSED):
        receive(view, InstanceHeartbeat("b", standby_for=(GROUP,), between=True))
    assert view.reason_to_take_over(GROUP) == ""


def test_an_old_heartbeat_of_bellwethers_was_another_process() -> None:
    view = started("a", active("a"))
    assert view.holder(GROUP) is None
    receive(view, waiting("a"), waiting("a"))
    assert view.reason_to_take_over(GROUP)


def test_a_heartbeat_left_over_from_long_ago_gets_time_to_prove_itself() -> None:
    view = started("b", active("a"))
    receive(view, waiting("b"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == ""
    receive(view, waiting("b"))
    assert view.reason_to_take_over(GROUP)


def test_an_instance_that_stopped_in_good_order_is_forgotten_at_once() -> None:
    view = started("b", active("a"))
    view.gone("a")
    receive(view, waiting("b"), waiting("b"))
    assert view.reason_to_take_over(GROUP) == "no instance of Bellwether leads it"
    view.gone("never heard of")


def test_a_leader_waits_to_be_fenced_before_it_yields() -> None:
    view = started("a")
    receive(view, InstanceHeartbeat("a", leads=(GROUP,)), active("b"))
    assert view.must_yield(GROUP, leading=True) == ""
    assert view.must_yield(GROUP, leading=False) == "b"


def test_of_two_claims_the_first_id_stays_unless_it_was_fenced() -> None:
    first, second = started("a"), started("b")
    for view in (first, second):
        receive(view, InstanceHeartbeat("a", claims=(GROUP,)), InstanceHeartbeat("b", claims=(GROUP,)))
    assert first.must_yield(GROUP, leading=False) == ""
    assert second.must_yield(GROUP, leading=False) == "a"
    assert first.must_yield(GROUP, leading=False, fenced=True) == "b"


def test_heartbeats_of_the_dead_are_withdrawn_in_the_end() -> None:
    view = started("b", active("a"))
    for _ in range(HEARTBEATS_TO_FORGET - 1):
        receive(view, active("b"))
    assert view.forgotten() == []
    receive(view, active("b"))
    assert view.forgotten() == ["a"]


@pytest.mark.slow
def test_with_any_loss_of_instances_exactly_one_ends_up_leading() -> None:
    """Random crashes and starts; then calm: one leader, and nobody else claims."""
    for seed in range(200):
        rng = random.Random(seed)
        views: dict[str, Instances] = {}
        holds: set[str] = set()
        log: list[InstanceHeartbeat] = []

        def tick(
            views: dict[str, Instances] = views, holds: set[str] = holds, log: list[InstanceHeartbeat] = log
        ) -> None:
            for name in sorted(views):
                heartbeat = active(name) if name in holds else waiting(name)
                log.append(heartbeat)
                for view in views.values():
                    view.received(heartbeat)
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
