"""SubscriptionInfo, versions 1 to 11: the userData that a Kafka Streams thread sends to the leader.

Layout and rules: docs/internals/wire-formats.md#subscriptioninfo.
"""

from dataclasses import dataclass

from bellwether_kafka.protocol.messages.streams_assignment import STREAMS_VERSION_MAX, UNKNOWN_VERSION
from bellwether_kafka.protocol.primitives import (
    LocalProtocolError,
    ProcessId,
    Reader,
    RemoteProtocolError,
    TaskId,
    Writer,
)

LATEST_OFFSET = -2
UNKNOWN_OFFSET_SUM = -3

_SUMS_FROM = 7
_NAMES_FROM = 10
_NO_PROCESS = ProcessId(0, 0)


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
        reader = Reader(data)
        version = reader.int32()
        latest = reader.int32() if version > 2 else UNKNOWN_VERSION
        if complaint := _complaint(version, latest):
            raise RemoteProtocolError(complaint)
        if version > STREAMS_VERSION_MAX:
            return cls(version, latest)
        process_id = ProcessId(reader.int64(), reader.int64())
        sums: tuple[tuple[TaskId, int], ...] = ()
        if version < _SUMS_FROM:
            sums = _read_tasks(reader, LATEST_OFFSET) + _read_tasks(reader, UNKNOWN_OFFSET_SUM)
        end_point = reader.sized_text() if version >= 2 else ""
        if version >= _SUMS_FROM:
            sums = _read_sums(reader, version)
        return cls(
            version,
            latest,
            process_id,
            end_point or None,
            sums,
            unique_field=reader.int8() if version >= 8 else 0,
            error_code=reader.int32() if version >= 9 else 0,
            client_tags=reader.array(8, lambda: (reader.sized_text(), reader.sized_text())) if version >= 11 else (),
        )

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


def _read_tasks(reader: Reader, offset_sum: int) -> tuple[tuple[TaskId, int], ...]:
    return reader.array(8, lambda: (TaskId(reader.int32(), reader.int32()), offset_sum))


def _read_sums(reader: Reader, version: int) -> tuple[tuple[TaskId, int], ...]:
    sums: list[tuple[TaskId, int]] = []
    if version >= _NAMES_FROM:
        for _ in range(reader.count(18)):
            subtopology, partition, offset_sum = reader.int32(), reader.int32(), reader.int64()
            sums.append((TaskId(subtopology, partition, reader.nullable_string()), offset_sum))
        return tuple(sums)
    for _ in range(reader.count(8)):
        subtopology = reader.int32()
        sums += [(TaskId(subtopology, reader.int32()), reader.int64()) for _ in range(reader.count(12))]
    return tuple(sums)


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
