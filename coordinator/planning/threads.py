"""Runs plans in threads: a plan that hangs is not used, and delays neither the group nor the event loop.

Hundreds of groups may rebalance at once. Threads of all their plans would end at the same time, too late, and leave
little of the interpreter to the thread of heartbeats. So plans of Bellwether's own policies take turns, in order of
arrival: each of them ends. Foreign code may hang, so it neither waits for a turn nor takes one.

All groups may be compared at once, too, as when a rack file changes, and members wait for none of these plans.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from enum import Enum, auto
from typing import TypeVar

from bellwether_kafka.assignors.shared import RefusalCause, RefusalError

RUNNING_PLANS_MAX = 4  # of one group
TURNS = 8  # plans of all groups at once: enough that a few large ones do not delay the small ones
COMPARISONS = 2  # of them, so that a plan waits for few comparisons

Value = TypeVar("Value")


class Urgency(Enum):
    """How soon a plan is needed."""

    MEMBERS_WAIT = auto()
    COMPARISON = auto()  # its time limit may pass
    LAST_CHANCE = auto()  # a cheaper plan after one that was late, without which the group is lost


class Turns:
    """The turns of all groups. For one event loop. Cheaper plans have as many of their own: they do not wait behind the
    plans that were late, and those of many groups do not start at once."""

    def __init__(self, plans: int = TURNS, comparisons: int = COMPARISONS) -> None:
        self._plans, self._comparisons = asyncio.Semaphore(plans), asyncio.Semaphore(comparisons)
        self._cheaper = asyncio.Semaphore(plans)

    @asynccontextmanager
    async def taken(self, urgency: Urgency) -> AsyncIterator[None]:
        """Waits for a turn, and gives it back at the end."""
        match urgency:
            case Urgency.MEMBERS_WAIT:
                async with self._plans:
                    yield
            case Urgency.COMPARISON:
                async with self._comparisons, self._plans:
                    yield
            case Urgency.LAST_CHANCE:
                async with self._cheaper:
                    yield


class PlanThreads:
    """The planning threads of one group. `turns` are those of all groups, None if it waits for none."""

    def __init__(self, turns: Turns | None = None) -> None:
        self._running = 0
        self._turns = turns

    async def run(self, work: Callable[[], Value], limit_s: float, urgency: Urgency = Urgency.MEMBERS_WAIT) -> Value:
        """Runs `work` in a thread when it is its turn, and returns its result. Raises its exceptions, or
        TimeoutError."""
        turn = nullcontext() if self._turns is None else self._turns.taken(urgency)
        async with asyncio.timeout(limit_s), turn:
            self._running += 1
            return await in_thread(work, self._ended)

    def refuse_too_many(self) -> None:
        """Raises RefusalError while too many earlier plans still run. For foreign code, which may hang."""
        if self._running >= RUNNING_PLANS_MAX:
            raise RefusalError(RefusalCause.PLAN, f"{self._running} earlier plans still run")

    def _ended(self) -> None:
        self._running -= 1


def in_thread(work: Callable[[], Value], ended: Callable[[], None]) -> "asyncio.Future[Value]":
    """Runs `work` in a daemon thread, which cannot keep the process alive. `ended` is called on the loop when it has
    finished."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        ended()
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)  # type: ignore[arg-type]  # one of the two is set

    def run() -> None:
        try:
            result: tuple[Value | None, BaseException | None] = (work(), None)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
            result = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *result)

    threading.Thread(target=run, name="plan", daemon=True).start()
    return outcome
