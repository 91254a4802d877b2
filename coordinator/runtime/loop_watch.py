"""How late an event loop is, and whether it turns at all, for other threads."""

import asyncio
import gc
import math
import time
from collections import deque
from collections.abc import Callable

INTERVAL_S = 0.25
WINDOW_S = 60.0
STUCK_S = 30.0


class LoopWatch:
    """`run` belongs to the loop that is watched; everything else may be asked from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turned = math.inf  # while it is not watched
        self._late: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_S / INTERVAL_S))

    async def run(self) -> None:
        """Until cancelled."""
        self._turned = self._clock()
        try:
            while True:
                due = self._clock() + INTERVAL_S
                await asyncio.sleep(INTERVAL_S)
                self.turned(due)
        finally:
            self._turned = math.inf

    def turned(self, due: float) -> None:
        """The loop was to turn at `due` and turns now."""
        self._turned = self._clock()
        self._late.append((self._turned, max(0.0, self._turned - due)))

    def lateness_s(self) -> float:
        """The largest of the last minute."""
        now = self._clock()
        recent = [late for at, late in tuple(self._late) if now - at <= WINDOW_S]
        return max([*recent, now - self._turned - INTERVAL_S, 0.0])

    def stuck(self) -> str | None:
        """A sentence where the loop has not turned for long, None where it turns."""
        idle_s = self._clock() - self._turned
        return f"the event loop has not turned for {idle_s:.0f} s" if idle_s > STUCK_S else None


def spare_collections() -> None:
    """Takes what is there at the start, which lives as long as the process, out of garbage collections. One that visits
    it stops every thread for 65 ms."""
    gc.collect()
    gc.freeze()
