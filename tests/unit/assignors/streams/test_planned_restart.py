"""An application whose instances are emptied, restarted and filled again one by one, decision by decision (`fleet`).

A thread that gives up a copy closes its store, and its tasks stand still meanwhile. One that opens a store that another
thread of its process has not closed yet tries again a second later or more.
"""

from collections import Counter
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams import Assignors, stock
from bellwether_kafka.assignors.streams.application import NO_STRATEGY
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.protocol.primitives import ProcessId
from tests.unit.assignors.streams.fleet import PATIENCE_MS, Fleet, seen

DIED_MS = 20_000
EXPECTED_MS = 45_000
OPENING_MS = 50
REJOIN_MS = 500
RETURNING_MS = 5_000

AWAY_MS = 20_000
SIZES = [  # partitions, and when it asks for a rebalance
    (6, REJOIN_MS),
    (67, 23 * OPENING_MS),
    pytest.param(400, RETURNING_MS // 2, marks=pytest.mark.slow),
]


def evacuated(*processes: int) -> Assignors:
    return stock(StageConfigs(rules=tuple(Rule("ban", "*", f"member:{ProcessId(0, p + 1)}") for p in processes)))


def stop_evacuated(fleet: Fleet, process: int) -> None:
    usual, fleet.assignors = fleet.assignors, evacuated(process)
    fleet.settle()
    assert process not in fleet.owners().values()
    fleet.stop(process)
    fleet.assignors = usual
    fleet.rest()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_nobody_closes_a_store_and_everything_returns(strategy: str) -> None:
    fleet, copies = seen(strategy)
    owners = fleet.owners()
    for turn in range(9):
        stop_evacuated(fleet, turn % 3)
        fleet.now_ms += AWAY_MS
        fleet.start(turn % 3)
        fleet.settle()
        assert copies.given_up == [], turn
        assert fleet.owners() == owners, turn


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, pytest.param("min_traffic", marks=pytest.mark.slow)])
def test_nobody_else_closes_a_store_where_the_tasks_cannot_be_even(strategy: str) -> None:
    """67 partitions on six instances: some have a task more than others, and have it again afterwards."""
    fleet, copies = seen(strategy, instances=6, partitions=67)
    owners, before = fleet.owners(), [copies.of_process(p) for p in range(6)]
    for turn in range(6):
        stop_evacuated(fleet, turn)
        fleet.now_ms += AWAY_MS
        fleet.start(turn)
        fleet.settle()
        assert [t for name, t in copies.given_up if fleet.threads[name].process != turn + 1] == [], turn
        assert fleet.owners() == owners, turn
        assert [copies.of_process(p) for p in range(6)] == before, turn
        copies.given_up.clear()


@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_tasks_go_to_their_copies_although_small_ones_could_go_anywhere(strategy: str) -> None:
    fleet, copies = seen(strategy)
    before = {process: copies.of_process(process) for process in range(3)}
    leaving = {task for task, owner in fleet.owners().items() if owner == 0}
    stop_evacuated(fleet, 0)
    moved = {task: owner for task, owner in fleet.owners().items() if task in leaving and not task.startswith("0_")}
    assert len(moved) == 4
    assert all(task in map(str, before[owner]) for task, owner in moved.items())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_one_that_is_back_has_all_its_copies_at_once_though_the_order_is_still_in_force(strategy: str) -> None:
    fleet, copies = seen(strategy)
    before = fleet.owners()
    fleet.assignors, usual = evacuated(0), fleet.assignors
    fleet.settle()
    had = copies.of_process(0)
    fleet.stop(0)
    fleet.rest()
    fleet.now_ms += AWAY_MS
    fleet.start(0)
    fleet.rebalance()
    assert copies.of_process(0) == had
    fleet.assignors = usual
    fleet.rest()
    assert fleet.owners() == before
    assert copies.given_up == []


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
@pytest.mark.parametrize("acceptable_recovery_lag", [1_000, 100_000])
def test_one_that_is_back_opens_its_stores_before_it_runs_their_tasks(
    strategy: str, acceptable_recovery_lag: int
) -> None:
    """Also where all stores are so small that it might restore them while their tasks stand still."""
    fleet, copies = seen(strategy)
    fleet.configs = replace(fleet.configs, acceptable_recovery_lag=acceptable_recovery_lag)
    before, had = fleet.owners(), copies.of_process(0)
    stop_evacuated(fleet, 0)
    away = fleet.owners()
    fleet.now_ms += AWAY_MS
    fleet.start(0)
    decision = fleet.rebalance()
    assert fleet.owners() == away
    assert not decision.plan.pending.any()
    assert copies.of_process(0) == had
    assert fleet.asked_ms() <= fleet.now_ms + PATIENCE_MS
    fleet.rest()
    assert fleet.owners() == before


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "asked_ms"), SIZES)
def test_one_that_is_back_is_left_alone_while_it_opens_its_stores(partitions: int, asked_ms: int) -> None:
    """Its threads join when they have opened them all, and the others commit nothing until then."""
    fleet, copies = seen(NO_STRATEGY, instances=6, partitions=partitions)
    stop_evacuated(fleet, 0)
    fleet.now_ms += AWAY_MS
    fleet.start(0)
    fleet.rebalance()
    assert fleet.asked_ms() == fleet.now_ms + asked_ms, len(copies.of_process(0))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_copies_that_do_not_come_back_are_made_elsewhere(strategy: str) -> None:
    fleet, copies = seen(strategy)
    stop_evacuated(fleet, 0)
    assert len(copies.short) == 8, "it had a copy of each of these"
    assert fleet.asked_ms() == fleet.now_ms + EXPECTED_MS
    fleet.now_ms = fleet.asked_ms()
    fleet.settle()
    assert copies.short == set()


@pytest.mark.slow
def test_nobody_waits_for_one_that_went_while_another_is_evacuated() -> None:
    fleet, copies = seen(NO_STRATEGY)
    stop_evacuated(fleet, 0)
    fleet.assignors = evacuated(1)
    fleet.rebalance()
    assert copies.short == set()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_nothing_moves_while_it_is_away(strategy: str) -> None:
    fleet, _ = seen(strategy)
    stop_evacuated(fleet, 0)
    before, rebalances = fleet.owners(), fleet.rebalances
    fleet.now_ms += AWAY_MS
    fleet.rest()
    assert fleet.owners() == before
    assert fleet.rebalances == rebalances + 1


@pytest.mark.parametrize(("standbys", "even"), [(0, True), (1, False)])
def test_others_even_out_only_where_one_that_is_evacuated_still_waits_for_warm_ups(standbys: int, even: bool) -> None:
    """Warm-ups can take long, and one that joins meanwhile shall have its share."""
    fleet = Fleet(STREAMS_HA, NO_STRATEGY, instances=4)
    fleet.configs = replace(fleet.configs, num_standby_replicas=standbys)
    fleet.stop(3)
    fleet.settle()
    fleet.assignors = evacuated(0)
    fleet.rebalance()
    fleet.start(3, wiped=True)
    plan = fleet.rebalance().plan
    assert (3 in plan.target.destination[plan.view.tasks.stateful]) == even


def uneven(evacuated_one: int) -> Fleet:
    """Instances of which two were away for long, and another one has just been emptied: its copies are not spread
    evenly, so neither are its tasks now."""
    fleet, _ = seen(NO_STRATEGY)
    for other in (evacuated_one, (evacuated_one + 2) % 3):
        fleet.stop(other)
        fleet.settle()
        fleet.now_ms += DIED_MS
        fleet.settle()
        fleet.start(other)
        fleet.settle()
    fleet.now_ms += AWAY_MS
    fleet.assignors = evacuated(evacuated_one)
    fleet.rest()
    assert evacuated_one not in fleet.owners().values()
    return fleet


@pytest.mark.slow
def test_nothing_moves_while_an_evacuated_member_closes_its_stores() -> None:
    """A rebalance would wait for it: its threads join no more."""
    fleet = uneven(2)
    before = fleet.owners()
    assert fleet.decision is not None
    assert not fleet.decision.plan.target.probing, "and Bellwether asks for no rebalance"
    fleet.now_ms += AWAY_MS
    fleet.rebalance()
    assert fleet.owners() == before


@pytest.mark.slow
def test_tasks_are_evened_out_once_an_evacuated_member_has_stayed_too_long() -> None:
    fleet = uneven(2)
    before = fleet.owners()
    assert fleet.asked_ms() == fleet.now_ms + EXPECTED_MS
    fleet.now_ms = fleet.asked_ms()
    fleet.settle()
    assert fleet.owners() != before
    assert Counter(fleet.owners().values()) == {0: 9, 1: 9}


@pytest.mark.slow
def test_one_that_was_evacuated_in_vain_has_its_tasks_back_at_once() -> None:
    fleet, _ = seen(NO_STRATEGY)
    fleet.assignors, usual = evacuated(0), fleet.assignors
    fleet.rest()
    fleet.assignors = usual
    fleet.settle()
    assert Counter(fleet.owners().values())[0] == 6


@pytest.mark.slow
def test_another_one_is_evacuated_although_the_first_one_still_closes() -> None:
    fleet, _ = seen(NO_STRATEGY)
    fleet.assignors = evacuated(0)
    fleet.rest()
    fleet.assignors = evacuated(0, 1)
    fleet.settle()
    assert set(fleet.owners().values()) == {2}


@pytest.mark.slow
def test_nobody_waits_once_another_process_has_come_instead() -> None:
    fleet, copies = seen(NO_STRATEGY)
    stop_evacuated(fleet, 0)
    fleet.start(0)
    for name in [name for name, thread in fleet.threads.items() if thread.process == 1]:
        fleet.threads[name] = replace(fleet.threads[name], process=4)
    fleet.settle()
    fleet.settle()
    assert copies.short == set()
    assert sum(owner == 3 for owner in fleet.owners().values()) == 6
