"""An event loop on which nothing waits: where nothing is ready, its time jumps to the next timer.

Work for threads runs at once, on the loop. A simulation has processes on it: each is a context, and whatever a task of
it creates or schedules belongs to it, too. What belongs to a killed process never runs again, and what belongs to a
paused one waits.
"""

import asyncio
import selectors
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

Result = TypeVar("Result")

EPOCH_S = 1_700_000_000.0
ENDED_S = 3_600.0
CANCELLED_TIMES = 10
BUSY = 10_000
CIRCLES = f"something runs in circles: {BUSY} turns in no time"
STUCK = "nothing is due, and nothing can become due"


class Process:
    """One process on the loop. `skew_s` is of its time of day, `plan_s` how long its next plan takes. After `fuse` more
    steps it is killed, and `burnt` called. `computes`: its steps take the time that they take on this machine."""

    def __init__(self, name: str, *, computes: bool = False) -> None:
        self.name = name
        self.computes = computes
        self.spent_s = 0.0
        self._began: float | None = None
        self.killed = False
        self.paused_until = 0.0
        self.fuse: int | None = None
        self.burnt: Callable[[], None] = lambda: None
        self.skew_s: Callable[[], float] = lambda: 0.0
        self.plan_s: Callable[[], float] = lambda: 0.0
        self.failed: Callable[[str], None] = lambda _: None  # called with each error that the process logs
        self.tasks: list[asyncio.Task[Any]] = []  # all of them: collecting one would run what it has left to do
        self.put_off: deque[tuple[_Owned, tuple[Any, ...]]] = deque()  # by a pause

    def run(self, function: Callable[[], Any]) -> Any:
        """Calls a function as part of this process."""

        def inside() -> Any:
            RUNNING.set(self)
            return function()

        return copy_context().run(inside)

    def burns(self) -> bool:
        """Whether it is killed before its next step."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.fuse = None
                self.burnt()
        return self.killed

    def step(self, now: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if not self.computes:
            callback(*args)
            return
        self._began = time.thread_time()
        callback(*args)
        spent_s, self._began = self.under_way_s, None
        self.spent_s += spent_s
        self.paused_until = max(self.paused_until, now + spent_s)

    @property
    def under_way_s(self) -> float:
        """What its present step has taken up to now."""
        return 0.0 if self._began is None else time.thread_time() - self._began

    def bury(self) -> None:
        """Lets what is left of it end, in a world that has ended."""
        self.killed, self.paused_until, self.fuse, self.computes = False, 0.0, None, False
        self.failed = lambda _: None


RUNNING: ContextVar[Process | None] = ContextVar("process", default=None)


class _Owned:
    """What a process is to do."""

    __slots__ = ("callback", "context", "handle", "loop", "process")

    def __init__(
        self, loop: "VirtualLoop", process: Process, context: Context, callback: Callable[..., object]
    ) -> None:
        self.loop, self.process, self.context, self.callback = loop, process, context, callback
        self.handle: asyncio.Handle | None = None

    def __call__(self, *args: Any) -> None:
        process = self.process
        awake = not process.put_off and not process.killed and self.loop.now >= process.paused_until
        if awake and not process.burns():
            self.step(args)
            return
        process.put_off.append((self, args))
        if len(process.put_off) == 1 and not process.killed:
            self.loop.resume_later(process)

    def step(self, args: tuple[Any, ...]) -> None:
        if self.handle is None or not self.handle.cancelled():
            self.process.step(self.loop.now, self.callback, args)


class _Jumping(selectors.SelectSelector):
    """Waits for nothing: the time of the loop goes on instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0) if self.get_map() else []
        if not ready:
            self.loop.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`on_turn` is called whenever all is done that can be done without time going on."""

    def __init__(self, on_turn: Callable[[], None] = lambda: None) -> None:
        self.now = 0.0
        self.turns = self.turns_at_once = 0
        self._on_turn = on_turn
        jumping = _Jumping()
        jumping.loop = self
        super().__init__(jumping)
        self.unowned: list[str] = []  # failures of no process
        self.set_task_factory(_kept)

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
        if timeout <= 0:
            self.turns_at_once += 1
            if self.turns_at_once > BUSY:
                raise RuntimeError(CIRCLES)
            return
        self._on_turn()
        self.turns, self.turns_at_once = self.turns + 1, 0
        self.now += timeout

    def call_soon(  # type: ignore[override]  # of whatever arguments
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        owned = self._owned(callback, context)
        handle = super().call_soon(owned, *args, context=context)
        if isinstance(owned, _Owned):
            owned.handle = handle
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # likewise
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]  # likewise
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        owned = self._owned(callback, context)
        handle = super().call_at(when, owned, *args, context=context)
        if isinstance(owned, _Owned):
            owned.handle = handle
        return handle

    def _owned(self, callback: Callable[..., object], context: Context) -> Callable[..., object]:
        process = context.get(RUNNING)
        return callback if process is None else _Owned(self, process, context, callback)

    def resume_later(self, process: Process) -> None:
        super().call_at(process.paused_until, self._resume, process, context=Context())

    def _resume(self, process: Process) -> None:
        """Does what was put off, in its order."""
        while process.put_off and not process.killed:
            if self.now < process.paused_until:
                self.resume_later(process)
                return
            if process.burns():
                return
            owned, args = process.put_off[0]
            try:
                owned.context.run(owned.step, args)
            except Exception as error:  # noqa: BLE001 - as the loop does it
                self.call_exception_handler({"message": f"{owned.callback} failed", "exception": error})
            process.put_off.popleft()

    def end(self, processes: Iterable[Process] = ()) -> None:
        """Cancels all tasks, also of these processes that were killed, and closes."""
        self.set_exception_handler(lambda *_: None)
        self._on_turn = lambda: None
        for process in processes:
            process.bury()
            super().call_soon(self._resume, process)
        for _ in range(CANCELLED_TIMES):  # who cleans up may wait for what never comes
            tasks = asyncio.all_tasks(self)
            for task in tasks:
                task.cancel()
            if tasks:
                self.run_until_complete(asyncio.wait(tasks, timeout=ENDED_S))
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


def run_in_virtual_time(coroutine: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
