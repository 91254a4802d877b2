"""Limits the work for HTTP answers: one at a time is made, in a separate thread, and an expensive one is cached for a
while. Probes do not wait for this.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bellwether_kafka.coordinator import clocks

CACHED_FROM_S = 0.005  # an answer that takes less is not cached
REST = 9  # an answer is cached for this multiple of the time it took, so that it uses at most a tenth of a core
REST_S_MAX = 2.0
SENT_MAX = 4  # answers sent at a time
WAITING_MAX = 384  # fewer than connections, so that some of these are idle and can be closed for new ones
READ_MAX = 3


class BusyError(Exception):
    """Too many requests are waiting."""


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: object
    until: float


class HttpAnswers:
    """Makes and caches answers, in the event loop of the HTTP server. `make` runs in another thread, one call at a
    time, and concurrent requests for the same key share its result."""

    def __init__(self, clock: Callable[[], float] = clocks.monotonic) -> None:
        self._clock = clock
        self._maker = ThreadPoolExecutor(1, "bellwether-page")
        self._kept: dict[object, _Kept] = {}
        self._making: dict[object, asyncio.Task[object]] = {}
        self._turns = asyncio.Semaphore(SENT_MAX)
        self._waiting = 0

    async def __aenter__(self) -> None:
        """Waits for a turn to make and send an answer. Raises BusyError."""
        if self._waiting >= WAITING_MAX:
            raise BusyError
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1

    async def __aexit__(self, *_: object) -> None:
        self._turns.release()

    async def of(self, key: object, make: Callable[[], object]) -> object:
        """Returns the answer for this key, from the cache or made now."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.answer
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.create_task(self._made(key, make))
            making.add_done_callback(lambda _: self._making.pop(key, None))
        return await asyncio.shield(making)

    async def _made(self, key: object, make: Callable[[], object]) -> object:
        answer, took_s = await asyncio.get_running_loop().run_in_executor(self._maker, lambda: _timed(make))
        now = self._clock()
        self._kept = {other: kept for other, kept in self._kept.items() if now < kept.until}
        if took_s >= CACHED_FROM_S:
            self._kept[key] = _Kept(answer, now + min(took_s * REST, REST_S_MAX))
        return answer


def _timed(make: Callable[[], object]) -> tuple[object, float]:
    began, collecting = time.thread_time(), gc.isenabled()
    # A collection now would promote the page's temporary objects, and a later full collection stops all threads.
    gc.disable()
    try:
        answer = _read(make)
    finally:
        if collecting:
            gc.enable()
    return answer, time.thread_time() - began


def _read(make: Callable[[], object]) -> object:
    """Calls `make`, and again if a container of another thread changed while it was read."""
    for _ in range(READ_MAX - 1):
        try:
            return make()
        except RuntimeError as changed:
            if "during iteration" not in str(changed):
                raise
    return make()
