"""Adds to a topology what the topics of a running application show: the sizes of its repartition topics and the configs
of all internal topics, so that a new start elsewhere creates the same topics. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.streams.application import InternalTopic, Topology, required_counts
from bellwether_kafka.coordinator.kafka.wire import grant
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.topology.internal_topics import CHANGELOG_CONFIGS, REPARTITION_CONFIGS

Configs = Mapping[str, Mapping[str, str]]  # configs set on the topic itself, without brokers' defaults
CLEANUP = "cleanup.policy"
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Completed:
    """A topology with its internal topics as they are. `notes` are sentences for the reader of the file."""

    topology: Topology
    notes: tuple[str, ...] = ()


def with_existing(topology: Topology, counts: Mapping[str, int], configs: Configs) -> Completed:
    """Returns the topology with its internal topics as they are. `counts` are the partitions of all topics of the
    cluster. `configs` are those of internal topics, except topics that Bellwether may not read. Topics that do not
    exist stay as described."""
    prefix = f"{topology.application_id}-"
    resolved = topology.resolved(t for t in counts if not t.startswith((prefix, "__")))
    sources = {*resolved.source_topics}
    internal = [t for t in (*resolved.repartition_topics, *resolved.changelogs, *resolved.undecided) if t in counts]
    internal = sorted({t for t in internal if t not in sources or t in resolved.repartition_topics})
    sizes = _sizes(resolved, counts)
    needed = required_counts(resolved, counts)
    topics = {topic.name: topic for topic in topology.internal_topics}
    for name in internal:
        kept = topics.get(name, InternalTopic(name))
        kind = REPARTITION_CONFIGS if name in resolved.repartition_topics else CHANGELOG_CONFIGS
        with_configs = tuple(sorted(_beyond(kind, configs[name]).items())) if name in configs else kept.configs
        topics[name] = replace(kept, partitions=sizes.get(name, kept.partitions), configs=with_configs)
    described = {t: topic for t, topic in topics.items() if topic != InternalTopic(t)}
    notes = [*needed.conflicts, *needed.unchecked]
    if sizes:
        notes.append(
            "the size of these is fixed at what it is now, as the application requires it, or because their writers are"
            f" not visible; where source topics are of other sizes, correct Partitions: {', '.join(sorted(sizes))}"
        )
    hidden = [name for name in internal if name not in configs]
    if hidden:
        rights = grant("DESCRIBE_CONFIGS", "Topic", hidden[0])
        notes.append(f"the configs of {listed(hidden, _LISTED)} cannot be read: {rights}")
    return Completed(replace(topology, internal_topics=tuple(described.values())), tuple(notes))


def serving_candidates(topology: Topology, configs: Configs) -> tuple[str, ...]:
    """Returns sentences on compacted source topics of stateful subtopologies, which may also serve as changelogs."""
    return tuple(
        f"source topic {topic} is compacted: if the application keeps a table of it under topology.optimization, write"
        f" `- {topic}` under StateChangelogTopics of subtopology {part.id}"
        for part in topology.subtopologies
        for topic in part.sources
        if part.stateful and topic not in (*part.changelogs, *part.repartition_sources)
        if "compact" in configs.get(topic, {}).get(CLEANUP, "")
    )


def _sizes(topology: Topology, counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the partition counts that cannot be derived from other topics. It fixes as few as possible, because a
    derived count still follows its topics when they grow."""
    internal = {*topology.repartition_topics}
    external = {t: n for t, n in counts.items() if t not in internal}
    described = {topic.name: topic for topic in topology.internal_topics}
    writers = {t: [s for s in topology.subtopologies if t in s.repartition_sinks] for t in internal}
    fixed: dict[str, int] = {}
    while True:
        internal_topics = described | {t: InternalTopic(t, partitions=n) for t, n in fixed.items()}
        derived = required_counts(
            replace(topology, internal_topics=tuple(internal_topics.values())), external
        ).partitions
        odd = {t for t in internal & counts.keys() if t not in fixed and derived.get(t) != counts[t]}
        if not odd:
            return fixed
        follows = {t for t in odd if any(odd & {*s.repartition_sources} for s in writers[t])}
        first = min(odd - follows or odd, key=lambda t: (_numbered(t), t))
        fixed[first] = counts[first]


def _numbered(topic: str) -> bool:
    """Returns whether Streams generated the topic's name; that of `repartition` rather comes from the application."""
    return any(part.isdecimal() and len(part) == 10 for part in topic.split("-"))


def _beyond(kind: Mapping[str, str], configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the configs that differ from those of the topic's kind. A changelog always keeps its cleanup.policy."""
    always = CLEANUP if kind is CHANGELOG_CONFIGS else ""
    return {key: value for key, value in configs.items() if key == always or kind.get(key) != value}
