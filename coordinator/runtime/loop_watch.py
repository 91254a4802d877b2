"""Measures how late an event loop runs, and whether it runs at all, for other threads; and keeps background tasks
running."""

import asyncio
import gc
import math
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from bellwether_kafka.coordinator import clocks

INTERVAL_S = 0.25
WINDOW_S = 60.0
STUCK_S = 30.0
AGAIN_S = 5.0  # after the error of a background task

log = structlog.get_logger(__name__)


class LoopWatch:
    """Measures one event loop. `run` belongs to that loop; any thread may call the other methods."""

    def __init__(self, clock: Callable[[], float] = clocks.monotonic) -> None:
        self._clock = clock
        self._turned = math.inf  # while the loop is not measured
        self._late: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_S / INTERVAL_S))

    async def run(self) -> None:
        """Runs until cancelled."""
        self._turned = self._clock()
        try:
            while True:
                due = self._clock() + INTERVAL_S
                await asyncio.sleep(INTERVAL_S)
                self.turned(due)
        finally:
            self._turned = math.inf

    def turned(self, due: float) -> None:
        """Records that the loop runs now, although this turn was due at `due`."""
        self._turned = self._clock()
        self._late.append((self._turned, max(0.0, self._turned - due)))

    def lateness_s(self) -> float:
        """Returns the largest lateness of the last minute, in seconds."""
        now = self._clock()
        recent = [late for at, late in tuple(self._late) if now - at <= WINDOW_S]
        return max([*recent, now - self._turned - INTERVAL_S, 0.0])

    def stuck(self) -> str | None:
        """Returns a sentence if the loop has not run for long, else None."""
        idle_s = self._clock() - self._turned
        return f"the event loop has not run for {idle_s:.0f} s" if idle_s > STUCK_S else None


def in_background(run: Callable[[], Awaitable[object]]) -> "asyncio.Task[None]":
    """Starts a task that nobody awaits. If it raises, that is logged and it begins again: what it watches would be
    watched by nobody, and only its absence would tell."""
    return asyncio.create_task(_kept_running(run))


async def _kept_running(run: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await run()
        except Exception:
            log.exception("background_task_failed", task=_name(run), again_s=AGAIN_S)
        else:
            return
        await asyncio.sleep(AGAIN_S)


def _name(run: Callable[..., object]) -> str:
    return _name(run.func) if isinstance(run, partial) else getattr(run, "__qualname__", type(run).__name__)


def spare_collections() -> None:
    """Exempts all objects that exist at the start, and live as long as the process, from garbage collection: a
    collection that visits them stops every thread for 65 ms."""
    gc.collect()
    gc.freeze()
