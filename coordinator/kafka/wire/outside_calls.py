"""Calls that may wait for other systems than brokers: addresses, tokens, tickets, certificate files.

Rule: the loop of a client sends heartbeats and never makes a call that may wait for another system. Such calls run in
daemon threads with a deadline, which unlike those of concurrent.futures do not keep the process alive. While a new
answer is late, the last one is used.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors

IDLE_S = 30.0
GRACE_S = 0.1  # how long to wait for a new answer if there is an older one

T = TypeVar("T")


class DaemonThreads:
    """Runs jobs in order, at most `most` at a time. A job must not raise. `add` is thread-safe."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0

    def add(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._unfinished += 1
            another = self._threads < min(self._unfinished, self._most)
            self._threads += another
        self._jobs.put(job)
        if another:
            threading.Thread(target=self._work, name=f"bellwether-{self._name}", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._unfinished >= self._threads:
                        continue  # a job has been added for this thread
                    self._threads -= 1
                return
            try:
                job()
            finally:
                with self._lock:
                    self._unfinished -= 1


class OutsideCalls:
    """Calls of one kind. Each kind has its own threads, so calls that hang do not delay another kind. For one event
    loop.

    At most `most` run at a time; further ones wait, each until its own deadline.
    """

    def __init__(self, kind: str, most: int) -> None:
        self._kind = kind
        self._threads = DaemonThreads(kind, most)

    async def result(self, call: Callable[[], T], until: float) -> T:
        """Returns or raises what the call does; KafkaTimeoutError after `until`, in seconds of the loop's clock."""
        return await self.by(until, self.begin(call))

    def begin(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Starts the call, whose outcome need not be awaited."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        outcome.add_done_callback(_seen)

        def job() -> None:
            try:
                value = call()
            except BaseException as error:  # noqa: BLE001 - what awaits the outcome raises it
                _hand_over(loop, outcome, outcome.set_exception, error)
            else:
                _hand_over(loop, outcome, outcome.set_result, value)

        self._threads.add(job)
        return outcome

    async def by(self, until: float, outcome: "asyncio.Future[T]") -> T:
        """Returns or raises the outcome. Raises KafkaTimeoutError if there is none by `until`."""
        left_s = until - asyncio.get_running_loop().time()
        if not outcome.done():
            await asyncio.wait((outcome,), timeout=left_s)
        if not outcome.done():
            raise kafka_errors.KafkaTimeoutError(f"the {self._kind} did not come in time")
        return outcome.result()


def _seen(outcome: "asyncio.Future[Any]") -> None:
    """Keeps asyncio from logging an error that nobody awaits any more."""
    if not outcome.cancelled():
        outcome.exception()


def _hand_over(
    loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[Any]", settle: Callable[[Any], None], value: object
) -> None:
    def run() -> None:
        if not outcome.done():
            settle(value)

    with suppress(RuntimeError):  # the loop has ended, so nothing waits for the outcome
        loop.call_soon_threadsafe(run)


class LastGood(Generic[T]):
    """Keeps the last good answer for each key. One call for a key runs at a time. If it is late or fails, the previous
    answer is used. For one event loop."""

    def __init__(self, calls: OutsideCalls) -> None:
        self._calls = calls
        self._kept: dict[Hashable, T] = {}
        self._running: dict[Hashable, asyncio.Future[T]] = {}

    async def of(self, key: Hashable, call: Callable[[], T], until: float) -> T:
        """Returns the newest answer. Raises the call's error, or KafkaTimeoutError, only if there is none."""
        outcome = self._running.get(key) or self._begin(key, call)
        if key not in self._kept:
            return await self._calls.by(until, outcome)
        with suppress(Exception):  # whatever the error, the last good answer is used
            return await self._calls.by(min(until, asyncio.get_running_loop().time() + GRACE_S), outcome)
        return self._kept[key]

    def _begin(self, key: Hashable, call: Callable[[], T]) -> "asyncio.Future[T]":
        outcome = self._running[key] = self._calls.begin(call)

        def keep(done: "asyncio.Future[T]") -> None:
            self._running.pop(key, None)
            if not done.cancelled() and done.exception() is None:
                self._kept[key] = done.result()

        outcome.add_done_callback(keep)
        return outcome
