"""An event loop whose clock jumps to the next timer, and processes on it that can be killed and stopped.

Work in threads runs at once, on the loop. Each process is a context: whatever a task of it creates or schedules belongs
to it, too. What belongs to a killed process never runs again, and what belongs to a paused one waits.
"""

import asyncio
import selectors
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

import structlog

EPOCH_S = 1_700_000_000.0
ENDED_S = 3_600.0
STUCK = "nothing is due, and nothing can become due"


class Process:
    """One process on the loop. `skew_s` is of its time of day, `plan_s` how long its next plan takes. After `fuse` more
    steps it is killed, and `burnt` called."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.killed = False
        self.paused_until = 0.0
        self.fuse: int | None = None
        self.burnt: Callable[[], None] = lambda: None
        self.skew_s: Callable[[], float] = lambda: 0.0
        self.plan_s: Callable[[], float] = lambda: 0.0
        self.failed: Callable[[str], None] = lambda _: None  # called with each error that the process logs
        self.tasks: list[asyncio.Task[Any]] = []  # all of them: collecting one would run what it has left to do

    def burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.fuse = None
                self.burnt()

    def run(self, function: Callable[[], Any]) -> Any:
        """Calls a function as part of this process."""

        def inside() -> Any:
            RUNNING.set(self)
            return function()

        return copy_context().run(inside)

    def bury(self) -> None:
        """Lets what is left of it end, in a world that has ended."""
        self.killed, self.paused_until, self.fuse = False, 0.0, None
        self.failed = lambda _: None


def silence(_logger: Any, _level: str, event: Any) -> Any:
    """A processor of structlog: no line is written, and a traceback that a process logs is a failure."""
    process = RUNNING.get()
    if process is not None and event.get("exc_info"):
        process.failed(f"{event} {traceback.format_exc()}")
    raise structlog.DropEvent


RUNNING: ContextVar[Process | None] = ContextVar("process", default=None)


class _Jumping(selectors.SelectSelector):
    """Waits for nothing: the time of the loop goes on instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            self.loop.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`on_turn` is called before each turn in which time has gone on."""

    def __init__(self, on_turn: Callable[[], None] = lambda: None) -> None:
        self.now = 0.0
        self.turns = 0
        self._on_turn = on_turn
        jumping = _Jumping()
        jumping.loop = self
        super().__init__(jumping)
        self.unowned: list[str] = []  # failures of no process
        self.set_task_factory(_kept)
        self.set_exception_handler(self.failed)

    def failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A task of a killed process is destroyed while it waits; everything else is a failure that nobody awaited."""
        if "was destroyed but it is pending" not in context["message"]:
            process = RUNNING.get()
            error = context.get("exception")
            text = "".join(traceback.format_exception(error)) if error is not None else ""
            (process.failed if process is not None else self.unowned.append)(f"{context['message']} {text}")

    def _make_self_pipe(self) -> None:
        """Nothing wakes it from outside, and worlds that are only looked at take no file descriptors."""

    def _close_self_pipe(self) -> None:
        pass

    def __del__(self) -> None:
        """It has nothing that must be closed."""

    def time(self) -> float:
        return self.now

    def wall(self) -> float:
        process = RUNNING.get()
        return EPOCH_S + self.now + (process.skew_s() if process is not None else 0.0)

    def jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise RuntimeError(STUCK)
        if timeout > 0:
            self.now += timeout
        self.turns += 1
        self._on_turn()

    def call_soon(  # type: ignore[override]  # of whatever arguments
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(_guarded(self, callback, context), *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]  # likewise
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]  # likewise
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, _guarded(self, callback, context), *args, context=context)

    def end(self) -> None:
        """Cancels all tasks, and closes."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self._on_turn = lambda: None
        with suppress(RuntimeError):  # what waits for the thread of a killed process never ends
            self.run_until_complete(asyncio.wait(tasks, timeout=ENDED_S)) if tasks else None
        self.close()

    def start_thread(self, run: Callable[[], None]) -> None:
        """Does the work of a planning thread when its process is to have planned."""
        process = RUNNING.get()
        self.call_later(process.plan_s() if process is not None else 0.0, run)

    def run_in_executor(  # type: ignore[override]  # likewise
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Runs the function at once: nothing waits, as on an infinitely quick machine."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            future.set_exception(error)
        return future


def _kept(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    process = RUNNING.get()
    if process is not None:
        process.tasks.append(task)
        task.add_done_callback(process.tasks.remove)
    return task


def _guarded(loop: VirtualLoop, callback: Callable[..., object], context: Context | None) -> Callable[..., object]:
    process = RUNNING.get() if context is None else context.get(RUNNING)
    if process is None:
        return callback

    def run(*args: Any) -> None:
        if process.killed:
            return
        if loop.now < process.paused_until:
            super(VirtualLoop, loop).call_at(process.paused_until, run, *args, context=copy_context())
            return
        process.burn()
        if not process.killed:
            callback(*args)

    return run
