"""Partition counts of an application's topics: how many repartition topics need, and what is wrong with existing ones.

docs/internals/streams.md#repartition-topics has the rules. Pure: counts in, counts or sentence parts out.

Builds the tables of tasks from a topology and a cluster: which partitions a task reads, and which racks hold them.

docs/internals/streams.md#tasks has the rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, IntArray, LongArray, numbered, offsets, ordinals
from bellwether_kafka.assignors.streams.application.lags import EndOffsets, end_sums
from bellwether_kafka.assignors.streams.application.task_views import UNKNOWN_OFFSET_SUM, Subtopology, TaskTable
from bellwether_kafka.assignors.streams.application.topology import Topology


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """The required counts. `partitions` has all source topics and changelogs whose size can be determined. `missing`
    are external source topics that do not exist. `unsized` are repartition topics without a writer of known size.
    `conflicts` are contradictions as sentence parts; `unchecked` are contradictions that Kafka Streams itself does not
    detect."""

    partitions: Mapping[str, int]
    missing: tuple[str, ...] = ()
    unsized: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


def required_counts(topology: Topology, existing: Mapping[str, int]) -> PartitionCounts:
    """Returns how many partitions each topic of the application needs, given the counts of existing topics. The size of
    a repartition topic is derived from its writers, as the application itself does; only if no writer is known (learned
    topologies), the existing topic decides.

    Kafka Streams checks copartition groups, including those of only user topics, only if there is a repartition topic
    (docs/internals/streams.md#repartition-topics).
    """
    internal = set(topology.repartition_topics)
    external = [t for t in topology.source_topics if t not in internal]
    counts = {t: existing[t] for t in external if existing.get(t, 0) > 0}
    missing = tuple(t for t in external if t not in counts)
    fixed = {t.name: t.partitions for t in topology.internal_topics if t.name in internal and t.partitions}
    counts |= fixed
    written = {topic for s in topology.subtopologies for topic in s.repartition_sinks}
    counts |= {t: existing[t] for t in internal - written - fixed.keys() if existing.get(t, 0) > 0}
    _fixpoint(topology, counts, internal & written - fixed.keys())
    conflicts = [line for s in topology.subtopologies for line in _copartition(s, internal, fixed, counts)]
    unsized = tuple(sorted(internal - counts.keys()))
    for subtopology in topology.subtopologies:
        tasks = task_count(subtopology, counts)
        counts |= {t: tasks for t in subtopology.changelogs if t not in subtopology.sources and tasks}
    checked, unchecked = (conflicts, ()) if internal else ((), conflicts)
    return PartitionCounts(counts, missing, unsized, tuple(checked), tuple(unchecked))


def to_describe(changelog: str) -> str:
    """Returns advice on the line that lets Bellwether create a changelog, and how to change it for other kinds of
    stores."""
    return (
        f"write `- {{Name: {changelog}, TopicConfigs: {{cleanup.policy: compact}}}}` instead of its bare name under"
        " StateChangelogTopics of the topology file (for a windowed store compact,delete, and retention.ms:"
        " its retention + 86400000; for a versioned one min.compaction.lag.ms: its history + 86400000)"
    )


def task_count(subtopology: Subtopology, counts: Mapping[str, int]) -> int:
    """Returns the number of tasks of a subtopology: the largest partition count of its source topics."""
    return max((counts.get(t, 0) for t in subtopology.sources), default=0)


def resized(counts: PartitionCounts, existing: Mapping[str, int], topics: Iterable[str]) -> tuple[str, ...]:
    """Returns sentence parts on internal topics whose partition count is not the required one."""
    wrong = [t for t in topics if t in existing and t in counts.partitions and existing[t] != counts.partitions[t]]
    return tuple(f"internal topic {t} has {existing[t]} partitions and needs {counts.partitions[t]}" for t in wrong)


def _fixpoint(topology: Topology, counts: dict[str, int], derived: set[str]) -> None:
    """Sizes repartition topics in `counts`: each gets the largest partition count of all sources of its writers, once
    all of these are known. In a cycle of repartition topics they never are; then the known sources decide."""
    writers = {t: [s for s in topology.subtopologies if t in s.repartition_sinks] for t in sorted(derived)}
    waits_for = {t: {x for s in of for x in s.sources if x in derived} for t, of in writers.items()}
    while True:
        pending = {t: max(task_count(s, counts) for s in of) for t, of in writers.items() if t not in counts}
        sized = {t: n for t, n in pending.items() if n > 0}
        settled = {t: n for t, n in sized.items() if waits_for[t] <= counts.keys()}
        if not sized:
            return
        counts |= settled or sized


def _copartition(
    subtopology: Subtopology, internal: set[str], fixed: Mapping[str, int], counts: dict[str, int]
) -> Iterable[str]:
    """Makes the topics of each group equally large where that is allowed; yields the conflicts where it is not."""
    for group in subtopology.copartition_groups:
        sizes = {t: counts[t] for t in group if t in counts}
        external = {t: n for t, n in sizes.items() if t not in internal}
        binding = external or {t: n for t, n in sizes.items() if t in fixed}
        if len(set(binding.values())) > 1:
            listed = ", ".join(f"{t} has {n}" for t, n in sorted(binding.items()))
            yield f"topics of subtopology {subtopology.id} must be copartitioned: {listed} partitions"
            continue
        wanted = next(iter(binding.values()), max(sizes.values(), default=0))
        for topic in group:
            if topic in internal and wanted:
                if fixed.get(topic, wanted) != wanted:
                    yield f"topic {topic} of subtopology {subtopology.id} is fixed at {fixed[topic]}, needs {wanted}"
                else:
                    counts[topic] = wanted


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
