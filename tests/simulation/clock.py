"""The time of a world: that of its loop. What is asked for here belongs to no process, so that the death of one stops
neither the wires nor the brokers."""

import asyncio
from collections.abc import Callable
from contextvars import Context

from tests.kit.virtual_time import VirtualLoop

LOOK_S, LOOKS_MAX = 0.01, 1_000_000

Work = Callable[[], None]
Handle = asyncio.TimerHandle


class Clock:
    """Seconds since the world began, and what the world itself is to do later; `steps` counts that."""

    def __init__(self, loop: VirtualLoop | None = None) -> None:
        self.loop = loop or VirtualLoop()
        self.steps = 0

    @property
    def now(self) -> float:
        return self.loop.now

    def at(self, when: float, work: Work) -> Handle:
        def counted() -> None:
            self.steps += 1
            work()

        return self.loop.call_at(max(when, self.loop.now), counted, context=Context())

    def after(self, delay_s: float, work: Work) -> Handle:
        return self.at(self.loop.now + delay_s, work)

    def run_until(self, over: Callable[[], bool]) -> None:
        """Lives on until this has come true."""

        async def look() -> None:
            for _ in range(LOOKS_MAX):
                if over():
                    return
                await asyncio.sleep(LOOK_S)
            raise AssertionError("nothing will ever happen")

        self.loop.run_until_complete(look())
