"""Builds the tables of tasks from a topology and a cluster: which partitions a task reads, and which racks hold them.

docs/internals/streams.md#tasks has the rules.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, IntArray, LongArray, numbered, offsets, ordinals
from bellwether_kafka.assignors.streams.application.offsets import EndOffsets, end_sums
from bellwether_kafka.assignors.streams.application.partitions import task_count
from bellwether_kafka.assignors.streams.application.task_views import UNKNOWN_OFFSET_SUM, Subtopology, TaskTable
from bellwether_kafka.assignors.streams.application.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class TaskMap:
    """The tasks in relation to the cluster's partitions. `task_of[flat]` is the task that reads a partition, NOBODY for
    partitions of other topics. The tasks of `table.subtopologies[i]` are `first[i]:first[i + 1]`."""

    topology: Topology
    cluster: ClusterView
    table: TaskTable
    first: LongArray
    task_of: IntArray

    def index(self, subtopology: IntArray, partition: IntArray) -> LongArray:
        """Returns the task indices of (subtopology id, partition) pairs, NOBODY if there is no such task."""
        ids = np.array([s.id for s in self.table.subtopologies], dtype=np.int64)
        if not len(ids) or not len(subtopology):
            return np.full(len(subtopology), NOBODY, dtype=np.int64)
        row = np.minimum(np.searchsorted(ids, subtopology), len(ids) - 1)
        number = partition.astype(np.int64)
        real = (ids[row] == subtopology) & (number >= 0) & (number < np.diff(self.first)[row])
        return np.where(real, self.first[row] + number, NOBODY)

    def sources(self, row: int) -> list[int]:
        """Returns the topic indices of the sources of `table.subtopologies[row]`, ascending (and thus by name)."""
        return sorted(self.cluster.index[t] for t in self.table.subtopologies[row].sources if t in self.cluster.index)


def build_tasks(topology: Topology, cluster: ClusterView, ends: EndOffsets) -> tuple[TaskMap, str | None]:
    """Returns the tables, and why end offsets are unknown (None if they are known). If they are unknown, every end sum
    is UNKNOWN_OFFSET_SUM. Source topics that the cluster lacks are ignored, so callers check for them first."""
    counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
    sizes = [task_count(s, counts) for s in topology.subtopologies]
    first = offsets(sizes)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    ids = np.array([s.id for s in topology.subtopologies], dtype=np.int32)
    stateful = np.array([s.stateful for s in topology.subtopologies], dtype=np.bool_)[rows]
    end_sum, trouble = _end_sums(topology.subtopologies, sizes, ends)
    source = _remote(cluster, sizes, [s.sources for s in topology.subtopologies])
    changelog = _remote(cluster, sizes, [s.changelogs for s in topology.subtopologies])
    table = TaskTable(
        subtopologies=topology.subtopologies,
        subtopology=ids[rows],
        partition=ordinals(np.array(sizes, dtype=np.int64)).astype(np.int32),
        stateful=stateful,
        end_sum=end_sum,
        racks=cluster.column_racks,
        source_signature=source[0],
        source_remote=source[1],
        changelog_signature=changelog[0],
        changelog_remote=changelog[1],
        racks_known=source[2],
        changelog_racks_known=changelog[2],
    )
    return TaskMap(topology, cluster, table, first, _task_of(topology, cluster, first)), trouble


def _topics(cluster: ClusterView, names: Iterable[str]) -> list[int]:
    return [cluster.index[t] for t in names if t in cluster.index]


def _task_of(topology: Topology, cluster: ClusterView, first: LongArray) -> IntArray:
    task_of = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    for row, subtopology in enumerate(topology.subtopologies):
        for t in _topics(cluster, subtopology.sources):
            begin, end = int(cluster.first[t]), int(cluster.first[t + 1])
            task_of[begin:end] = np.arange(first[row], first[row] + end - begin)
    return task_of


def _end_sums(
    subtopologies: Sequence[Subtopology], sizes: Sequence[int], ends: EndOffsets
) -> tuple[LongArray, str | None]:
    unknown = np.full(sum(sizes), UNKNOWN_OFFSET_SUM, dtype=np.int64)
    if ends.failure is not None:
        return unknown, ends.failure
    parts: list[LongArray] = []
    for subtopology, size in zip(subtopologies, sizes, strict=True):
        sums = end_sums(subtopology, size, ends)
        if isinstance(sums, str):
            return unknown, sums
        parts.append(sums)
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]), None


def _remote(
    cluster: ClusterView, sizes: Sequence[int], names: Sequence[Sequence[str]]
) -> tuple[IntArray, IntArray, bool]:
    """Returns (the signature of every task, per signature and rack the number of partitions without a replica there,
    whether all racks are known). An additional column for racks without a broker counts all partitions. Tasks whose
    partitions are on the same sets of racks share a signature, so there are few."""
    signature = np.zeros(sum(sizes), dtype=np.int32)
    tables: list[IntArray] = []
    has_rack = np.logical_or.reduce(cluster.signature_racks, axis=1)
    racks_known = True
    begin = seen = 0
    for size, wanted in zip(sizes, names, strict=True):
        mine = _topics(cluster, wanted)
        racks_known = racks_known and len(mine) == len(wanted)
        code = np.zeros(size, dtype=np.int64)
        counted = np.zeros((1, len(cluster.column_racks) + 1), dtype=np.int32)
        for t in mine:
            sets = cluster.signature[cluster.first[t] : cluster.first[t + 1]][:size]
            racks_known = racks_known and bool(has_rack[sets].all())
            code, counted = _joined(code, counted, sets, cluster)
        signature[begin : begin + size] = code + seen
        tables.append(counted)
        seen += len(counted)
        begin += size
    if not tables:
        return signature, np.zeros((0, len(cluster.column_racks) + 1), dtype=np.int32), racks_known
    remote, number = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int32)[signature], remote, racks_known


def _joined(code: LongArray, counted: IntArray, sets: IntArray, cluster: ClusterView) -> tuple[LongArray, IntArray]:
    """Adds one topic to signatures. Row `nothing` of the sets is for tasks without a partition of the topic."""
    nothing = len(cluster.signature_racks)
    padded = np.full(len(code), nothing, dtype=np.int64)
    padded[: len(sets)] = sets
    away = np.pad(~cluster.signature_racks, ((0, 0), (0, 1)), constant_values=True)
    away = np.pad(away, ((0, 1), (0, 0)))
    distinct, number = numbered(code * (nothing + 1) + padded, len(counted) * (nothing + 1))
    before, added = np.divmod(distinct, nothing + 1)
    return number.astype(np.int64), (counted[before] + away[added]).astype(np.int32)
