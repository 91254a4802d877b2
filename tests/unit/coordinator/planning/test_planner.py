"""Orders on the tasks of an application: which ones are worth a rebalance."""

import time
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams import TaskPlan, stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.coordinator.planning import Planned, Planner, StreamsConfig, StreamsKind
from bellwether_kafka.protocol.primitives import ProcessId
from tests.kit.applications import App, under
from tests.kit.streams import Thread


@pytest.mark.slow
async def test_an_order_on_tasks_is_worth_a_rebalance_only_where_it_changes_the_plan() -> None:
    app = App()
    config = StreamsConfig("shop", policy="streams-ha", configs=AssignmentConfigs(acceptable_recovery_lag=0))
    parts = (app.cluster, app.log, app.topology_source, stock(config.stages))
    planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
    threads = [Thread("a", 1, rack="a"), Thread("b", 2, rack="b")]
    for generation in (1, 2):
        planned = await planner.plan(app.order(generation, *threads, deadline=in_a_minute()))
        assert planner.delivered(generation) is not None
        threads = [thread.after(planned.decision) for thread in threads]
    again = replace(app.order(2, *threads, deadline=in_a_minute()), dry=True)
    under(planner, (Rule("ban", "*", "rack:moon"),))
    assert not await planner.would_change(again, ())
    under(planner, (Rule("ban", "*", "rack:b"),))
    assert await planner.would_change(again, ())


@pytest.mark.slow
async def test_the_end_of_an_evacuation_is_worth_a_rebalance_where_the_process_is_back_without_tasks() -> None:
    """Its first plan after the order may leave every task and copy where it is until the next hand-over."""
    app = App()
    configs = AssignmentConfigs(acceptable_recovery_lag=100, num_standby_replicas=1)
    config = StreamsConfig("shop", policy="streams-ha", topology_attested=True, configs=configs)
    parts = (app.cluster, app.log, app.topology_source, stock(config.stages))
    planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
    generation = 0

    async def settled(*threads: Thread) -> list[Thread]:
        nonlocal generation
        followup = True
        while followup:
            generation += 1
            decision = (await planner.plan(app.order(generation, *threads, deadline=in_a_minute()))).decision
            assert planner.delivered(generation) is not None
            threads, followup = tuple(thread.after(decision) for thread in threads), decision.followup
        return list(threads)

    remains, goes = await settled(Thread("a", 1), Thread("b", 2))
    evacuated = (Rule("evacuate", "*", f"member:{ProcessId(0, 2)}"),)
    under(planner, evacuated)
    remains, goes = await settled(remains, goes)
    (remains,) = await settled(remains)
    back = Thread("b-again", 2, sums=goes.sums)
    await settled(remains, back)
    under(planner, ())
    again = replace(app.order(generation, remains, back, deadline=in_a_minute()), dry=True)
    assert await planner.would_change(again, evacuated)


def in_a_minute() -> float:
    return time.monotonic() + 60


@pytest.mark.slow
async def test_an_applied_plan_of_tasks_is_followed_in_each_rebalance_of_its_threads_and_in_no_other() -> None:
    app = App()
    configs = AssignmentConfigs(acceptable_recovery_lag=100, num_standby_replicas=1)
    config = StreamsConfig("shop", policy="streams-ha", configs=configs)
    parts = (app.cluster, app.log, app.topology_source, stock(config.stages))
    planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
    generation = 0

    async def settled(*threads: Thread) -> tuple[tuple[Thread, ...], Planned[TaskPlan]]:
        nonlocal generation
        followup = True
        while followup:
            generation += 1
            planned = await planner.plan(app.order(generation, *threads, deadline=in_a_minute()))
            assert planner.delivered(generation) is not None
            decision = planned.decision
            threads, followup = tuple(thread.after(decision) for thread in threads), decision.followup
        return threads, planned

    threads, planned = await settled(Thread("a", 1), Thread("b", 2))
    plan = planned.decision.plan
    names = plan.names(np.arange(len(plan.owner), dtype=np.int32))
    exchanged = {name: f"member:{ProcessId(0, 2 - int(at))}" for name, at in zip(names, plan.owner, strict=True)}
    among = frozenset(thread.member_id for thread in threads)
    rules = tuple(Rule("plan", name, where, "eve", among) for name, where in exchanged.items())
    under(planner, rules)
    for _ in range(2):
        threads, planned = await settled(*threads)
        of_plan = planned.decision.plan
        assert not len(of_plan.against(rules, of_plan.owner))
        assert (of_plan.owner == 1 - plan.owner).all()
        assert planned.rules == rules
    _, planned = await settled(*threads, Thread("c", 3))
    assert planned.rules == ()
