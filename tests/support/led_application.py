"""An application that is led, as triggers see it."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from bellwether_kafka.assignors.streams import Assignors
from bellwether_kafka.coordinator.membership import Event, MembershipView, State
from bellwether_kafka.coordinator.triggers import StreamsWatch
from tests.unit.assignors.streams.world import SIMPLE, Thread
from tests.unit.coordinator.membership.playbook import ME, Play, member
from tests.unit.coordinator.planning.applications import App

STARTED_S = 500.0  # by the monotonic clock, which has nothing in common with the wall clock
A, B = Thread("a", 1), Thread("b", 2)


class Led:
    """An application that is led by a machine at rest, and what its watch says."""

    def __init__(self, app: App | None = None, assignors: Assignors = SIMPLE) -> None:
        self.app = app or App()
        self.app.kind._assignors = assignors
        self.play = Play(protocols=("stream",)).joining().joined(member(ME), member("a"), protocol="stream")
        self.message: list[Event] = []
        self.set_by_s = self.app.at_s - STARTED_S  # by how much the wall clock is ahead of the monotonic one
        log: Any = self.app.log
        self.watch = StreamsWatch(
            self.app.kind,
            log,
            clock=lambda: self.app.at_s - self.set_by_s,
            wall_clock=lambda: self.app.at_s,
        )

    @property
    def membership(self) -> MembershipView:
        return self.play.machine.view

    def post(self, event: Event) -> None:
        self.message.append(event)

    async def rebalance(self, generation: int, *threads: Thread) -> None:
        command = self.app.order(generation, *threads, deadline=time.monotonic() + 5)
        planned = await self.app.planner.plan(command)
        self.app.planner.delivered(generation)
        self.watch.on_decision(planned)
        if self.play.state is State.DECIDING:
            self.play.planned().synced()

    async def later(self, seconds: float) -> list[Event]:
        self.app.at_s += seconds
        await self.watch.tick(self)
        message, self.message[:] = list(self.message), []
        return message


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)
