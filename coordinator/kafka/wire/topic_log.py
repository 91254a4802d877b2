"""Reads and writes a topic of one partition at its leader, in bounded memory whatever it contains: the control topic of
guards, instances and commands."""

import asyncio
from typing import Protocol, TypeVar

from bellwether_kafka.coordinator.kafka.wire.log_requests import (
    FETCH_BYTES_MAX,
    AppendRecord,
    FindLeader,
    FindStart,
    ReadLog,
    ReadRecords,
)
from bellwether_kafka.coordinator.kafka.wire.node_requests import NodeRequest
from bellwether_kafka.coordinator.kafka.wire.record_batches import Limits
from bellwether_kafka.coordinator.kafka.wire.transport import TransportError
from bellwether_kafka.coordinator.membership import Node

OFFSET_OUT_OF_RANGE = 1
REQUEST_TIMEOUT_MS = 2_000
THROTTLED_S = 0.1

T = TypeVar("T")


class NodeRequests(Protocol):
    """The part of `Transport` that a log uses."""

    async def ask(self, request: NodeRequest[T]) -> T: ...


class TopicLogError(Exception):
    """A broker has refused a request; `code` is Kafka's. `leader_known`: the topic has a leader."""

    def __init__(self, code: int, *, leader_known: bool) -> None:
        super().__init__(code)
        self.code = code
        self.leader_known = leader_known


class TopicLog:
    """Reads and writes the log. For one event loop. `at` is the offset of the next record. Methods raise TransportError
    if no broker answers, and TopicLogError. After either the leader is looked up again."""

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
        """Returns the next records. If there are none, the broker waits for `wait_ms`. The error OFFSET_OUT_OF_RANGE in
        the answer means that the topic was recreated or truncated; reading continues at its present start."""
        before = self.at
        part = await self._ask(
            ReadLog(
                await self._find_leader(),
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
        if self.at == before < part.end_offset:  # nothing was read, as with a broker that throttles its clients
            await asyncio.sleep(THROTTLED_S)
        return part

    async def append(self, key: bytes, value: bytes | None) -> None:
        request = AppendRecord(await self._find_leader(), self.topic, key, value, REQUEST_TIMEOUT_MS)
        self._refuse((await self._ask(request)).error)

    async def _go_to_start(self) -> None:
        start = await self._ask(FindStart(await self._find_leader(), self.topic, REQUEST_TIMEOUT_MS))
        self._refuse(start.error)
        self.at = start.offset

    async def _find_leader(self) -> Node:
        if self._leader is None:
            answer = await self._ask(FindLeader(None, self.topic, REQUEST_TIMEOUT_MS))
            if answer.leader is None:
                raise TopicLogError(answer.error, leader_known=False)
            self._leader = answer.leader
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
            raise TopicLogError(code, leader_known=True)
