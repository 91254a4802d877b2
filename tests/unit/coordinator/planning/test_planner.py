"""Orders on the tasks of an application: which ones are worth a round."""

import asyncio
import time
from dataclasses import replace

from bellwether_kafka.assignors.shared.rules import Rule
from bellwether_kafka.assignors.streams.application.model import AssignmentConfigs
from bellwether_kafka.assignors.streams.decide import stock
from bellwether_kafka.coordinator.planning.planner import Planner
from bellwether_kafka.coordinator.planning.streams_config import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_kind import StreamsKind
from tests.unit.assignors.streams.world import Thread
from tests.unit.coordinator.planning.applications import App


def test_an_order_on_tasks_is_worth_a_round_only_where_it_changes_the_plan() -> None:
    async def story() -> None:
        app = App()
        config = StreamsConfig("shop", policy="streams-ha", configs=AssignmentConfigs(acceptable_recovery_lag=0))
        parts = (app.cluster, app.log, app.known, stock(config.stages))
        planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
        threads = [Thread("a", 1, rack="a"), Thread("b", 2, rack="b")]
        for generation in (1, 2):
            planned = await planner.plan(app.order(generation, *threads, deadline=time.monotonic() + 60))
            assert planner.delivered(generation) is not None
            threads = [thread.after(planned.chosen.decision) for thread in threads]
        again = replace(app.order(2, *threads, deadline=time.monotonic() + 60), dry=True)
        planner.rule((Rule("ban", "*", "rack:moon"),))
        assert not await planner.would_change(again, ())
        planner.rule((Rule("ban", "*", "rack:b"),))
        assert await planner.would_change(again, ())
        assert planner.kind.rules == (Rule("ban", "*", "rack:b"),), "what stood before was only asked about"

    asyncio.run(story())
