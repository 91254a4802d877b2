"""The wires: latency, cut connections, black holes, dead nodes. Requests of one connection arrive in their order and
are read one after the other: what is behind a parked one waits for its answer
(docs/internals/broker-behaviour.md#parked-requests).
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from bellwether_kafka.coordinator.membership import Failure
from tests.simulation.clock import Clock, Handle

Reply = Callable[[Any], None]
Serve = Callable[[Reply], None]


class Call:
    """One request under way. Exactly one of the two callbacks is called, or none once it is dropped."""

    def __init__(self, client: str, node: int, answered: Reply, failed: Callable[[Failure], None]) -> None:
        self.client, self.node = client, node
        self._answered, self._failed = answered, failed
        self.over = False
        self.parked = False  # at the broker, which has not answered
        self.behind: list[Callable[[], None]] = []  # what waits for the answer
        self.deadline: Handle | None = None

    def drop(self) -> None:
        self.over = True
        if self.deadline is not None:
            self.deadline.cancel()

    def answer(self, answer: Any) -> None:
        if not self.over:
            self.drop()
            self._answered(answer)

    def fail(self, failure: Failure) -> None:
        if not self.over:
            self.drop()
            self._failed(failure)


class Network:
    def __init__(self, clock: Clock, rng: random.Random, injected: Counter[str]) -> None:
        self.clock = clock
        self.down: set[int] = set()  # nodes
        self.holes: set[str] = set()  # clients whose packets vanish
        self.latency_s = (0.0005, 0.003)
        self.loss = 0.0  # probability that a request costs its connection
        self._rng = rng
        self._injected = injected
        self._calls: list[Call] = []
        self._tidy_at = 10
        self._arrival: dict[tuple[str, int], float] = {}
        self._last: dict[tuple[str, int, int], Call] = {}  # of each connection

    def call(
        self,
        client: str,
        lane: int,
        node: int,
        serve: Serve,
        timeout_s: float,
        answered: Reply,
        failed: Callable[[Failure], None],
    ) -> Call:
        call = Call(client, node, answered, failed)
        self._calls.append(call)
        if len(self._calls) > self._tidy_at:
            self._calls = [c for c in self._calls if not c.over]
            self._tidy_at = 2 * len(self._calls) + 10
        call.deadline = self.clock.after(timeout_s, lambda: call.fail(Failure.TIMED_OUT))
        delivery = self._delivery()
        if delivery == "before":
            self.clock.after(self._latency(), lambda: call.fail(Failure.DISCONNECTED))
            return call
        at = max(self._arrival.get((client, lane), 0.0), self.clock.now + self._latency())
        self._arrival[client, lane] = at
        self.clock.at(at, lambda: self._queue((client, lane, node), call, lambda: self._arrive(call, serve, delivery)))
        return call

    def _queue(self, connection: tuple[str, int, int], call: Call, arrive: Callable[[], None]) -> None:
        """Who has given a request up has given up its connection too, and what has vanished holds up nobody."""
        before = self._last.get(connection)
        self._last[connection] = call
        if before is None or before.over or not before.parked:
            arrive()
        else:
            before.behind.append(arrive)

    def drop_client(self, client: str) -> None:
        """The process is gone: nothing reaches it any more. What it has sent arrives all the same."""
        for call in self._calls:
            if call.client == client:
                call.drop()

    def cut(self, client: str) -> None:
        """All connections of a client are reset."""
        for call in list(self._calls):
            if call.client == client and not call.over:
                self.clock.after(self._latency(), partial(call.fail, Failure.DISCONNECTED))

    def kill_node(self, node: int) -> None:
        self.down.add(node)
        for call in list(self._calls):
            if call.node == node and not call.over:
                self.clock.after(self._latency(), partial(call.fail, Failure.DISCONNECTED))

    def _delivery(self) -> str:
        if not self.loss or self._rng.random() >= self.loss:
            return ""
        delivery = self._rng.choice(("before", "after"))
        self._injected[f"connection lost {delivery} the broker read"] += 1
        return delivery

    def _latency(self) -> float:
        return self._rng.uniform(*self.latency_s)

    def _arrive(self, call: Call, serve: Serve, delivery: str) -> None:
        if call.client in self.holes:
            return  # its timeout shows it
        if call.node in self.down:
            self.clock.after(self._latency(), lambda: call.fail(Failure.DISCONNECTED))
            return
        if delivery == "after":
            serve(lambda _: None)
            self.clock.after(self._latency(), lambda: call.fail(Failure.DISCONNECTED))
            return
        call.parked = True
        serve(lambda answer: self._reply(call, answer))

    def _reply(self, call: Call, answer: Any) -> None:
        call.parked = False
        self.clock.after(self._latency(), lambda: self._deliver(call, answer))
        for arrive in call.behind:
            self.clock.after(0.0, arrive)
        call.behind.clear()

    def _deliver(self, call: Call, answer: Any) -> None:
        if call.node in self.down:
            call.fail(Failure.DISCONNECTED)
        elif call.client not in self.holes:
            call.answer(answer)
