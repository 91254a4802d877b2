"""An application of which an instance dies, decision by decision (`fleet`).

Who takes over a task of which it has a copy runs it at once. Whatever else a thread opens or closes in that rebalance
stops its tasks, and what a task leaves that runs needs one more.
"""

from collections import Counter
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.streams.application import NO_STRATEGY
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.protocol.messages import NEVER_MS
from tests.unit.assignors.streams.fleet import Fleet, seen

DIED_MS = 20_000

STRATEGIES = (NO_STRATEGY, "min_traffic")
SHAPES = [  # strategy, instances and partitions; 67 tasks of each subtopology on six instances cannot be even
    (NO_STRATEGY, 3, 6),
    ("min_traffic", 3, 6),
    (NO_STRATEGY, 6, 67),
    pytest.param("min_traffic", 6, 67, marks=pytest.mark.slow),
]
BACK_MS = 10_000


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "instances", "partitions"), SHAPES)
def test_others_take_its_tasks_over_and_do_nothing_else(strategy: str, instances: int, partitions: int) -> None:
    fleet, copies = seen(strategy, instances=instances, partitions=partitions)
    before, had = fleet.owners(), [copies.of_process(p) for p in range(instances)]
    for turn in range(instances):
        fleet.stop(turn)
        decision = fleet.rebalance()
        survivors = {task: owner for task, owner in before.items() if owner != turn}
        assert fleet.owners().keys() == before.keys(), turn
        assert survivors.items() <= fleet.owners().items(), turn
        assert not decision.followup, turn
        assert copies.given_up == [], turn
        assert all(copies.of_process(p) <= had[p] for p in range(instances)), turn
        fleet.now_ms += BACK_MS
        fleet.start(turn)
        fleet.settle()
        assert fleet.owners() == before, turn
        copies.given_up.clear()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_does_not_come_back_is_replaced(strategy: str) -> None:
    fleet, copies = seen(strategy)
    fleet.stop(0)
    fleet.settle()
    assert len(copies.short) == 8, "it had a copy of each of these"
    assert fleet.asked_ms() == fleet.now_ms + DIED_MS
    assert fleet.decision is not None
    assert fleet.decision.probing_at_ms == fleet.asked_ms(), "the leader asks, too"
    fleet.now_ms = fleet.asked_ms()
    fleet.settle()
    assert copies.short == set()
    assert Counter(fleet.owners().values()) == {1: 9, 2: 9}
    assert fleet.asked_ms() == NEVER_MS


@pytest.mark.parametrize(("standbys", "instances"), [(0, 3), (1, 2)])
def test_nobody_waits_where_there_are_no_copies_to_make(standbys: int, instances: int) -> None:
    fleet = Fleet(STREAMS_HA, NO_STRATEGY, instances=instances)
    fleet.configs = replace(fleet.configs, num_standby_replicas=standbys)
    fleet.settle()
    fleet.stop(0)
    fleet.settle()
    assert fleet.asked_ms() == NEVER_MS
    assert set(Counter(fleet.owners().values()).values()) == {18 // (instances - 1)}


@pytest.mark.slow
def test_nobody_waits_once_another_process_has_come_instead() -> None:
    fleet, copies = seen(NO_STRATEGY)
    fleet.stop(0)
    fleet.settle()
    fleet.lives[3] = 0
    fleet.start(3)
    fleet.settle()
    assert copies.short == set()
    assert Counter(fleet.owners().values())[3] == 6
