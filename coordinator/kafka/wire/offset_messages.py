"""ListOffsets and OffsetFetch for many partitions, encoded and decoded a topic at a time. Belongs to `many_groups`.

kafka-python creates an object for every partition in both directions and checks each for tags. That took a fifth of the
time of a process that observes a thousand groups. Here a topic's entries are one byte array with entries of equal size.
This covers the flexible versions, which brokers have since Kafka 3.0. The library handles older versions, and answers
of another shape (with tags, which no version has so far).
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from bellwether_kafka.coordinator.kafka.wire.node_requests import NAMES_UP_TO, CommittedOfGroup, CommittedOfTopic

GROUPS_FROM = 8  # versions of OffsetFetch: several groups (KIP-709, Kafka 3.0)
MEMBERS_FROM = 9  # versions of OffsetFetch: a member and its epoch (KIP-848)
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
NO_REPLICA, NO_EPOCH = -1, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LIST_OFFSETS_FROM, LIST_OFFSETS_FLEXIBLE_FROM, LIST_OFFSETS_TIMEOUT_FROM, LIST_OFFSETS_UP_TO = 1, 6, 10, 10
KNOWN_PARTITIONS = 1_024
NO_TAGS = b"\0"
NO_MEMBER = b"\0" + struct.pack(">i", NO_EPOCH)
SIZE, ERROR, INT32 = struct.Struct(">i"), struct.Struct(">h"), struct.Struct(">i")
WANTED_OFFSET = struct.Struct(">iiqx")  # partition, leader epoch, timestamp, tags
END = struct.Struct(">ihqqiB")  # partition, error, timestamp, offset, leader epoch, tags
COMMITTED, COMMITTED_END = struct.Struct(">iqi"), struct.Struct(">hB")  # around the metadata
VARINT_BITS, VARINT_MORE = 7, 0x80

Counts = Mapping[str, int]


class LogPlace(Enum):
    """Places in a log that ListOffsets finds, as a timestamp and an isolation level."""

    END = (LATEST, READ_UNCOMMITTED)
    START = (EARLIEST, READ_UNCOMMITTED)
    STABLE_END = (LATEST, READ_COMMITTED)  # the last stable offset: the first one of the oldest open transaction

    @property
    def timestamp(self) -> int:
        return self.value[0]

    @property
    def isolation_level(self) -> int:
        return self.value[1]


class IrregularError(Exception):
    """The answer has another shape, which only the library may decode."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """A ListOffsets answer. `of` has (error, offset) by partition of each topic."""

    throttle_time_ms: int
    of: Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    throttle_time_ms: int
    groups: Sequence[CommittedOfGroup]


class LogEndsRequest(ListOffsetsRequest, init=False):  # type: ignore[call-arg,misc]  # the library has no types
    """ListOffsets for one place in the log of these partitions by topic."""

    _header: Any

    def __init__(
        self, partitions: Mapping[str, Sequence[int]], timeout_ms: int, place: LogPlace = LogPlace.END
    ) -> None:
        super().__init__(min_version=LIST_OFFSETS_FROM, max_version=LIST_OFFSETS_UP_TO)
        self._wanted = partitions
        self._limit_ms = timeout_ms
        self._place = place

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        super().with_header(correlation_id, client_id)
        if self.API_VERSION >= LIST_OFFSETS_FLEXIBLE_FROM:
            self._header = _Header.of(self._header, _read_log_ends)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> Any:
        if version is not None:
            self.API_VERSION = version
        if self.API_VERSION < LIST_OFFSETS_FLEXIBLE_FROM:
            self._fill()
            return super().encode(header=header, framed=framed)
        timestamp = self._place.timestamp
        parts = [struct.pack(">ib", NO_REPLICA, self._place.isolation_level), _varint(len(self._wanted) + 1)]
        for topic, partitions in self._wanted.items():
            wanted = b"".join(_wanted_offset(partition, timestamp) for partition in partitions)
            parts += [_text(topic), _varint(len(partitions) + 1), wanted, NO_TAGS]
        if self.API_VERSION >= LIST_OFFSETS_TIMEOUT_FROM:
            parts.append(INT32.pack(self._limit_ms))
        return _sent(self, [*parts, NO_TAGS], header=header, framed=framed)

    def _fill(self) -> None:
        topic = ListOffsetsRequest.ListOffsetsTopic
        entry = topic.ListOffsetsPartition
        self.replica_id, self.isolation_level = NO_REPLICA, self._place.isolation_level
        self.topics = [
            topic(
                name=name,
                partitions=[
                    entry(partition_index=p, current_leader_epoch=NO_EPOCH, timestamp=self._place.timestamp)
                    for p in partitions
                ],
            )
            for name, partitions in self._wanted.items()
        ]


class CommittedOffsetsRequest(OffsetFetchRequest, init=False):  # type: ignore[call-arg,misc]  # the library has no types
    """OffsetFetch for partitions 0..n-1 of each topic of each group. Needs brokers since 3.0."""

    _header: Any

    def __init__(self, groups: Mapping[str, Counts]) -> None:
        super().__init__(min_version=GROUPS_FROM, max_version=NAMES_UP_TO)
        self._wanted = groups

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        super().with_header(correlation_id, client_id)
        self._header = _Header.of(self._header, _read_committed)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> Any:
        if version is not None:
            self.API_VERSION = version
        member = NO_MEMBER if self.API_VERSION >= MEMBERS_FROM else b""
        parts = [_varint(len(self._wanted) + 1)]
        for group_id, topics in self._wanted.items():
            parts += [_text(group_id), member, _varint(len(topics) + 1)]
            for topic, count in topics.items():
                parts += [_text(topic), _varint(count + 1), _first(count), NO_TAGS]
            parts.append(NO_TAGS)
        require_stable = b"\0"
        return _sent(self, [*parts, require_stable, NO_TAGS], header=header, framed=framed)


class _Header(RequestHeader, init=False):  # type: ignore[call-arg,misc]  # the library has no types
    """A request header with Bellwether's decoder: the library finds an answer's decoder by the request's header."""

    @classmethod
    def of(cls, header: Any, read: Callable[["_Cursor"], Any]) -> "_Header":
        own = cls(
            request_api_key=header.request_api_key,
            request_api_version=header.request_api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
        )
        own.read = read
        return own

    def get_response_class(self) -> "_Decoder":
        return _Decoder(super().get_response_class(), self.read)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """Replaces one of the library's response classes."""

    library: Any
    read: Callable[["_Cursor"], Any]

    def parse_header(self, received: Any) -> Any:
        return self.library.parse_header(received)

    def decode(self, received: Any) -> Any:
        data = received.read()
        try:
            return self.read(_Cursor(data))
        except (IrregularError, IndexError, ValueError, struct.error):
            return self.library.decode(data)


class _Cursor:
    """Reads an answer of a flexible version. Raises an error if its shape is unusual."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & (VARINT_MORE - 1)) << shift
            if byte < VARINT_MORE:
                return value
            shift += VARINT_BITS

    def several(self) -> Iterator[None]:
        """Yields once for each entry of an array."""
        for _ in range(self.varint() - 1):
            yield

    def raw(self, size: int) -> bytes:
        begin, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.data):
            raise IrregularError
        return self.data[begin : self.at]

    def text(self) -> str:
        return self.raw(self.varint() - 1).decode()

    def end_of_struct(self) -> None:
        if self.varint():
            raise IrregularError


def _read_log_ends(cursor: _Cursor) -> LogEnds:
    (throttle_time_ms,) = cursor.fields(INT32)
    ends: dict[str, Mapping[int, tuple[int, int]]] = {}
    for _ in cursor.several():
        topic = cursor.text()
        rows = list(END.iter_unpack(cursor.raw((cursor.varint() - 1) * END.size)))
        if any(row[-1] for row in rows):
            raise IrregularError
        ends[topic] = {partition: (error, offset) for partition, error, _, offset, _, _ in rows}
        cursor.end_of_struct()
    cursor.end_of_struct()
    return LogEnds(throttle_time_ms, ends)


def _read_committed(cursor: _Cursor) -> CommittedOffsets:
    (throttle_time_ms,) = cursor.fields(INT32)
    groups = []
    for _ in cursor.several():
        group_id, topics = cursor.text(), []
        for _ in cursor.several():
            topic, count = cursor.text(), cursor.varint() - 1
            partitions, offsets, errors = _columns(cursor, count)
            topics.append(CommittedOfTopic(topic=topic, partitions=partitions, offsets=offsets, errors=errors))
            cursor.end_of_struct()
        (error,) = cursor.fields(ERROR)
        cursor.end_of_struct()
        groups.append(CommittedOfGroup(group_id, error, topics))
    cursor.end_of_struct()
    return CommittedOffsets(throttle_time_ms, groups)


def _columns(cursor: _Cursor, count: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Returns partitions, offsets and errors. In most groups all commits have metadata of the same length, so entries
    have a fixed size. A different metadata length in any entry shows the exception, which is decoded entry by entry."""
    if count <= 0:
        return (), (), ()
    begin, length = cursor.at, cursor.data[cursor.at + COMMITTED.size]
    if length < VARINT_MORE:
        layout = _committed(max(0, length - 1))
        if begin + count * layout.size <= len(cursor.data):
            rows = layout.iter_unpack(cursor.raw(count * layout.size))
            partitions, offsets, _, lengths, errors, tags = zip(*rows, strict=True)
            if not any(tags) and lengths == (length,) * count:
                return partitions, offsets, errors
            cursor.at = begin
    partitions, offsets, errors = zip(*(_one_committed(cursor) for _ in range(count)), strict=True)
    return partitions, offsets, errors


def _one_committed(cursor: _Cursor) -> tuple[int, int, int]:
    partition, offset, _ = cursor.fields(COMMITTED)
    cursor.raw(max(0, cursor.varint() - 1))
    error, tags = cursor.fields(COMMITTED_END)
    if tags:
        raise IrregularError
    return partition, offset, error


@lru_cache(VARINT_MORE)
def _committed(metadata_size: int) -> struct.Struct:
    return struct.Struct(f">iqiB{metadata_size}xhB")


@lru_cache(KNOWN_PARTITIONS)
def _wanted_offset(partition: int, timestamp: int) -> bytes:
    return WANTED_OFFSET.pack(partition, NO_EPOCH, timestamp)


@lru_cache(KNOWN_PARTITIONS)
def _first(count: int) -> bytes:
    return struct.pack(f">{count}i", *range(count))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= VARINT_MORE:
        encoded.append(value & (VARINT_MORE - 1) | VARINT_MORE)
        value >>= VARINT_BITS
    encoded.append(value)
    return bytes(encoded)


def _text(value: str) -> bytes:
    data = value.encode()
    return _varint(len(data) + 1) + data


def _sent(request: Any, body: Iterable[bytes], *, header: bool, framed: bool) -> bytes:
    data = b"".join([request.encode_header(flexible=True) if header else b"", *body])
    return SIZE.pack(len(data)) + data if framed else data
