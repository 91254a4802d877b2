"""Partition counts of an application's topics: how many repartition topics need, and what is wrong with existing ones.

docs/internals/streams.md#repartition-topics has the rules. Pure: counts in, counts or sentence parts out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bellwether_kafka.assignors.streams.application.task_views import Subtopology
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
