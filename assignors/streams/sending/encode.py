"""Encodes a plan on threads as a SyncGroup request: AssignmentInfo inside ConsumerProtocolAssignment.

The list of active tasks has one entry per partition, parallel to the partitions sorted by (topic, partition), because
the receiver pairs them in that order (docs/internals/wire-formats.md#content-of-a-streams-assignment). Topic names are
ASCII on every broker, so the cluster's order of names equals Java's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, distinct, lookup
from bellwether_kafka.assignors.streams.application import TaskMap
from bellwether_kafka.assignors.streams.sending.hosts import HostMaps, tail
from bellwether_kafka.protocol.bulk import write_assignments
from bellwether_kafka.protocol.messages import NEVER_MS, STREAMS_VERSION_MAX, AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import Writer

ASSIGNMENT_VERSION = 1
NOW_MS = 0
_COMMON_FROM = 3
_DEADLINE_FROM = 7
_NAMES_FROM = 10


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """What every member is sent; rows are those of the decoded members. `holder[task]` is the row that gets the active
    task now (NOBODY: pending or without owner). Standbys are parallel arrays sorted by row, then task.
    `next_rebalance_ms` is per row. Rows in `without_hosts` get empty host maps."""

    rows: int
    holder: IntArray
    standby_row: IntArray
    standby_task: IntArray
    next_rebalance_ms: LongArray
    without_hosts: BoolArray
    version: int = STREAMS_VERSION_MAX
    common: int = STREAMS_VERSION_MAX

    def owner(self, tasks: TaskMap) -> IntArray:
        """Returns the row that gets each flat partition, NOBODY if none does."""
        return lookup(self.holder, tasks.task_of, NOBODY)


def own_assignment() -> bytes:
    """Returns the assignment of Bellwether's own member: no partitions, and userData that every reader accepts."""
    return ConsumerProtocolAssignment(ASSIGNMENT_VERSION, (), AssignmentInfo().encode()).encode()


def shutdown_assignment(version: int, common: int, error_code: int) -> bytes:
    """Returns the empty assignment that stops an application. For a version without an error code, the version is the
    one that Java sends."""
    carried = version if version >= 4 else STREAMS_VERSION_MAX
    info = AssignmentInfo(carried, common, error_code=error_code)
    return ConsumerProtocolAssignment(ASSIGNMENT_VERSION, (), info.encode()).encode()


def encode_assignments(tasks: TaskMap, maps: HostMaps, out: Outgoing) -> list[bytes]:
    """Returns one assignment per row. Raises LocalProtocolError for what does not fit its field."""
    user_data = _infos(tasks, maps, out)
    return write_assignments(
        tasks.cluster.topics,
        tasks.cluster.first,
        out.owner(tasks),
        out.rows,
        version=ASSIGNMENT_VERSION,
        user_data=dict(enumerate(user_data)),
    )


def _infos(tasks: TaskMap, maps: HostMaps, out: Outgoing) -> list[bytes]:
    head = b"".join(n.to_bytes(4, signed=True) for n in _versions(out))
    tails = {
        without_hosts: tail(HostMaps.none() if without_hosts else maps, tasks, out.version)
        for without_hosts in set(out.without_hosts.tolist())
    }
    active = _active(tasks, out)
    standby = _standby(tasks, out)
    timed = out.version >= _DEADLINE_FROM
    return [
        b"".join((head, mine, kept, tails[without_hosts], deadline.to_bytes(8, signed=True) if timed else b""))
        for mine, kept, without_hosts, deadline in zip(
            active, standby, out.without_hosts.tolist(), out.next_rebalance_ms.tolist(), strict=True
        )
    ]


def _versions(out: Outgoing) -> tuple[int, ...]:
    return (out.version, out.common) if out.version >= _COMMON_FROM else (out.version,)


def _active(tasks: TaskMap, out: Outgoing) -> Iterable[bytes]:
    """Yields, per row, the count and the task of every partition, in the order of the partitions."""
    owner = out.owner(tasks)
    reads: LongArray = np.flatnonzero(owner != NOBODY)
    row = owner[reads]
    task = tasks.task_of[reads[np.argsort(row, kind="stable")]]
    ids = np.zeros((len(task), 3 if out.version >= _NAMES_FROM else 2), dtype=">i4")
    ids[:, 0] = tasks.table.subtopology[task]
    ids[:, 1] = tasks.table.partition[task]
    return _cut(ids.tobytes(), np.bincount(row, minlength=out.rows), ids.shape[1] * 4)


def _cut(raw: bytes, counts: LongArray, size: int) -> Iterable[bytes]:
    end = np.cumsum(counts) * size
    for count, a, b in zip(counts.tolist(), (end - counts * size).tolist(), end.tolist(), strict=True):
        yield count.to_bytes(4) + raw[a:b]


def _standby(tasks: TaskMap, out: Outgoing) -> Iterable[bytes]:
    """Yields, per row, the count and the entries of its standby tasks."""
    entries = _standby_entries(tasks, distinct(out.standby_task.astype(np.int64)), out.version)
    items = [entries[task] for task in out.standby_task.tolist()]
    counts = np.bincount(out.standby_row, minlength=out.rows)
    end = np.cumsum(counts)
    for count, b in zip(counts.tolist(), end.tolist(), strict=True):
        yield b"".join((count.to_bytes(4), *items[b - count : b]))


def _standby_entries(tasks: TaskMap, wanted: LongArray, version: int) -> dict[int, bytes]:
    """Returns the bytes of each standby task: its id and its source partitions. Tasks of a subtopology that read the
    same topics differ only in their partition number."""
    entries: dict[int, bytes] = {}
    row = np.searchsorted(tasks.first, wanted, side="right") - 1
    for r in distinct(row).tolist():
        mine = wanted[row == r]
        number = tasks.table.partition[mine]
        topics = tasks.sources(r)
        sizes = tasks.cluster.counts[topics]
        for low, high in pairwise([0, *sorted(set(sizes.tolist()) - {0})]):  # between sizes all have the same topics
            here = (number >= low) & (number < high)
            names = [tasks.cluster.topics[t] for t, size in zip(topics, sizes.tolist(), strict=True) if size > low]
            raw, size = _stamped(int(tasks.table.subtopologies[r].id), number[here], names, version)
            for i, task in enumerate(mine[here].tolist()):
                entries[task] = raw[i * size : (i + 1) * size]
    return entries


def _stamped(subtopology: int, number: IntArray, names: Sequence[str], version: int) -> tuple[bytes, int]:
    """Returns the concatenated entries of tasks that differ only in their number, and the size of one entry."""
    writer = Writer()
    writer.int32(subtopology)
    places = [4]
    writer.int32(0)
    if version >= _NAMES_FROM:
        writer.int32(0)
    writer.int32(len(names))
    for name in names:
        writer.utf(name)
        places.append(len(writer.getvalue()))
        writer.int32(0)
    form = np.frombuffer(writer.getvalue(), dtype=np.uint8)
    block = np.tile(form, (len(number), 1))
    digits = number.astype(">i4").view(np.uint8).reshape(-1, 4)
    for place in places:
        block[:, place : place + 4] = digits
    return block.tobytes(), len(form)


def deadlines(rows: int, immediate: Iterable[int], later: Iterable[tuple[int, int]] = ()) -> LongArray:
    """Returns the time of the next rebalance per row: now for rows in `immediate`, else that of `later` (row, epoch
    ms), else never."""
    result = np.full(rows, NEVER_MS, dtype=np.int64)
    for row, at_ms in later:
        result[row] = at_ms
    result[list(immediate)] = NOW_MS
    return result


def first_deadline(next_rebalance_ms: LongArray) -> int | None:
    """Returns the earliest of these times (epoch ms), None if there is none."""
    first = int(next_rebalance_ms.min(initial=NEVER_MS))
    return None if first == NEVER_MS else first
