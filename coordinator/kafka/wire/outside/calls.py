"""Awaits calls that may wait for another system on kafka-python's I/O loop, without blocking it."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.future import Future

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.wire.outside.daemon_threads import DaemonThreads

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
