"""The thread on which the memberships of all groups run, with its own event loop, and how other threads reach it.

A late heartbeat stops a group, so nothing else runs there (ARCHITECTURE.md, "Nothing may touch the heartbeat").
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

THREAD = "bellwether-membership"

Loop = asyncio.AbstractEventLoop


def hand_over(loop: Loop, function: Callable[..., object], *arguments: object) -> None:
    """Schedules a call on another thread's loop, in the order of the calls to this. Does nothing if that loop has
    ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


@asynccontextmanager
async def membership_loop(watch: Coroutine[Any, Any, None]) -> AsyncIterator[Loop]:
    """Runs the loop, with `watch` on it, until the block ends. Then cancels what is left on it."""
    started: Future[tuple[Loop, asyncio.Event]] = Future()

    async def serve() -> None:
        ended = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), ended))
        watching = asyncio.create_task(watch)
        await ended.wait()
        watching.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name=THREAD, daemon=True)
    thread.start()
    loop, ended = await asyncio.wrap_future(started)
    try:
        yield loop
    finally:
        hand_over(loop, ended.set)
        await asyncio.to_thread(thread.join)
