"""Reads and writes a topic of one partition at its leader, in bounded memory whatever it contains: the control topic of
guards, instances and commands. Requests for that without librdkafka: find the leader, find the start, read records,
append one.

They name topics, so their versions end where Kafka replaces names by ids. `record_batches` decodes the records.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from bellwether_kafka.coordinator.kafka.wire.node_requests import NodeRequest
from bellwether_kafka.coordinator.kafka.wire.record_batches import KeyValue, Limits, Unread, read_batches
from bellwether_kafka.coordinator.kafka.wire.transport import TransportError
from bellwether_kafka.coordinator.membership import Node

PARTITION = 0
FETCH_BYTES_MAX = 1_000_000
FETCH_NAMES_UP_TO, PRODUCE_NAMES_UP_TO = 12, 12
BATCHES_FROM = {"fetch": 4, "produce": 3}  # record batches of version 2
OFFSETS_FROM, EARLIEST, NO_EPOCH = 1, -2, -1  # of ListOffsets
ALL_REPLICAS = -1
ANY_CONSUMER = -1  # a replica id
NO_ERROR, UNKNOWN_ERROR = 0, -1
MAGIC, UNCOMPRESSED = 2, 0


@dataclass(frozen=True, slots=True)
class LeaderFound:
    """The leader of a partition. `error` is Kafka's code; `leader` is set if it is 0."""

    error: int
    leader: Node | None = None


@dataclass(frozen=True, slots=True)
class FindLeader:
    """Metadata: finds the leader of the topic's partition. Creates no topic. `node` None: any broker."""

    node: Node | None
    topic: str
    timeout_ms: int

    def message(self) -> Any:
        wanted = MetadataRequest.MetadataRequestTopic(name=self.topic)
        return MetadataRequest(topics=[wanted], allow_auto_topic_creation=False, min_version=4)

    def answer(self, response: Any) -> LeaderFound:
        topic = response.topics[0]
        partition = next((p for p in topic.partitions if p.partition_index == PARTITION), None)
        error = topic.error_code or (partition.error_code if partition is not None else UNKNOWN_ERROR)
        if error or partition is None:
            return LeaderFound(error)
        brokers = {broker.node_id: broker for broker in response.brokers}
        leader = brokers.get(partition.leader_id)
        if leader is None:
            return LeaderFound(UNKNOWN_ERROR)
        return LeaderFound(NO_ERROR, Node(leader.node_id, leader.host, leader.port))


@dataclass(frozen=True, slots=True)
class StartFound:
    """`error` is Kafka's code. `offset` is the first offset of the log."""

    error: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FindStart:
    """ListOffsets: finds the first offset of the log, which brokers do not send when they refuse an offset."""

    node: Node
    topic: str
    timeout_ms: int

    def message(self) -> Any:
        topic = ListOffsetsRequest.ListOffsetsTopic
        wanted = topic.ListOffsetsPartition(
            partition_index=PARTITION, current_leader_epoch=NO_EPOCH, timestamp=EARLIEST
        )
        return ListOffsetsRequest(
            replica_id=ANY_CONSUMER,
            isolation_level=0,
            topics=[topic(name=self.topic, partitions=[wanted])],
            min_version=OFFSETS_FROM,
        )

    def answer(self, response: Any) -> StartFound:
        partition = response.topics[0].partitions[0]
        return StartFound(partition.error_code, max(0, partition.offset))


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Records read: (key, value) in the order of the log. `next_offset`: where to read on. `end_offset`: the high
    watermark. `unread`: records that were skipped."""

    error: int
    records: tuple[KeyValue, ...] = ()
    next_offset: int = 0
    end_offset: int = 0
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Fetch from `offset`. The broker answers at once if there is a record, else after `wait_ms`. It returns at least
    one batch, even if that is larger than `bytes_max`."""

    node: Node
    topic: str
    offset: int
    timeout_ms: int
    bytes_max: int = FETCH_BYTES_MAX
    limits: Limits = field(default_factory=Limits)
    wait_ms: int = 0

    def message(self) -> Any:
        topic = FetchRequest.FetchTopic
        partition = topic.FetchPartition(
            partition=PARTITION, fetch_offset=self.offset, partition_max_bytes=self.bytes_max, current_leader_epoch=-1
        )
        return FetchRequest(
            replica_id=ANY_CONSUMER,
            max_wait_ms=self.wait_ms,
            min_bytes=1 if self.wait_ms else 0,
            max_bytes=self.bytes_max,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic=self.topic, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=BATCHES_FROM["fetch"],
            max_version=FETCH_NAMES_UP_TO,
        )

    def answer(self, response: Any) -> ReadRecords:
        error = getattr(response, "error_code", 0) or 0
        if error or not response.responses:
            return ReadRecords(error or UNKNOWN_ERROR)
        partition = response.responses[0].partitions[0]
        if partition.error_code:
            return ReadRecords(partition.error_code)
        read = read_batches(partition.records or b"", self.offset, self.limits)
        return ReadRecords(NO_ERROR, read.records, read.next_offset, partition.high_watermark, read.unread)


@dataclass(frozen=True, slots=True)
class AppendedRecord:
    """The result of an append. `error` is Kafka's code."""

    error: int


@dataclass(frozen=True, slots=True)
class AppendRecord:
    """Produce of one record with acks=all. The value None withdraws the key of a compacted topic."""

    node: Node
    topic: str
    key: bytes
    value: bytes | None
    timeout_ms: int

    def message(self) -> Any:
        builder = MemoryRecordsBuilder(MAGIC, UNCOMPRESSED, len(self.key) + len(self.value or b"") + 200)
        builder.append(None, self.key, self.value)
        builder.close()
        topic = ProduceRequest.TopicProduceData
        partition = topic.PartitionProduceData(index=PARTITION, records=builder.buffer())
        return ProduceRequest(
            transactional_id=None,
            acks=ALL_REPLICAS,
            timeout_ms=self.timeout_ms,
            topic_data=[topic(name=self.topic, partition_data=[partition])],
            min_version=BATCHES_FROM["produce"],
            max_version=PRODUCE_NAMES_UP_TO,
        )

    def answer(self, response: Any) -> AppendedRecord:
        return AppendedRecord(response.responses[0].partition_responses[0].error_code)


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
