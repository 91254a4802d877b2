"""Reading the text of `Topology.describe()` (docs/reference/streams.md#the-topology-is-not-on-the-wire).

The text has no application id, no logging flags and no sizes: internal topics are prefixed here, and where the topics
of the cluster are given they tell which stores are logged. The subtopology numbers are those of the tasks only if the
text was made with the application's own configuration (topology.optimization changes them): nothing here can see that.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors.streams.application.model import Subtopology
from bellwether_kafka.assignors.streams.application.partitions import required_counts
from bellwether_kafka.assignors.streams.application.topology import InternalTopic, Topology, TopologyError, legal_topic

REPARTITION, CHANGELOG = "-repartition", "-changelog"

_HEADER = re.compile(r"Topologies:\s*")
_SUBTOPOLOGY = re.compile(r"\s*Sub-topology: (\d+)( for global store \(will not generate tasks\))?\s*")
_SOURCE = re.compile(r"\s*Source: .* \(topics: (.*)\)\s*")
_PROCESSOR = re.compile(r"\s*Processor: .* \(stores: \[(.*)\]\)\s*")
_SINK = re.compile(r"\s*Sink: .* \((topic: (.*)|extractor class: .*)\)\s*")
_ARROW = re.compile(r"\s*(-->|<--) ?.*")
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Described:
    """A topology from a text, and what it does not say, as sentences for people."""

    topology: Topology
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Part:
    """One subtopology while it is read, by the names in the text."""

    number: int
    sources: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    sinks: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    dynamic: bool = False


def parse_description(text: str, application_id: str, topics: Collection[str] | None = None) -> Described:
    """The topology that a description says. `topics` are all that exist in the cluster, None: not known. Raises
    TopologyError with the number of a line that cannot be read."""
    parts = _parts(text)
    internal = {t for p in parts for t in p.sources if t.endswith(REPARTITION)}
    internal &= {t for p in parts for t in p.sinks} | _undecorated(internal, application_id, topics)

    def full(topic: str) -> str:
        return f"{application_id}-{topic}" if topic in internal else topic

    subtopologies: list[Subtopology] = []
    notes: list[str] = []
    for part in parts:
        changelogs, unlogged = _changelogs(part, application_id, topics)
        if unlogged:
            notes.append(
                f"subtopology {part.number} has stores without changelog topic ({', '.join(unlogged[:_LISTED])}): not"
                " logged, or a source topic serves as changelog (topology.optimization); then add it to the file"
            )
        elif changelogs and topics is None:
            notes.append(f"the stores of subtopology {part.number} are taken to be logged; remove those that are not")
        if part.dynamic:
            notes.append(f"subtopology {part.number} chooses topics at run time: its sinks are not all known")
        subtopologies.append(
            Subtopology(
                part.number,
                tuple(sorted({full(t) for t in part.sources})),
                repartition_sources=tuple(sorted(full(t) for t in {*part.sources} & internal)),
                repartition_sinks=tuple(sorted(full(t) for t in {*part.sinks} & internal)),
                changelogs=changelogs,
            )
        )
    patterns = tuple((part.number, pattern) for part in parts for pattern in part.patterns)
    if patterns:
        notes.append("pattern sources get their topics from what members subscribe to")
    return Described(Topology(application_id, tuple(subtopologies), "description", patterns=patterns), tuple(notes))


def with_existing_sizes(described: Described, counts: Mapping[str, int]) -> Described:
    """Fixes the size of repartition topics that exist with another size than follows from the text: a description does
    not show the numbers that the application gave to `repartition`."""
    topology = described.topology
    derived = required_counts(topology, counts).partitions
    odd = [t for t in topology.repartition_topics if t in counts and derived.get(t, counts[t]) != counts[t]]
    fixed = tuple(InternalTopic(t, counts[t]) for t in odd)
    notes = tuple(f"{t} has {counts[t]} partitions, taken for the number that the application asks for" for t in odd)
    return Described(replace(topology, internal_topics=fixed), (*described.notes, *notes))


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    current: _Part | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or _HEADER.fullmatch(line) or _ARROW.fullmatch(line):
            continue
        begins = _SUBTOPOLOGY.fullmatch(line)
        if begins:
            current = _Part(int(begins[1]))
            if not begins[2]:
                parts.append(current)
        elif current is None or not _read_node(current, line):
            raise TopologyError(f"line {number} is nothing that Topology.describe() writes: {line.strip()[:80]!r}")
    if not parts:
        raise TopologyError("the description has no subtopology with tasks")
    return [part for part in parts if part.sources or part.patterns]


def _read_node(part: _Part, line: str) -> bool:
    source, processor, sink = _SOURCE.fullmatch(line), _PROCESSOR.fullmatch(line), _SINK.fullmatch(line)
    if source:
        names = _names(source[1])
        if names:
            part.sources += names
        else:
            part.patterns.append(source[1])
    elif processor:
        part.stores += [store for store in map(str.strip, processor[1].split(",")) if store]
    elif sink:
        part.sinks += [sink[2]] if sink[2] else []
        part.dynamic |= not sink[2]
    return bool(source or processor or sink)


def _names(text: str) -> list[str]:
    """The topics of a list such as "[a, b]"; nothing for a regular expression."""
    if not (text.startswith("[") and text.endswith("]")):
        return []
    names = [name.strip() for name in text[1:-1].split(",")]
    return names if all(map(legal_topic, names)) else []


def _undecorated(names: Collection[str], application_id: str, topics: Collection[str] | None) -> set[str]:
    """Names that exist only behind the application's prefix: internal although nothing in the text writes to them."""
    return {t for t in names if topics and t not in topics and f"{application_id}-{t}" in topics}


def _changelogs(
    part: _Part, application_id: str, topics: Collection[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(changelogs, stores that have none)."""
    names = {store: f"{application_id}-{store}{CHANGELOG}" for store in sorted(set(part.stores))}
    there = {store: topic for store, topic in names.items() if topics is None or topic in topics}
    return tuple(there.values()), tuple(store for store in names if store not in there)
