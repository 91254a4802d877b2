"""Calls that may wait for other systems than brokers: addresses, tokens, tickets, certificate files.

Rule: the I/O thread sends heartbeats and never makes a call that may wait for another system. Such calls run in daemon
threads with a deadline, which unlike those of concurrent.futures do not keep the process alive. While a new answer is
late, the last one is used.
"""

import queue
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.future import Future

from bellwether_kafka.coordinator import clocks

IDLE_S = 30.0


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


GRACE_S = 0.1  # how long to wait for a new answer if there is an older one

T = TypeVar("T")


class OutsideCalls:
    """Calls of one kind. Each kind has its own threads, so calls that hang do not delay another kind. For the I/O
    thread only.

    At most `most` run at a time; further ones wait, each until its own deadline.
    """

    def __init__(self, net: Any, kind: str, most: int) -> None:
        self._net = net
        self._kind = kind
        self._threads = DaemonThreads(kind, most)

    async def result(self, call: Callable[[], T], until: float) -> T:
        """Returns or raises what the call does; KafkaTimeoutError after `until` (monotonic, seconds)."""
        value: T = await self.by(until, self.begin(call))
        return value

    def begin(self, call: Callable[[], T]) -> Any:
        """Starts the call. Returns the library's Future, which is resolved on the I/O thread."""
        outcome = Future()

        def job() -> None:
            try:
                value = call()
            except BaseException as error:  # noqa: BLE001 - handed to the coroutine that waits
                self._hand_over(outcome.failure, error)
            else:
                self._hand_over(outcome.success, value)

        self._threads.add(job)
        return outcome

    async def by(self, until: float, outcome: Any) -> Any:
        """Returns or raises the Future's outcome. Raises KafkaTimeoutError if it has none by `until`."""
        if outcome.is_done:
            return await outcome
        first = Future()

        def settle(error: Exception | None, value: object = None) -> None:
            if first.is_done:
                return
            if error is not None:
                first.failure(error)
            else:
                first.success(value)

        late = kafka_errors.KafkaTimeoutError(f"the {self._kind} did not come in time")
        timer = self._net.call_at(until, lambda: settle(late))
        outcome.add_callback(lambda value: settle(None, value))
        outcome.add_errback(settle)
        try:
            return await first
        finally:
            self._net.cancel(timer)

    def _hand_over(self, settle: Callable[[Any], object], value: object) -> None:
        def run() -> None:
            settle(value)

        with suppress(Exception):  # the I/O thread has ended, so nothing waits for the outcome
            self._net.call_soon_threadsafe(run)


class LastGood(Generic[T]):
    """Keeps the last good answer for each key. One call for a key runs at a time. If it is late or fails, the previous
    answer is used. For the I/O thread only."""

    def __init__(self, calls: OutsideCalls) -> None:
        self._calls = calls
        self._kept: dict[Hashable, T] = {}
        self._running: dict[Hashable, Any] = {}

    async def of(self, key: Hashable, call: Callable[[], T], until: float) -> T:
        """Returns the newest answer. Raises the call's error, or KafkaTimeoutError, only if there is none."""
        outcome = self._running.get(key) or self._begin(key, call)
        if key not in self._kept:
            answer: T = await self._calls.by(until, outcome)
            return answer
        with suppress(Exception):  # whatever the error, the last good answer is used
            await self._calls.by(min(until, clocks.monotonic() + GRACE_S), outcome)
        return self._kept[key]

    def _begin(self, key: Hashable, call: Callable[[], T]) -> Any:
        outcome = self._running[key] = self._calls.begin(call)

        def keep(value: T) -> None:
            self._kept[key] = value
            self._running.pop(key, None)

        outcome.add_callback(keep)
        outcome.add_errback(lambda _: self._running.pop(key, None))
        return outcome
