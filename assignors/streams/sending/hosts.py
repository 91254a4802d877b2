"""The host maps: where everything will run, sent to every thread. This is the end of an AssignmentInfo, after its lists
of tasks.

For each process with an endpoint the maps list the source partitions that its active and its standby tasks read, in the
*target*, so pending tasks are included (docs/internals/wire-formats.md#content-of-a-streams-assignment). The bytes are
the same for all members except for the time of the next rebalance.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray, Ragged, ordinals
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, TaskMap
from bellwether_kafka.protocol.messages import AssignmentInfo
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
    flats = _by_task(tasks)
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


def _by_task(tasks: TaskMap) -> Ragged:
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
