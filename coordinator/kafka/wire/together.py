"""One request for callers that come at the same time: hundreds of groups that ask at once would otherwise wait for one
another until their plans are late."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

WAIT_S = 0.2  # of a batch for the one before it

A = TypeVar("A")
R = TypeVar("R")

Give = Callable[[int, R | Exception], None]


class Together(Generic[A, R]):
    """Callers that come while a request is on its way share the next one. That begins when the one before has its first
    answer, at most WAIT_S after its first caller came: a request that hangs holds up no other. For one event loop.

    `answer` receives all questions of a batch, and gives the answer or error of each, by its position, when it is
    known: a silent broker delays those that need it, and no others."""

    def __init__(self, answer: Callable[[Sequence[A], Give[R]], Awaitable[None]]) -> None:
        self._answer = answer
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._answered: asyncio.Event | None = None  # of the last batch that was sent
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: A) -> R:
        """Returns the answer to a request that begins after this call. It goes on for the others if this call is
        cancelled. Raises the error that `answer` gave for this question, or has raised."""
        outcome: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, outcome))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._send(self._answered))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await outcome

    async def _send(self, before: asyncio.Event | None) -> None:
        if before is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await before.wait()
        answered = self._answered = asyncio.Event()
        asked, self._waiting = self._waiting, []

        def give(position: int, answer: R | Exception) -> None:
            answered.set()
            _, outcome = asked[position]
            if outcome.done():
                return
            if isinstance(answer, Exception):
                outcome.set_exception(answer)
            else:
                outcome.set_result(answer)

        left: Exception = AssertionError("a request of a batch has no answer")
        try:
            await self._answer([question for question, _ in asked], give)
        except Exception as error:  # noqa: BLE001 - the callers handle it
            left = error
        for position in range(len(asked)):
            give(position, left)
