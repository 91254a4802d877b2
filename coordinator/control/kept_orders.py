"""Where a process has its orders from, and those that are in force now. The control topic is the only place that keeps
them: what a topic that was deleted had is gone, for every process alike; what ended with it is named, so that it can be
given again.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from bellwether_kafka.coordinator.control.order_kinds import OrderKind
from bellwether_kafka.coordinator.control.orders import GroupOrders, Orders
from bellwether_kafka.coordinator.control.records import AnyOrder, Order, Record

LOST_REMEDY = "The topic was deleted, or has lost its end: give these orders again; let only its owners delete it."

OnRecord = Callable[[str, Record | None], None]
OnCaughtUp = Callable[[], None]
OnRefused = Callable[[], None]
OnReadAgain = Callable[[Mapping[str, Record | None]], None]

log = structlog.get_logger(__name__)


class OrderSource(Protocol):
    """The source and destination of records. `topic` is its name, "" if there is none. Callbacks run in the event loop
    in which `start` was called: `on_caught_up` once, after all records found at the start; `on_refused` when brokers
    answer that the topic cannot be read or made, such as for want of a right; `on_read_again` with the last record of
    each key of a log that was read from its start again. That has records that were replaced or withdrawn later, which
    must not come into force for a moment."""

    topic: str

    def start(
        self, on_record: OnRecord, on_caught_up: OnCaughtUp, on_refused: OnRefused, on_read_again: OnReadAgain
    ) -> None: ...
    def write(self, record: Record) -> None: ...
    def withdraw(self, key: str) -> None: ...
    async def close(self) -> None: ...


class NoTopic:
    """The source of a process without a control topic: it has no orders, and nobody reads what it writes."""

    topic = ""

    def start(self, _on_record: object, on_caught_up: OnCaughtUp, *_: object) -> None:
        asyncio.get_running_loop().call_soon(on_caught_up)

    def write(self, record: Record) -> None: ...

    def withdraw(self, key: str) -> None: ...

    async def close(self) -> None: ...


class KeptOrders:
    """The orders that are in force now, and the topic that keeps them. `answered` is set once the topic has been read,
    or brokers have refused it. `ended`: why this process has ended an order, by the order's sentence."""

    def __init__(self, topic: OrderSource, wall_clock: Callable[[], float]) -> None:
        self.topic = topic
        self.orders = Orders()
        self.answered = asyncio.Event()
        self.ended: dict[str, str] = {}
        self._wall_clock = wall_clock

    def now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    def of(self, group: str) -> GroupOrders:
        return self.orders.of(group, self.now_ms())

    def in_force(self, kind: OrderKind, target: str) -> Order | None:
        return self.orders.in_force(kind, target, self.now_ms())

    def write(self, record: Record) -> None:
        self.orders.apply(record.key, record)
        self.topic.write(record)

    def withdraw(self, key: str) -> None:
        self.orders.apply(key, None)
        self.topic.withdraw(key)

    def end(self, order: AnyOrder, reason: str) -> None:
        self.ended[order.sentence] = reason
        self.withdraw(order.key)

    def lost(self, read_again: Mapping[str, Record | None]) -> tuple[str, ...]:
        """Returns the keys that a log has no more that was read again, and names the orders that end with it."""
        gone = {key: record for key, record in self.orders.records.items() if key not in read_again}
        now_ms = self.now_ms()
        sentences = [r.sentence for r in gone.values() if isinstance(r, AnyOrder) and now_ms < r.expires_ms]
        if sentences:
            log.error("orders_lost", topic=self.topic.topic, orders=sentences, remedy=LOST_REMEDY)
        return tuple(gone)
