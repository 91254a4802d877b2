"""Requests for a rebalance of an application because of uneven load: when, and how often."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Decision, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.membership import RebalanceWanted
from bellwether_kafka.coordinator.planning import (
    Planned,
    Timings,
    WatchedTopics,
    load_application,
)
from bellwether_kafka.coordinator.triggers import LoadRequests, LoadState
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import A, App, B, Led, run
from tests.kit.streams import sent

LOAD_INTERVAL_MAX_S = 3600.0
LOAD_INTERVAL_S = 60.0

LOAD = "load-aware"
REPARTITION = "shop-by-user-repartition"


class Weighed(Led):
    """An application led by a policy that uses these weights of partitions of `orders`."""

    def __init__(self, policy: str = LOAD) -> None:
        self.weights = {TopicPartition(topic, p): 100.0 for topic in ("orders", REPARTITION) for p in range(4)}
        config = replace(App().kind.config, policy=LOAD)
        super().__init__(assignors=load_application(config, lambda: Weights(self.weights)).assignors)
        self.app.kind.config = replace(config, policy=policy)

    async def at_rest(self) -> None:
        threads = [A, B]
        for generation in (1, 2, 3):
            await self.rebalance(generation, *threads)
            threads = [thread.after(self.decision) for thread in threads]

    @property
    def decision(self) -> Decision[TaskPlan]:
        assert self.last is not None
        return self.last.decision

    def planned_again(self, decision: Decision[TaskPlan] | None = None) -> None:
        """A rebalance is led, and leaves all tasks where they are."""
        self.last = Planned(decision or self.decision, WatchedTopics(("orders",)), Timings(0, 0, 0))
        self.watch.on_decision(self.last)

    def weigh_tasks_of_a(self, weight: float) -> None:
        tasks = sent(self.decision, "a")[1].active_tasks
        self.weights |= {TopicPartition("orders", t.partition): weight for t in tasks if t.subtopology == 0}


@pytest.mark.slow
def test_uneven_load_asks_for_a_rebalance_at_most_once_a_minute() -> None:
    async def scenario() -> None:
        led = Weighed()
        await led.at_rest()
        assert await led.later(1) == []
        led.weigh_tasks_of_a(900.0)
        assert await led.later(30) == []
        (wanted,) = await led.later(31)
        assert isinstance(wanted, RebalanceWanted)
        assert wanted.reason.startswith("the load of processes is uneven")
        assert await led.later(30) == []
        assert len(await led.later(31)) == 1

    run(scenario())


@pytest.mark.slow
def test_uneven_load_that_a_rebalance_leaves_as_it_was_asks_less_and_less_often() -> None:
    async def scenario() -> None:
        led = Weighed()
        await led.at_rest()
        led.weigh_tasks_of_a(900.0)
        asked_s = []
        for second in range(0, 2_000, 10):
            if await led.later(10):
                asked_s.append(second)
                led.planned_again()
        assert np.diff(asked_s).tolist() == [120, 240, 480, 960]

    run(scenario())


@pytest.mark.slow
def test_a_request_that_led_to_no_rebalance_is_repeated_after_the_same_interval() -> None:
    async def scenario() -> None:
        led = Weighed()
        await led.at_rest()
        led.weigh_tasks_of_a(900.0)
        asked_s = [second for second in range(0, 240, 10) if await led.later(10)]
        assert np.diff(asked_s).tolist() == [60, 60, 60]

    run(scenario())


@pytest.mark.slow
def test_uneven_load_asks_after_a_minute_again_once_owners_have_changed() -> None:
    async def scenario() -> None:
        led = Weighed()
        await led.at_rest()
        led.weigh_tasks_of_a(900.0)
        assert len(await led.later(61)) == 1
        led.planned_again()
        assert await led.later(110) == []
        assert len(await led.later(10)) == 1
        threads = [thread.after(led.decision) for thread in (A, B)]
        for generation in range(4, 10):
            await led.rebalance(generation, *threads)
            threads = [thread.after(led.decision) for thread in threads]
        assert not led.decision.followup
        led.weigh_tasks_of_a(9_000.0)
        assert len(await led.later(61)) == 1

    run(scenario())


def test_uneven_load_asks_for_nothing_under_another_policy() -> None:
    async def scenario() -> None:
        led = Weighed("streams-ha")
        await led.at_rest()
        led.weigh_tasks_of_a(900.0)
        assert await led.later(61) == []

    run(scenario())


def test_uneven_load_ends_no_application_that_only_goes_on_while_nobody_rebalances_it() -> None:
    async def scenario() -> None:
        led = Weighed()
        await led.at_rest()
        led.weigh_tasks_of_a(900.0)
        led.app.cluster.counts |= {"orders": 8}
        assert await led.later(61) == []

    run(scenario())


def test_owners_between_two_plans_of_one_move_shorten_no_interval() -> None:
    async def scenario() -> None:
        led = Weighed()
        await led.at_rest()
        await led.later(0)
        doubled = LoadRequests().requested(()).planned(())
        led.watch._states["load"] = LoadState(doubled)
        led.planned_again(replace(led.decision, probing_at_ms=1))
        await led.later(0)
        assert led.watch._states["load"].requests == doubled
        led.planned_again(replace(led.decision, probing_at_ms=None))
        await led.later(0)
        assert led.watch._states["load"].requests == LoadRequests()

    run(scenario())


def test_several_rebalances_after_one_request_double_the_interval_once() -> None:
    requests = LoadRequests().requested("owners")
    assert requests.planned("owners").planned("owners").interval_s == 2 * LOAD_INTERVAL_S


def test_uneven_load_asks_at_least_once_an_hour() -> None:
    requests = LoadRequests()
    for _ in range(20):
        requests = requests.requested("owners").planned("owners")
    assert requests.interval_s == LOAD_INTERVAL_MAX_S
