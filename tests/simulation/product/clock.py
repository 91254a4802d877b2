"""The time of a world: that of its loop. What is asked for here belongs to no process, so that the death of one stops
neither the wires nor the brokers."""

from asyncio import TimerHandle
from contextvars import Context

from tests.simulation import clock
from tests.simulation.clock import Work
from tests.simulation.product.loop import VirtualLoop


class Handle(clock.Handle):
    __slots__ = ("_timer",)

    def __init__(self, timer: TimerHandle, work: Work) -> None:
        super().__init__(timer.when(), 0, work)
        self._timer = timer

    def cancel(self) -> None:
        self._timer.cancel()


class LoopClock(clock.Clock):
    """The loop does what is due; nobody calls `step`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        super().__init__()

    @property
    def now(self) -> float:
        return self.loop.time()

    @now.setter
    def now(self, seconds: float) -> None:
        assert seconds == 0.0, "the loop has the time"

    def at(self, when: float, work: Work) -> Handle:
        def counted() -> None:
            self.steps += 1
            work()

        return Handle(self.loop.call_at(max(when, self.now), counted, context=Context()), work)

    def step(self, until: float) -> bool:
        raise NotImplementedError(f"the loop of the world runs until {until}")
