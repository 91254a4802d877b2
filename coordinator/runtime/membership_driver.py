"""The thread on which the memberships of all groups run, with an event loop of its own, and how other threads reach it;
and the driver of each membership: its requests, answers and timers. Other commands, and a view of the state, are handed
to the runner step by step.

A late heartbeat stops a group, so nothing else runs there (ARCHITECTURE.md, "Nothing may touch the heartbeat").
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from bellwether_kafka.coordinator import clocks, membership

THREAD = "bellwether-membership"

Loop = asyncio.AbstractEventLoop
T = TypeVar("T")


def hand_over(loop: Loop, function: Callable[..., object], *arguments: object) -> None:
    """Schedules a call on another thread's loop, in the order of the calls to this. Does nothing if that loop has
    ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


async def on_loop(loop: Loop, work: Coroutine[Any, Any, T]) -> T:
    """Returns what a coroutine returns that runs on this loop, which may be that of another thread."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStep:
    """The result of one event, which is None for the start. `at` is in seconds, monotonic. `commands` are all commands;
    requests among them have been sent. `error` is a bug that ends the membership."""

    event: membership.Event | None
    at: float
    view: membership.MembershipView
    commands: tuple[membership.Command, ...] = ()
    error: Exception | None = None


OnStep = Callable[[DriverStep], None]


class Sender(Protocol):
    """The part of `kafka.Transport` that this module uses."""

    async def request(self, command: membership.Request) -> membership.Answer | membership.RequestFailed: ...
    def abandon(self, group_id: str) -> None: ...


class MembershipDriver:
    """The driver of one group. Its methods may be called from any thread. The machine belongs to `loop`, which need not
    run yet."""

    def __init__(
        self,
        config: membership.MembershipConfig,
        transport: Sender,
        loop: Loop,
        *,
        turns: membership.SearchTurns | None = None,
        clock: Callable[[], float] = clocks.monotonic,
    ) -> None:
        self.config = config
        self.machine = membership.GroupMembership(config, turns=turns)
        self._loop = loop
        self._transport = transport
        self._clock = clock
        self._events: asyncio.Queue[membership.Event] = asyncio.Queue()
        self._running: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._parked: dict[int, asyncio.Task[None]] = {}
        self._wake_next = False

    def post(self, event: membership.Event) -> None:
        hand_over(self._loop, self._events.put_nowait, event)

    def start(self, on_step: OnStep) -> None:
        """Starts the membership. `on_step` is called on the loop of the memberships, but not for heartbeats that change
        nothing; the last step has the command `MembershipStopped` or an error."""
        hand_over(self._loop, self._start, on_step)

    async def leave(self, reason: str) -> None:
        """Sends LeaveGroup if necessary, when the process can do nothing more for the group. Returns after the
        answer."""
        await on_loop(self._loop, self._leave(reason))

    def close(self) -> None:
        """Cancels running requests and drops the group's join connections."""
        hand_over(self._loop, self._close)

    # ---- on the loop of the memberships ----------------------------------------------------------------------------

    def _start(self, on_step: OnStep) -> None:
        self._running = asyncio.create_task(self._run(on_step))

    async def _run(self, on_step: OnStep) -> None:
        view, event = self.machine.view, None
        try:
            while True:
                step = self._step(event)
                if not _is_quiet(step, view):
                    on_step(step)
                view = step.view
                if any(isinstance(command, membership.MembershipStopped) for command in step.commands):
                    return
                event = await self._next_event()
        except Exception as error:  # noqa: BLE001 - it is logged where log lines are written
            on_step(DriverStep(event=event, at=self._clock(), view=view, error=error))

    def _step(self, event: membership.Event | None) -> DriverStep:
        machine, now = self.machine, self._clock()
        commands = machine.start(now) if event is None else machine.handle(event, now)
        for command in commands:
            if isinstance(command, membership.Abandon):
                self._abandon(command)
            elif isinstance(command, membership.Request):
                self._send(command)
        return DriverStep(event=event, at=now, view=machine.view, commands=commands)

    async def _next_event(self) -> membership.Event:
        deadline = self.machine.deadline()
        if deadline is None:
            return await self._events.get()
        left = deadline - self._clock()
        # Handle queued events before an expired timer, but let an expired timer wait for only one event.
        if not self._events.empty() and not self._wake_next:
            self._wake_next = left <= 0
            return self._events.get_nowait()
        self._wake_next = False
        try:
            async with asyncio.timeout(max(0.0, left)):
                return await self._events.get()
        except TimeoutError:
            return membership.Wake()

    def _send(self, command: membership.Request) -> None:
        task = asyncio.create_task(self._request(command))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        if isinstance(command, (membership.Join, membership.Sync)):
            self._parked[command.request_id] = task
            task.add_done_callback(lambda _: self._parked.pop(command.request_id, None))

    async def _request(self, command: membership.Request) -> None:
        self._events.put_nowait(await self._transport.request(command))

    def _abandon(self, command: membership.Abandon) -> None:
        task = self._parked.pop(command.request_id, None)
        if task is not None:
            task.cancel()
        self._transport.abandon(self.config.group_id)

    async def _leave(self, reason: str) -> None:
        if self._running is not None:
            self._running.cancel()
        command = self.machine.final_leave(reason)
        if command is not None:
            await self._transport.request(command)

    def _close(self) -> None:
        for task in (self._running, *self._requests):
            if task is not None:
                task.cancel()
        self._transport.abandon(self.config.group_id)


def _is_quiet(step: DriverStep, before: membership.MembershipView) -> bool:
    """Returns whether the step is a heartbeat, or its answer, and changes nothing. A thousand groups at rest have two
    thousand of these a second, each of which would wake the loop of the process."""
    of_heartbeats = isinstance(step.event, (membership.Wake, membership.HeartbeatAnswer))
    unchanged = step.error is None and step.view == before
    return of_heartbeats and unchanged and all(isinstance(c, membership.Heartbeat) for c in step.commands)
