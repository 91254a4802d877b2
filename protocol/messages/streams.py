"""What Kafka Streams threads and their leader exchange inside the messages of consumers, versions 1 to 11: each thread
sends a SubscriptionInfo, and gets an AssignmentInfo.

Layouts: docs/internals/wire-formats.md#subscriptioninfo and #assignmentinfo. Java writes the second with
DataOutputStream, hence modified UTF-8 and a second encoding of named topologies. Lists of tasks are records of one size
unless a task has a named topology, and are read at once: `PackedSums` has them for readers of whole groups.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import NamedTuple

from bellwether_kafka.protocol.primitives import (
    HostInfo,
    LocalProtocolError,
    ProcessId,
    Reader,
    RemoteProtocolError,
    TaskId,
    TopicPartition,
    Writer,
    hash_map_order,
    spread,
    string_code,
)

STREAMS_VERSION_MAX = 11
UNKNOWN_VERSION = -1
NEVER_MS = (1 << 63) - 1
LATEST_OFFSET = -2
UNKNOWN_OFFSET_SUM = -3
_DICTIONARY_FROM = 5
_STANDBY_HOSTS_FROM = 6
_SUMS_FROM = 7
_NAMES_FROM = 10
_NO_PROCESS = ProcessId(0, 0)
_NO_LISTS = bytes(8)
_PAIR = struct.Struct(">ii")
_TASK = struct.Struct(">iii")  # subtopology, partition, units of the name
_SUM = struct.Struct(">iiqh")  # subtopology, partition, sum, bytes of the name
_GROUPED_SUM = struct.Struct(">iq")

Partitions = tuple[TopicPartition, ...]
ByHost = tuple[tuple[HostInfo, Partitions], ...]


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """The tasks of one thread and where all others run; every sequence is in wire order.

    `active_tasks` has one entry per assigned partition, parallel to the partitions sorted by (topic, partition).
    `standby_tasks` pairs tasks with their source partitions. `next_rebalance_ms` is epoch milliseconds: 0 = now,
    NEVER_MS = none. `commonly_supported_version` is the lowest of the group's latest versions; versions 1 and 2 do not
    send it.
    """

    version: int = STREAMS_VERSION_MAX
    commonly_supported_version: int = STREAMS_VERSION_MAX
    active_tasks: tuple[TaskId, ...] = ()
    standby_tasks: tuple[tuple[TaskId, Partitions], ...] = ()
    partitions_by_host: ByHost = ()
    standby_partitions_by_host: ByHost = ()
    error_code: int = 0
    next_rebalance_ms: int = NEVER_MS

    @classmethod
    def decode(cls, data: bytes, *, exactly: bool = False) -> "AssignmentInfo":
        """Reads versions 1 to 11; trailing bytes are ignored, or an error if it has to fit `exactly`. Raises
        RemoteProtocolError."""
        reader = Reader(data)
        version, common, _, active, standby = _read_lists(reader)
        hosts: ByHost = ()
        standby_hosts: ByHost = ()
        if version >= _DICTIONARY_FROM:
            names = dict(reader.array(6, lambda: (reader.int32(), reader.utf())))
            indexed = _indexed_partition_reader(reader, names)
            hosts = _read_hosts(reader, 8, indexed)
            standby_hosts = _read_hosts(reader, 8, indexed) if version >= _STANDBY_HOSTS_FROM else ()
        elif version >= 2:
            hosts = _read_hosts(reader, 6, _partition_reader(reader))
        info = cls(
            version,
            common,
            active,
            standby,
            hosts,
            standby_hosts,
            error_code=reader.int32() if version >= 4 else 0,
            next_rebalance_ms=reader.int64() if version >= 7 else NEVER_MS,
        )
        if exactly and reader.remaining:
            raise RemoteProtocolError(f"{reader.remaining} bytes are behind the end")
        return info

    @classmethod
    def read_tasks(cls, data: bytes) -> tuple[tuple[TaskId, ...], tuple[tuple[TaskId, Partitions], ...], bytes]:
        """Returns the active tasks, the standby tasks, and the same message without them, which many members share.
        Raises RemoteProtocolError."""
        reader = Reader(data)
        _, _, begin, active, standby = _read_lists(reader)
        return active, standby, data[:begin] + _NO_LISTS + data[reader.position :]

    def encode(self) -> bytes:
        """Returns the bytes that Java writes for this order of tasks, hosts and partitions, without fields that the
        version lacks.

        Raises LocalProtocolError for a version outside 1-11, a named topology before version 10, or a value that does
        not fit.
        """
        if not 1 <= self.version <= STREAMS_VERSION_MAX:
            raise LocalProtocolError(f"version {self.version} is not one of 1-{STREAMS_VERSION_MAX}")
        writer = Writer()
        writer.int32(self.version)
        if self.version >= 3:
            writer.int32(self.commonly_supported_version)
        writer.array(self.active_tasks, lambda task: _write_task(writer, self.version, task))
        writer.int32(len(self.standby_tasks))
        for task, partitions in self.standby_tasks:
            _write_task(writer, self.version, task)
            _write_partitions(writer, partitions, writer.utf)
        if self.version >= _DICTIONARY_FROM:
            self._write_indexed_hosts(writer)
        elif self.version >= 2:
            _write_hosts(writer, self.partitions_by_host, writer.utf)
        if self.version >= 4:
            writer.int32(self.error_code)
        if self.version >= 7:
            writer.int64(self.next_rebalance_ms)
        return writer.getvalue()

    def _write_indexed_hosts(self, writer: Writer) -> None:
        """Writes the hosts. Topics are numbered in the order of Java's hash set of all partitions, and written in that
        of its map of topics."""
        both = self.partitions_by_host, self.standby_partitions_by_host
        written = both if self.version >= _STANDBY_HOSTS_FROM else both[:1]
        partitions = [*dict.fromkeys(tp for hosts in written for _, of_host in hosts for tp in of_host)]
        code = {topic: string_code(topic) for topic in {tp.topic for tp in partitions}}
        order = hash_map_order([spread(31 * (31 + tp.partition) + code[tp.topic]) for tp in partitions])
        topics = [*dict.fromkeys(partitions[at].topic for at in order)]
        numbers = {topic: number for number, topic in enumerate(topics)}
        writer.int32(len(topics))
        for number in hash_map_order([spread(code[topic]) for topic in topics]):
            writer.int32(number)
            writer.utf(topics[number])
        for hosts in written:
            _write_hosts(writer, hosts, lambda topic: writer.int32(numbers[topic]))


def _read_lists(
    reader: Reader,
) -> tuple[int, int, int, tuple[TaskId, ...], tuple[tuple[TaskId, Partitions], ...]]:
    """Returns the two versions, where the lists of tasks begin, and these."""
    version = reader.int32()
    if not 1 <= version <= STREAMS_VERSION_MAX:
        raise RemoteProtocolError(f"version {version} is not one of 1-{STREAMS_VERSION_MAX}")
    common = reader.int32() if version >= 3 else UNKNOWN_VERSION
    begin = reader.position
    active = _read_tasks(reader, version)
    plain = _partition_reader(reader)
    standby = tuple(
        [
            (_read_task(reader, version), tuple([plain() for _ in range(reader.count(6))]))
            for _ in range(reader.count(12))
        ]
    )
    return version, common, begin, active, standby


def _read_tasks(reader: Reader, version: int) -> tuple[TaskId, ...]:
    if version < _NAMES_FROM:
        return tuple([TaskId(*ids) for ids in _PAIR.iter_unpack(reader.raw(_PAIR.size * reader.count(_PAIR.size)))])
    count, begin = reader.count(_TASK.size), reader.position
    rows = [*_TASK.iter_unpack(reader.raw(_TASK.size * count))]
    if not any(units for _, _, units in rows):
        return tuple([TaskId(subtopology, partition) for subtopology, partition, _ in rows])
    reader.position = begin
    return tuple([_read_task(reader, version) for _ in range(count)])


def _read_task(reader: Reader, version: int) -> TaskId:
    if version < _NAMES_FROM:
        return TaskId(reader.int32(), reader.int32())
    subtopology, partition, units = reader.record(_TASK)
    if not units:
        return TaskId(subtopology, partition)
    reader.position -= 4
    return TaskId(subtopology, partition, reader.utf16())


def _partition_reader(reader: Reader) -> Callable[[], TopicPartition]:
    return lambda: TopicPartition(reader.utf(), reader.int32())


def _indexed_partition_reader(reader: Reader, names: dict[int, str]) -> Callable[[], TopicPartition]:
    def read() -> TopicPartition:
        number = reader.int32()
        if number not in names:
            raise RemoteProtocolError(f"topic number {number} before byte {reader.position} is not in the dictionary")
        return TopicPartition(names[number], reader.int32())

    return read


def _read_hosts(reader: Reader, partition_bytes: int, read: Callable[[], TopicPartition]) -> ByHost:
    return reader.array(10, lambda: (HostInfo(reader.utf(), reader.int32()), reader.array(partition_bytes, read)))


def _write_task(writer: Writer, version: int, task: TaskId) -> None:
    if task.topology is not None and version < _NAMES_FROM:
        raise LocalProtocolError(f"task {task} has a named topology, which needs version {_NAMES_FROM}")
    writer.int32(task.subtopology)
    writer.int32(task.partition)
    if version >= _NAMES_FROM:
        writer.utf16(task.topology or "")


def _write_partitions(writer: Writer, partitions: Partitions, write_topic: Callable[[str], None]) -> None:
    writer.int32(len(partitions))
    for topic, partition in partitions:
        write_topic(topic)
        writer.int32(partition)


def _write_hosts(writer: Writer, hosts: ByHost, write: Callable[[str], None]) -> None:
    writer.int32(len(hosts))
    for host, partitions in hosts:
        writer.utf(host.host)
        writer.int32(host.port)
        _write_partitions(writer, partitions, write)


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """One thread's view of its process: which tasks it has, and how far their state is.

    `task_offset_sums` pairs tasks with the sum of their changelog offsets, in wire order: LATEST_OFFSET for a running
    active task, UNKNOWN_OFFSET_SUM if nothing is known. Versions 1-6 only have previous and standby tasks, which are
    read as these two values. `user_end_point` is "host:port" or None. A version above 11 is *future*: only `version`
    and `latest_supported_version` are read, and all other fields keep their defaults.
    """

    version: int = STREAMS_VERSION_MAX
    latest_supported_version: int = STREAMS_VERSION_MAX
    process_id: ProcessId = _NO_PROCESS
    user_end_point: str | None = None
    task_offset_sums: tuple[tuple[TaskId, int], ...] = ()
    unique_field: int = 0
    error_code: int = 0
    client_tags: tuple[tuple[str, str], ...] = ()

    @property
    def future(self) -> bool:
        return self.version > STREAMS_VERSION_MAX

    @classmethod
    def decode(cls, data: bytes) -> "SubscriptionInfo":
        """Reads any version from 1 on; trailing bytes are ignored. Raises RemoteProtocolError."""
        info, sums = cls.decode_packed(data)
        return replace(info, task_offset_sums=sums.unpacked()) if sums.rows else info

    @classmethod
    def decode_packed(cls, data: bytes) -> tuple["SubscriptionInfo", "PackedSums"]:
        """Reads the same, with the sums apart."""
        reader = Reader(data)
        version = reader.int32()
        latest = reader.int32() if version > 2 else UNKNOWN_VERSION
        if complaint := _complaint(version, latest):
            raise RemoteProtocolError(complaint)
        if version > STREAMS_VERSION_MAX:
            return cls(version, latest), PackedSums()
        process_id = ProcessId(reader.int64(), reader.int64())
        sums = _read_previous(reader) if version < _SUMS_FROM else PackedSums()
        end_point = reader.sized_text() if version >= 2 else ""
        if version >= _SUMS_FROM:
            sums = _read_sums(reader) if version >= _NAMES_FROM else _read_grouped(reader)
        info = cls(
            version,
            latest,
            process_id,
            end_point or None,
            unique_field=reader.int8() if version >= 8 else 0,
            error_code=reader.int32() if version >= 9 else 0,
            client_tags=reader.array(8, lambda: (reader.sized_text(), reader.sized_text())) if version >= 11 else (),
        )
        return info, sums

    def encode(self) -> bytes:
        """Returns the bytes that Java writes for the same order of tasks, without fields that the version lacks.

        Raises LocalProtocolError for a future version, a latest version below the used one, a named topology before
        version 10, or a value that does not fit.
        """
        # The latest version as a reader would see it: versions 1 and 2 do not carry it.
        latest = self.latest_supported_version if self.version > 2 else UNKNOWN_VERSION
        if complaint := "a future version cannot be written" if self.future else _complaint(self.version, latest):
            raise LocalProtocolError(complaint)
        named = next((task for task, _ in self.task_offset_sums if task.topology is not None), None)
        if named is not None and self.version < _NAMES_FROM:
            raise LocalProtocolError(f"task {named} has a named topology, which needs version {_NAMES_FROM}")
        writer = Writer()
        writer.int32(self.version)
        if self.version >= 3:
            writer.int32(self.latest_supported_version)
        writer.int64(self.process_id.most_significant)
        writer.int64(self.process_id.least_significant)
        if self.version < _SUMS_FROM:
            _write_tasks(writer, [task for task, total in self.task_offset_sums if total == LATEST_OFFSET])
            _write_tasks(writer, [task for task, total in self.task_offset_sums if total != LATEST_OFFSET])
        if self.version >= 2:
            writer.sized_text(self.user_end_point or "")
        if self.version >= _SUMS_FROM:
            _write_sums(writer, self.version, self.task_offset_sums)
        if self.version >= 8:
            writer.int8(self.unique_field)
        if self.version >= 9:
            writer.int32(self.error_code)
        if self.version >= 11:
            writer.int32(len(self.client_tags))
            for key, value in self.client_tags:
                writer.sized_text(key)
                writer.sized_text(value)
        return writer.getvalue()


def _complaint(version: int, latest: int) -> str | None:
    if latest == UNKNOWN_VERSION:
        return None if version in {1, 2} else f"version {version} without a latest supported version"
    return None if version <= latest else f"version {version} above the latest supported version {latest}"


class PackedSums(NamedTuple):
    """Offset sums as records of 18 bytes: subtopology and partition (int32), sum (int64), and two bytes without
    meaning. `names` are the named topologies, one for each record, () if there are none."""

    rows: bytes = b""
    names: tuple[str | None, ...] = ()

    def unpacked(self) -> tuple[tuple[TaskId, int], ...]:
        rows = zip(_SUM.iter_unpack(self.rows), self.names or repeat(None), strict=False)
        return tuple([(TaskId(subtopology, number, name), total) for (subtopology, number, total, _), name in rows])


def _read_previous(reader: Reader) -> PackedSums:
    """Reads the previous and the standby tasks of versions before 7."""
    rows = b""
    for offset_sum in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
        ids = _PAIR.iter_unpack(reader.raw(_PAIR.size * reader.count(_PAIR.size)))
        rows += b"".join([_SUM.pack(*task, offset_sum, -1) for task in ids])
    return PackedSums(rows)


def _read_grouped(reader: Reader) -> PackedSums:
    """Reads the sums of versions 7 to 9, which are grouped by subtopology."""
    rows: list[bytes] = []
    for _ in range(reader.count(8)):
        subtopology = reader.int32()
        sums = _GROUPED_SUM.iter_unpack(reader.raw(_GROUPED_SUM.size * reader.count(_GROUPED_SUM.size)))
        rows += [_SUM.pack(subtopology, partition, total, -1) for partition, total in sums]
    return PackedSums(b"".join(rows))


def _read_sums(reader: Reader) -> PackedSums:
    count, begin = reader.count(_SUM.size), reader.position
    rows = reader.raw(_SUM.size * count)
    if min(rows[16 :: _SUM.size], default=0x80) >= 0x80:  # the size of each name is negative: there is none
        return PackedSums(rows)
    reader.position = begin
    read = [(reader.raw(16), reader.nullable_string()) for _ in range(count)]
    return PackedSums(b"".join([row + b"\xff\xff" for row, _ in read]), tuple([name for _, name in read]))


def _write_tasks(writer: Writer, tasks: list[TaskId]) -> None:
    writer.int32(len(tasks))
    for task in tasks:
        writer.int32(task.subtopology)
        writer.int32(task.partition)


def _write_sums(writer: Writer, version: int, sums: tuple[tuple[TaskId, int], ...]) -> None:
    if version >= _NAMES_FROM:
        writer.int32(len(sums))
        for task, offset_sum in sums:
            writer.int32(task.subtopology)
            writer.int32(task.partition)
            writer.int64(offset_sum)
            writer.nullable_string(task.topology)
        return
    grouped: dict[int, list[tuple[TaskId, int]]] = {}
    for task, offset_sum in sums:
        grouped.setdefault(task.subtopology, []).append((task, offset_sum))
    writer.int32(len(grouped))
    for subtopology, members in grouped.items():
        writer.int32(subtopology)
        writer.int32(len(members))
        for task, offset_sum in members:
            writer.int32(task.partition)
            writer.int64(offset_sum)
