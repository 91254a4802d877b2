"""The host maps: where everything will run, sent to every thread. This is the end of an AssignmentInfo, after its lists
of tasks.

For each process with an endpoint the maps list the source partitions that its active and its standby tasks read, in the
*target*, so pending tasks are included (docs/internals/wire-formats.md#content-of-a-streams-assignment). The bytes are
the same for all members except for the time of the next rebalance.

Encodes a plan on threads as a SyncGroup request: AssignmentInfo inside ConsumerProtocolAssignment.

The list of active tasks has one entry per partition, parallel to the partitions sorted by (topic, partition), because
the receiver pairs them in that order (docs/internals/wire-formats.md#content-of-a-streams-assignment). Topic names are
ASCII on every broker, so the cluster's order of names equals Java's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, Ragged, distinct, lookup, ordinals
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskMap
from bellwether_kafka.protocol.bulk import write_assignments
from bellwether_kafka.protocol.messages import NEVER_MS, STREAMS_VERSION_MAX, AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import HostInfo, TopicPartition, Writer

_DICTIONARY_FROM = 5
_STANDBY_HOSTS_FROM = 6
_HOSTS_FROM = 2


@dataclass(frozen=True, slots=True, eq=False)
class HostMaps:
    """Flat partitions by endpoint, ascending; `hosts` are in the order of processes. Processes with the same endpoint
    share an entry, as in Java's map."""

    hosts: tuple[HostInfo, ...]
    active: tuple[IntArray, ...]
    standby: tuple[IntArray, ...]

    @classmethod
    def none(cls) -> "HostMaps":
        return cls((), (), ())


def host_maps(view: StreamsView, plan: StreamsPlan, tasks: TaskMap) -> HostMaps:
    """Returns the maps of the target plan; empty if no process has an endpoint."""
    number: dict[HostInfo, int] = {}
    host_of = np.full(view.size + 1, NOBODY, dtype=np.int32)  # the last entry is for NOBODY
    for p, process in enumerate(view.processes):
        if process.endpoint is not None:
            host_of[p] = number.setdefault(process.endpoint, len(number))
    if not number:
        return HostMaps.none()
    flats = flats_by_task(tasks)
    all_tasks = np.arange(tasks.table.size, dtype=np.int32)
    hosts = tuple(number)
    active = _grouped(host_of[plan.active], all_tasks, flats, len(hosts))
    standby = _grouped(host_of[plan.standby_process], plan.standby_task, flats, len(hosts))
    return HostMaps(hosts, active, standby)


def tail(maps: HostMaps, tasks: TaskMap, version: int, error_code: int = 0) -> bytes:
    """Returns everything of an AssignmentInfo between its standby tasks and the time of the next rebalance."""
    if version < _DICTIONARY_FROM:
        return _plain_tail(maps, tasks, version, error_code)
    cluster = tasks.cluster
    both = (*maps.active, *(maps.standby if version >= _STANDBY_HOSTS_FROM else ()))
    flats = np.concatenate([np.zeros(0, dtype=np.int32), *both])
    topic_of = cluster.topic_of()
    used = np.flatnonzero(np.bincount(topic_of[flats], minlength=len(cluster.topics)))
    number = np.zeros(len(cluster.topics), dtype=np.int32)
    number[used] = np.arange(len(used))
    writer = Writer()
    writer.int32(len(used))
    for i, t in enumerate(used.tolist()):
        writer.int32(i)
        writer.utf(cluster.topics[t])
    _indexed(writer, maps.hosts, maps.active, tasks, number[topic_of])
    if version >= _STANDBY_HOSTS_FROM:
        _indexed(writer, maps.hosts, maps.standby, tasks, number[topic_of])
    writer.int32(error_code)
    return writer.getvalue()


def _indexed(
    writer: Writer, hosts: tuple[HostInfo, ...], flats_by_host: tuple[IntArray, ...], tasks: TaskMap, number: IntArray
) -> None:
    writer.int32(len(hosts))
    partition = ordinals(tasks.cluster.counts)
    for host, flats in zip(hosts, flats_by_host, strict=True):
        writer.utf(host.host)
        writer.int32(host.port)
        writer.int32(len(flats))
        writer.raw(np.stack([number[flats], partition[flats]], axis=1).astype(">i4").tobytes())


def _plain_tail(maps: HostMaps, tasks: TaskMap, version: int, error_code: int) -> bytes:
    """Returns the tail for versions before the dictionary. They are rare and small, so the dataclass encodes them."""
    if version < _HOSTS_FROM:
        return b""
    by_host = tuple(
        (host, tuple([TopicPartition(*tasks.cluster.name(f)) for f in flats.tolist()]))
        for host, flats in zip(maps.hosts, maps.active, strict=True)
    )
    info = AssignmentInfo(version, -1, (), (), by_host, (), error_code)
    lists = 8 + (4 if version < 3 else 8)
    return info.encode()[lists:]


def flats_by_task(tasks: TaskMap) -> Ragged:
    """Returns the source partitions of every task, ascending."""
    flats: LongArray = np.flatnonzero(tasks.task_of != NOBODY)
    task = tasks.task_of[flats]
    return Ragged.of(task, flats[np.argsort(task, kind="stable")], tasks.table.size)


def _grouped(host: IntArray, task: IntArray, flats: Ragged, hosts: int) -> tuple[IntArray, ...]:
    """Returns the flat partitions per host of the (host, task) pairs."""
    placed_hosts = host != NOBODY
    host, task = host[placed_hosts], task[placed_hosts]
    sizes = np.diff(flats.first)[task]
    placed = flats.values[np.repeat(flats.first[task], sizes) + ordinals(sizes)]
    owner = np.repeat(host, sizes)
    order = np.lexsort((placed, owner))
    bounds = np.cumsum(np.bincount(owner, minlength=hosts))[:-1]
    return tuple(np.split(placed[order], bounds))


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
