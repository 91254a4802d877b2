"""The messages between a broker's assignor and Bellwether (docs/internals/wire-formats.md#plans-for-brokers).

A message is its size as int32, followed by that many bytes. Both sides refuse another version.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup, read_tasks
from bellwether_kafka.protocol.primitives import Reader, RemoteProtocolError

VERSION = 1
# Kinds of requests: a group of the consumer protocol; an invented one, not reported; a group of the streams protocol.
CONSUMERS, PROBE, TASKS = 1, 2, 3
NUMBER_UNKNOWN = 0
PLANNED, REFUSED = 0, 1
REQUEST_BYTES_MAX = 32 << 20
SIZE = struct.Struct(">i")
PARTITIONS_MAX = 4_000_000

_HEAD = struct.Struct(">bbi")
_MEMBER_BYTES, _TOPIC_BYTES, _TEXT_BYTES = 12, 20, 2


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A group as its broker has it. Members and topics are in the broker's order; a partition is one number across all
    topics.

    `rack_of`: per member, a position in `racks`, -1 for none. `subscription`: per member, a position in
    `subscriptions`, whose entries are positions of topics. `rack_set_of`: per partition, a position in `rack_sets`.
    `owner`: per partition, the present target, NOBODY for none.
    """

    kind: int
    number: int
    assignor: str
    racks: tuple[str, ...]
    rack_sets: tuple[tuple[int, ...], ...]
    topics: tuple[bytes, ...]
    counts: tuple[int, ...]
    subscriptions: tuple[tuple[int, ...], ...]
    members: tuple[str, ...]
    instances: tuple[str | None, ...]
    rack_of: tuple[int, ...]
    subscription: tuple[int, ...]
    rack_set_of: IntArray
    owner: IntArray


def kind_of(data: bytes) -> int:
    """Returns the kind of a request that may be unreadable, 0 if it has none."""
    return _HEAD.unpack_from(data)[1] if len(data) >= _HEAD.size else 0


def number_of(data: bytes) -> int:
    """Returns the number of a request that may be unreadable behind it, NUMBER_UNKNOWN if it has none."""
    if len(data) < _HEAD.size:
        return NUMBER_UNKNOWN
    version, _, number = _HEAD.unpack_from(data)
    return int(number) if version == VERSION else NUMBER_UNKNOWN


def read_request(data: bytes) -> Request | TaskGroup:
    """Decodes a request without its size. Raises RemoteProtocolError."""
    reader = Reader(data)
    if (version := reader.int8()) != VERSION:
        versions = f"the broker's assignor speaks version {version}, this Bellwether version {VERSION}"
        raise RemoteProtocolError(f"{versions}; give the broker the jar of this release")
    kind, number, assignor = reader.int8(), reader.int32(), reader.utf()
    if kind == TASKS:
        return read_tasks(reader, number, assignor)
    if kind not in (CONSUMERS, PROBE):
        raise RemoteProtocolError(f"the broker's assignor asks for a group of kind {kind}, which is not known here")
    return _read_partitions(reader, kind, number, assignor)


def _read_partitions(reader: Reader, kind: int, number: int, assignor: str) -> Request:
    racks = reader.array(_TEXT_BYTES, reader.utf)
    rack_sets = reader.array(SIZE.size, reader.int32_array)
    topics, counts = [], []
    for _ in range(reader.count(_TOPIC_BYTES)):
        topics.append(reader.raw(16))
        counts.append(reader.int32())
    subscriptions = reader.array(SIZE.size, reader.int32_array)
    rows = [(reader.utf(), reader.utf(), reader.int32(), reader.int32()) for _ in range(reader.count(_MEMBER_BYTES))]
    arrays = [_integers(reader) for _ in range(reader.count(SIZE.size))]
    if reader.remaining or len(arrays) != 2:
        raise RemoteProtocolError("the request does not end where it should")
    members, instances, rack_of, subscription = zip(*rows, strict=True) if rows else ((), (), (), ())
    request = Request(
        kind=kind,
        number=number,
        assignor=assignor,
        racks=racks,
        rack_sets=rack_sets,
        topics=tuple(topics),
        counts=tuple(counts),
        subscriptions=subscriptions,
        members=members,
        instances=tuple(instance or None for instance in instances),
        rack_of=rack_of,
        subscription=subscription,
        rack_set_of=arrays[0],
        owner=arrays[1],
    )
    _check(request)
    return request


def planned(number: int, plan: IntArray) -> bytes:
    """Returns the answer with a plan, preceded by its size: the position of the member of each partition, or that of
    each task and then a pair (member, task) for each standby."""
    return _framed(_HEAD.pack(VERSION, PLANNED, number) + plan.astype(">i4").tobytes())


def refused(number: int, reason: str) -> bytes:
    """Returns the answer without a plan, with the reason."""
    return _framed(_HEAD.pack(VERSION, REFUSED, number) + reason.encode())


def _framed(body: bytes) -> bytes:
    return SIZE.pack(len(body)) + body


def _integers(reader: Reader) -> IntArray:
    return np.frombuffer(reader.raw(4 * reader.count(4)), dtype=">i4").astype(np.int32)


def _check(request: Request) -> None:
    """Raises RemoteProtocolError unless every number is a valid position."""
    total, topics = sum(request.counts), len(request.topics)
    if any(count <= 0 for count in request.counts) or not total <= PARTITIONS_MAX:
        raise RemoteProtocolError("a topic has no partitions, or there are too many of them")
    if len(set(request.topics)) != topics or len(set(request.members)) != len(request.members):
        raise RemoteProtocolError("a topic or a member is named twice")
    if not len(request.owner) == len(request.rack_set_of) == total:
        raise RemoteProtocolError(f"{total} partitions, but {len(request.owner)} owners")
    positions: tuple[tuple[tuple[int, ...] | IntArray, int, int], ...] = (
        (request.rack_of, NOBODY, len(request.racks)),
        (request.subscription, 0, len(request.subscriptions)),
        (request.rack_set_of, 0, len(request.rack_sets)),
        (request.owner, NOBODY, len(request.members)),
        *((racks, 0, len(request.racks)) for racks in request.rack_sets),
        *((subscribed, 0, topics) for subscribed in request.subscriptions),
    )
    for values, least, limit in positions:
        if len(values) and not (least <= _extreme(min, values) and _extreme(max, values) < limit):
            raise RemoteProtocolError(f"a position is not from {least} to {limit - 1}")


def _extreme(of: Callable[[Iterable[int]], int], values: tuple[int, ...] | IntArray) -> int:
    return of(values.tolist() if isinstance(values, np.ndarray) else values)
