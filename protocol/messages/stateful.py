"""The userData of the protocol `bellwether-stateful`, version 1, which stateful members other than Kafka Streams
exchange with their leader. Big endian, with Kafka's classic primitives: docs/guides/stateful-members.md.

New versions only append fields: a reader ignores fields that it does not know.

Finds the process of a member in its subscription or its client id.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from bellwether_kafka.protocol.messages.streams import SubscriptionInfo
from bellwether_kafka.protocol.primitives import LocalProtocolError, ProcessId, Reader, RemoteProtocolError, Writer

PROTOCOL = "bellwether-stateful"
VERSION = 1
UNKNOWN = -1
STANDBY, WARMUP = 0, 1
_NO_PROCESS = ProcessId(0, 0)
_TASK_BYTES, _TAG_BYTES, _PLACED_BYTES, _GROUP_BYTES = 25, 4, 9, 8


class Task(NamedTuple):
    """Partition number `partition` of every topic in topic group `group`."""

    group: int
    partition: int

    def __str__(self) -> str:
        return f"{self.group}_{self.partition}"


@dataclass(frozen=True, slots=True)
class StatefulTaskState:
    """The state that a process has of one task. `position` is how many records of the state it has, `end` is how many
    there are in total, as far as the process knows; UNKNOWN if it does not. `running`: it works on the task now."""

    task: Task
    position: int = UNKNOWN
    end: int = UNKNOWN
    running: bool = False


@dataclass(frozen=True, slots=True)
class StatefulSubscription:
    """One member of one process. `capacity` is a relative weight of at least 1, in any unit. `rack` applies if the
    enclosing subscription has none. No task occurs twice."""

    process_id: ProcessId = _NO_PROCESS
    rack: str | None = None
    capacity: int = 1
    tags: tuple[tuple[str, str], ...] = ()
    tasks: tuple[StatefulTaskState, ...] = ()
    version: int = VERSION

    @classmethod
    def decode(cls, data: bytes) -> "StatefulSubscription":
        """Raises RemoteProtocolError for what is short, negative, contradictory or not UTF-8."""
        reader = Reader(data)
        version = _read_version(reader)
        process_id = ProcessId.of_bytes(reader.raw(16))
        rack = reader.nullable_string() or None
        capacity = reader.int32()
        tags = reader.array(_TAG_BYTES, lambda: (reader.string(), reader.string()))
        tasks = reader.array(_TASK_BYTES, lambda: _read_state(reader))
        subscription = cls(process_id, rack, capacity, tags, tasks, version)
        if complaint := subscription.complaint():
            raise RemoteProtocolError(complaint)
        return subscription

    def encode(self) -> bytes:
        """Raises LocalProtocolError for another version, and for what decode would refuse."""
        writer = _begun(self.version)
        if complaint := self.complaint():
            raise LocalProtocolError(complaint)
        writer.int64(self.process_id.most_significant)
        writer.int64(self.process_id.least_significant)
        writer.nullable_string(self.rack)
        writer.int32(self.capacity)
        writer.int32(len(self.tags))
        for key, value in self.tags:
            writer.string(key)
            writer.string(value)
        writer.int32(len(self.tasks))
        for state in self.tasks:
            _write_task(writer, state.task)
            writer.int8(state.running)
            writer.int64(state.position)
            writer.int64(state.end)
        return writer.getvalue()

    def complaint(self) -> str | None:
        """Returns what is contradictory or impossible, None if nothing is."""
        if self.capacity < 1:
            return f"capacity {self.capacity} is below 1"
        named = [state.task for state in self.tasks]
        if len(set(named)) != len(named):
            return "a task is named twice"
        for state in self.tasks:
            if min(state.task) < 0:
                return f"task {state.task} is below 0"
            if min(state.position, state.end) < UNKNOWN:
                return f"task {state.task} has a position or an end below {UNKNOWN}"
        return None


class Copy(NamedTuple):
    """A copy of a task's state that a member keeps: STANDBY permanently, WARMUP until it has caught up and takes
    over."""

    task: Task
    kind: int = STANDBY


@dataclass(frozen=True, slots=True)
class StatefulAssignment:
    """What a member should work on (`active`, besides the partitions in the enclosing assignment) and keep copies of.
    `groups` has (group, topics) of every topic group in it."""

    groups: tuple[tuple[int, tuple[str, ...]], ...] = ()
    active: tuple[Task, ...] = ()
    copies: tuple[Copy, ...] = ()
    version: int = VERSION

    @property
    def standby(self) -> tuple[Task, ...]:
        return tuple(copy.task for copy in self.copies if copy.kind == STANDBY)

    @property
    def warmup(self) -> tuple[Task, ...]:
        return tuple(copy.task for copy in self.copies if copy.kind == WARMUP)

    @classmethod
    def decode(cls, data: bytes) -> "StatefulAssignment":
        """Raises RemoteProtocolError."""
        reader = Reader(data)
        version = _read_version(reader)
        groups = reader.array(_GROUP_BYTES, lambda: (reader.int32(), reader.array(2, reader.string)))
        active = reader.array(8, lambda: _read_task(reader))
        copies = reader.array(_PLACED_BYTES, lambda: Copy(_read_task(reader), _kind(reader.int8())))
        return cls(groups, active, copies, version)

    def encode(self) -> bytes:
        """Raises LocalProtocolError for another version and for what does not fit its field."""
        writer = _begun(self.version)
        writer.int32(len(self.groups))
        for group, topics in self.groups:
            writer.int32(group)
            writer.array(topics, writer.string)
        writer.array(self.active, lambda task: _write_task(writer, task))
        writer.int32(len(self.copies))
        for task, kind in self.copies:
            _write_task(writer, task)
            writer.int8(kind)
        return writer.getvalue()


def _read_version(reader: Reader) -> int:
    version = reader.int16()
    if version < VERSION:
        raise RemoteProtocolError(f"version {version} is below {VERSION}")
    return version


def _begun(version: int) -> Writer:
    if version != VERSION:
        raise LocalProtocolError(f"version {version} cannot be written, only {VERSION}")
    writer = Writer()
    writer.int16(version)
    return writer


def _read_task(reader: Reader) -> Task:
    return Task(reader.int32(), reader.int32())


def _read_state(reader: Reader) -> StatefulTaskState:
    task, flag = _read_task(reader), reader.int8()
    if flag not in (0, 1):
        raise RemoteProtocolError(f"task {task} is neither running (1) nor not (0), but {flag}")
    return StatefulTaskState(task, reader.int64(), reader.int64(), running=flag == 1)


def _kind(value: int) -> int:
    if value not in (STANDBY, WARMUP):
        raise RemoteProtocolError(f"a copy of kind {value} is neither standby nor warm-up")
    return value


def _write_task(writer: Writer, task: Task) -> None:
    writer.int32(task.group)
    writer.int32(task.partition)


_THREAD = re.compile(r".+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-StreamThread-\d+-consumer")


def reported_process(metadata: bytes, protocol: str = "") -> str | None:
    """Returns the process id in the subscription of a Kafka Streams thread, or of a stateful member if `protocol` is
    theirs; None for other members, and if the subscription cannot be read."""
    try:
        user_data = ConsumerProtocolSubscription.decode(metadata).user_data if metadata else None
        if not user_data:
            return None
        if protocol == PROTOCOL:
            return _named(StatefulSubscription.decode(user_data))
        info = SubscriptionInfo.decode(user_data)
    except RemoteProtocolError:
        return None
    return None if info.future else _named(info)


def process_in_client_id(client_id: str) -> str | None:
    """Returns the process id in the client id of a Kafka Streams thread; None if the application sets `client.id`."""
    thread = _THREAD.fullmatch(client_id)
    return thread[1] if thread is not None else None


def _named(subscription: SubscriptionInfo | StatefulSubscription) -> str | None:
    return None if subscription.process_id == _NO_PROCESS else str(subscription.process_id)
