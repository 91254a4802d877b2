"""A topic of one partition, read and written at its leader, in bounded memory whatever it holds: the control topic of
guards, processes and commands.
"""

import asyncio
from typing import Protocol, TypeVar

from bellwether_kafka.coordinator.kafka.log_requests import (
    FETCH_BYTES_MAX,
    AppendRecord,
    FindLeader,
    FindStart,
    ReadLog,
    ReadRecords,
)
from bellwether_kafka.coordinator.kafka.node_requests import NodeRequest
from bellwether_kafka.coordinator.kafka.record_batches import Limits
from bellwether_kafka.coordinator.kafka.transport import TransportError
from bellwether_kafka.coordinator.membership import Node

OFFSET_OUT_OF_RANGE = 1
REQUEST_TIMEOUT_MS = 2_000
THROTTLED_S = 0.1

T = TypeVar("T")


class NodeRequests(Protocol):
    """What is needed of `Transport`."""

    async def ask(self, request: NodeRequest[T]) -> T: ...


class TopicLogError(Exception):
    """A broker has refused; `code` is Kafka's. `found`: the topic has a leader."""

    def __init__(self, code: int, *, found: bool) -> None:
        super().__init__(code)
        self.code = code
        self.found = found


class TopicLog:
    """For one event loop. `at` is the offset of the next record. Methods raise TransportError where no broker answers,
    and TopicLogError; the leader is looked for again afterwards."""

    def __init__(
        self, transport: NodeRequests, topic: str, limits: Limits | None = None, bytes_max: int = FETCH_BYTES_MAX
    ) -> None:
        self.topic = topic
        self.at = 0
        self._transport = transport
        self._limits = limits or Limits()
        self._bytes_max = bytes_max
        self._leader: Node | None = None

    async def next(self, wait_ms: int = 0) -> ReadRecords:
        """What comes next; a broker that has nothing waits so long for it. With the error OFFSET_OUT_OF_RANGE the log
        has been made anew, or cut off: all that there is comes next."""
        before = self.at
        part = await self._ask(
            ReadLog(
                await self._found(),
                self.topic,
                before,
                REQUEST_TIMEOUT_MS + wait_ms,
                self._bytes_max,
                self._limits,
                wait_ms,
            )
        )
        if part.error == OFFSET_OUT_OF_RANGE:
            await self._go_to_start()
            if self.at != before:
                return part
        self._refuse(part.error)
        self.at = max(before, part.next_offset)
        if self.at == before < part.end_offset:  # as of a broker that slows its clients down
            await asyncio.sleep(THROTTLED_S)
        return part

    async def append(self, key: bytes, value: bytes | None) -> None:
        request = AppendRecord(await self._found(), self.topic, key, value, REQUEST_TIMEOUT_MS)
        self._refuse((await self._ask(request)).error)

    async def _go_to_start(self) -> None:
        start = await self._ask(FindStart(await self._found(), self.topic, REQUEST_TIMEOUT_MS))
        self._refuse(start.error)
        self.at = start.offset

    async def _found(self) -> Node:
        if self._leader is None:
            found = await self._ask(FindLeader(None, self.topic, REQUEST_TIMEOUT_MS))
            if found.leader is None:
                raise TopicLogError(found.error, found=False)
            self._leader = found.leader
        return self._leader

    async def _ask(self, request: NodeRequest[T]) -> T:
        try:
            return await self._transport.ask(request)
        except TransportError:
            self._leader = None
            raise

    def _refuse(self, code: int) -> None:
        if code:
            self._leader = None
            raise TopicLogError(code, found=True)
