"""Measures how late an event loop runs, and whether it runs at all, for other threads."""

import asyncio
import gc
import math
import threading
from collections import deque
from collections.abc import Callable

from bellwether_kafka.coordinator import clocks

INTERVAL_S = 0.25
WINDOW_S = 60.0
STUCK_S = 30.0


class LoopWatch:
    """Measures one event loop. `run` belongs to that loop; any thread may call the other methods."""

    def __init__(self, clock: Callable[[], float] = clocks.monotonic) -> None:
        self._clock = clock
        self._turned = math.inf  # while the loop is not measured
        self.threads: tuple[threading.Thread, ...] = ()  # without which the loop waits for ever
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
            self._turned, self.threads = math.inf, ()

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
        """Returns a sentence if the loop has not run for long, or waits for a thread that has ended, else None."""
        ended = next((thread.name for thread in self.threads if not thread.is_alive()), None)
        if ended is not None:
            return f"the thread {ended} has ended; its error is on stderr"
        idle_s = self._clock() - self._turned
        return f"the event loop has not run for {idle_s:.0f} s" if idle_s > STUCK_S else None


def spare_collections() -> None:
    """Exempts all objects that exist at the start, and live as long as the process, from garbage collection: a
    collection that visits them stops every thread for 65 ms."""
    gc.collect()
    gc.freeze()
