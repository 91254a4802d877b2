"""Orders on the tasks of an application: which ones are worth a round."""

import asyncio
import time
from dataclasses import replace

from bellwether_kafka.assignors.shared.rules import Rule
from bellwether_kafka.assignors.streams.application.task_views import AssignmentConfigs
from bellwether_kafka.assignors.streams.decide import stock
from bellwether_kafka.coordinator.planning.planner import Planner
from bellwether_kafka.coordinator.planning.streams_config import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_kind import StreamsKind
from bellwether_kafka.protocol.primitives import ProcessId
from tests.unit.assignors.streams.world import Thread
from tests.unit.coordinator.planning.applications import App


def test_an_order_on_tasks_is_worth_a_rebalance_only_where_it_changes_the_plan() -> None:
    async def scenario() -> None:
        app = App()
        config = StreamsConfig("shop", policy="streams-ha", configs=AssignmentConfigs(acceptable_recovery_lag=0))
        parts = (app.cluster, app.log, app.known, stock(config.stages))
        planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
        threads = [Thread("a", 1, rack="a"), Thread("b", 2, rack="b")]
        for generation in (1, 2):
            planned = await planner.plan(app.order(generation, *threads, deadline=in_a_minute()))
            assert planner.delivered(generation) is not None
            threads = [thread.after(planned.chosen.decision) for thread in threads]
        again = replace(app.order(2, *threads, deadline=in_a_minute()), dry=True)
        planner.rule((Rule("ban", "*", "rack:moon"),))
        assert not await planner.would_change(again, ())
        planner.rule((Rule("ban", "*", "rack:b"),))
        assert await planner.would_change(again, ())
        assert planner.rules == (Rule("ban", "*", "rack:b"),), "what stood before was only asked about"

    asyncio.run(scenario())


def test_the_end_of_an_evacuation_is_worth_a_rebalance_where_the_process_is_back_without_tasks() -> None:
    """Its first plan after the order may leave every task and copy where it is until the next hand-over."""

    async def scenario() -> None:
        app = App()
        configs = AssignmentConfigs(acceptable_recovery_lag=100, num_standby_replicas=1)
        config = StreamsConfig("shop", policy="streams-ha", topology_attested=True, configs=configs)
        parts = (app.cluster, app.log, app.known, stock(config.stages))
        planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
        generation = 0

        async def settled(*threads: Thread) -> list[Thread]:
            nonlocal generation
            followup = True
            while followup:
                generation += 1
                decision = (await planner.plan(app.order(generation, *threads, deadline=in_a_minute()))).chosen.decision
                assert planner.delivered(generation) is not None
                threads, followup = tuple(thread.after(decision) for thread in threads), decision.followup
            return list(threads)

        remains, goes = await settled(Thread("a", 1), Thread("b", 2))
        evacuated = (Rule("evacuate", "*", f"member:{ProcessId(0, 2)}"),)
        planner.rule(evacuated)
        remains, goes = await settled(remains, goes)
        (remains,) = await settled(remains)
        back = Thread("b-again", 2, sums=goes.sums)
        await settled(remains, back)
        planner.rule(())
        again = replace(app.order(generation, remains, back, deadline=in_a_minute()), dry=True)
        assert await planner.would_change(again, evacuated)

    asyncio.run(scenario())


def in_a_minute() -> float:
    return time.monotonic() + 60
