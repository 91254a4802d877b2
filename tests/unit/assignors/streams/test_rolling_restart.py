"""An application whose instances are restarted one by one, decision by decision (see `fleet`).

The operator goes on as soon as nothing is to be handed out and nobody has been asked to join again within the second.
"""

from collections import Counter

import pytest

from bellwether_kafka.assignors.streams.application import NO_STRATEGY
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from tests.unit.assignors.streams.fleet import Fleet


def pauses(fleet: Fleet, *, slow: bool = False) -> Counter[str]:
    """Restarts all three; counts how often each task was with the instance that stopped. A slow one comes back when its
    session has ended and the others have gone on without it."""
    hit: Counter[str] = Counter()
    for process in range(3):
        hit.update(task for task, owner in fleet.owners().items() if owner == process)
        fleet.stop(process)
        fleet.now_ms += 10_000
        if slow:
            fleet.rest()
            fleet.now_ms += 20_000
        fleet.start(process)
        fleet.rest()
    return hit


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_no_task_is_stopped_twice(strategy: str) -> None:
    fleet = Fleet(STREAMS_HA, strategy)
    before = fleet.owners()
    rebalances = fleet.rebalances
    hit = pauses(fleet)
    assert set(hit.values()) == {1}, hit
    assert fleet.owners() == before, "and everything is where it was"
    assert fleet.rebalances - rebalances == 9, "one to go on, one to ask, one to hand out"


@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_nothing_moves_where_stores_are_durable(strategy: str) -> None:
    fleet = Fleet(STREAMS_HA, strategy, durable=True)
    before, rebalances, moves = fleet.owners(), fleet.rebalances, fleet.moves
    hit = pauses(fleet)
    assert set(hit.values()) == {1}, hit
    assert fleet.owners() == before
    assert fleet.moves == moves
    assert fleet.rebalances - rebalances == 6, "one to go on, one to ask"


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_no_task_is_stopped_twice_where_instances_come_back_late(strategy: str, durable: bool) -> None:
    hit = pauses(Fleet(STREAMS_HA, strategy, durable=durable), slow=True)
    assert set(hit.values()) == {1}, hit


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_without_the_memory_some_are(strategy: str) -> None:
    """What is tested is alive: if this fails, the test above proves nothing."""
    fleet = Fleet(STREAMS_HA, strategy, forgetful=True)
    assert max(pauses(fleet).values()) > 1


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
def test_kafkas_policy_needs_more_rebalances_and_moves_more(strategy: str) -> None:
    """As Java leads: it has no memory of what it left pending."""
    kafka, own = Fleet("kafka", strategy, forgetful=True), Fleet(STREAMS_HA, strategy)
    assert kafka.rebalances >= own.rebalances
    before = kafka.rebalances, own.rebalances
    pauses(kafka)
    pauses(own)
    assert kafka.rebalances - before[0] >= own.rebalances - before[1]
    assert kafka.moves >= own.moves
