"""Requests of many callers for topics, sent together: hundreds of groups that need the metadata of their topics at once
would otherwise wait for one another until their plans are late."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

WAIT_S = 0.2

A = TypeVar("A")


class Batches(Generic[A]):
    """Callers that come while a request is on its way share the next one. That begins when the one before has ended, at
    most WAIT_S after its first caller came: a request that hangs holds up no other. For one event loop."""

    def __init__(self, request: Callable[[list[str]], Awaitable[A]]) -> None:
        self._request = request
        self._topics: set[str] = set()  # of the next request
        self._next: asyncio.Task[A] | None = None
        self._sent: asyncio.Task[A] | None = None

    async def ask(self, topics: Iterable[str]) -> A:
        """Returns the answer to a request for these topics and perhaps others, which begins after this call. It goes on
        for the others if this call is cancelled."""
        if self._next is None or self._next.done():
            self._topics = set()
            self._next = asyncio.create_task(self._send(self._sent))
            self._next.add_done_callback(_retrieved)
        self._topics.update(topics)
        return await asyncio.shield(self._next)

    async def _send(self, before: "asyncio.Task[A] | None") -> A:
        if before is not None and not before.done():
            await asyncio.wait([before], timeout=WAIT_S)
        self._sent, self._next = self._next, None
        return await self._request(sorted(self._topics))


def _retrieved(task: "asyncio.Task[A]") -> None:
    """An error is for the callers, and there may be none left."""
    if not task.cancelled():
        task.exception()
