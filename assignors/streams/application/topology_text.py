"""Checks that the text of `Topology.describe()` is complete. Kafka Streams writes each connection at both of its
ends, numbers subtopologies from 0 without gaps, connects all nodes of a subtopology, and reads every repartition
topic that it writes. If one of these does not hold, lines are missing
(docs/reference/topology-file.md#what-a-description-shows).

Derives the topology from the text of `Topology.describe()`, as far as the text shows it
(docs/reference/topology-file.md#what-a-description-shows).

The text has no application id, no logging flags, no kinds of stores and no sizes. Internal topics are prefixed here,
and the topics of the cluster, if given, show which stores are logged. What neither shows becomes a note with the line
to write. The subtopology numbers are those of the tasks only if the text was made with the application's own
configuration, because topology.optimization changes them; this cannot be checked here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from bellwether_kafka.assignors.streams.application.description import (
    CHANGELOG,
    REPARTITION,
    Part,
    StoreKind,
    created_by_streams,
    is_table,
    joined,
    kind_of,
    may_be_sized,
    named_internal,
    read_description,
    substitute,
)
from bellwether_kafka.assignors.streams.application.task_views import Subtopology
from bellwether_kafka.assignors.streams.application.topology import InternalTopic, Topology, TopologyError

_REMEDY = "copy the whole text of Topology.describe(), with its arrows"


def check_whole(parts: Sequence[Part], application_id: str, topics: Collection[str] | None) -> None:
    """Raises TopologyError with the first missing part, if any. `topics` are all topics of the cluster, None if
    unknown."""
    if not any(part.with_tasks for part in parts):
        raise TopologyError("the description has no subtopology with tasks")
    _check_names(parts)
    problems = chain(*map(_missing, parts), _missing_parts(parts), _one_sided(parts, application_id, topics or ()))
    if missing := next(problems, ""):
        raise TopologyError(f"the description is not whole, {missing}; {_REMEDY}")


def _check_names(parts: Iterable[Part]) -> None:
    """Raises TopologyError for a name with a comma: arrows list names with commas between them, so that nobody can say
    where such a name ends. The text may be whole."""
    named = [(part.number, name) for part in parts for name in part.nodes if "," in name]
    if not named:
        return
    names = ", ".join(f"{name!r} (subtopology {number})" for number, name in named)
    raise TopologyError(
        f"names with a comma cannot be read behind the arrows of a description: {names}; rename these nodes, let the"
        " application export its topology, or learn it from the running application (bellwether topology learn)"
    )


def _missing(part: Part) -> Iterable[str]:
    """Yields sentence parts on what a subtopology lacks."""
    here, nodes = f"subtopology {part.number}", part.nodes
    if not part.sources:
        yield f"{here} has no source"
    for node in nodes.values():
        if node.after is None and node.name not in part.sinks:
            yield f"{node.name} of {here} has no line -->"
        if not node.before and node.name not in part.sources:
            yield f"{node.name} of {here} has no line <--"
        for name in node.after or ():
            if name not in nodes:
                yield f"{here} has no {name}, which {node.name} names behind -->"
            elif node.name not in nodes[name].before:
                yield f"{name} of {here} does not name {node.name} behind <--"
        for name in node.before:
            if name not in nodes:
                yield f"{here} has no {name}, which {node.name} names behind <--"
            elif node.name not in (nodes[name].after or ()):
                yield f"{name} of {here} does not name {node.name} behind -->"
    if apart := sorted(nodes.keys() - _connected(part)):
        yield f"{apart[0]} is not connected with the rest of {here}"


def _connected(part: Part) -> set[str]:
    """Returns the nodes that are connected with the first one by arrows or shared stores."""
    nodes = part.nodes
    seen: set[str] = set()
    open_names = [*nodes][:1]
    while open_names:
        name = open_names.pop()
        if name in nodes and name not in seen:
            seen.add(name)
            node = nodes[name]
            open_names += [
                *node.before,
                *(node.after or ()),
                *(u.name for store in node.stores for u in part.users(store)),
            ]
    return seen


def _missing_parts(parts: Sequence[Part]) -> Iterator[str]:
    """Yields sentence parts on missing subtopologies."""
    numbers = {part.number for part in parts}
    for number in range(max(numbers)):
        if number not in numbers:
            yield f"subtopology {number} is missing"


def _one_sided(parts: Sequence[Part], application_id: str, topics: Collection[str]) -> Iterator[str]:
    """Yields sentence parts on repartition topics with only writers or only readers. A user's topic may have such a
    name, so a topic that exists without the prefix of the application is not reported."""
    written = {topic for part in parts for topic in part.written if named_internal(topic)}
    read = {topic for part in parts for topic in part.read if named_internal(topic)}
    for topic in sorted(written - read):
        writers = [node for part in parts for node in part.sinks.values() if topic in node.topics]
        own = topic in topics and f"{application_id}-{topic}" not in topics
        if created_by_streams(topic, writers, ()) is not False and not own:
            yield f"no subtopology reads {topic}, which {writers[0].name} writes and is named as a repartition topic"
    for topic in sorted(read - written):
        readers = {node.name for part in parts for node in part.sources.values() if topic in node.topics}
        if f"{topic.removesuffix('-topic')}-source" in readers or topic.startswith(("KSTREAM-", "KTABLE-")):
            yield f"no subtopology writes the repartition topic {topic}"


_COMPACT = (("cleanup.policy", "compact"),)
_RETENTION = "<its retention in ms + 86400000>"
_LISTED = "under StateChangelogTopics"


@dataclass(frozen=True, slots=True)
class DescribedSubtopology:
    """A topology from a text, and notes for the user on what the text does not contain."""

    topology: Topology
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    """A description while its topics get their full names. `started`: the application's topics exist in the cluster.
    `plain`, `unknown` and `windowed` list changelogs for the notes."""

    application_id: str
    parts: list[Part]
    topics: Collection[str] | None
    internal: set[str] = field(default_factory=set)
    started: bool = False
    plain: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    windowed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def full(self, topic: str) -> str:
        return f"{self.application_id}-{topic}" if topic in self.internal else topic

    def changelog(self, store: str) -> str:
        return f"{self.application_id}-{store}{CHANGELOG}"

    def exists(self, topic: str) -> bool:
        return self.topics is not None and topic in self.topics


def parse_description(text: str, application_id: str, topics: Collection[str] | None = None) -> DescribedSubtopology:
    """Returns the topology that a description contains. `topics` are all topics of the cluster, None if unknown. Raises
    TopologyError with the number of a line that cannot be read, or with what is missing."""
    described = read_description(text)
    check_whole(described, application_id, topics)
    reading = _Reading(application_id, [part for part in described if part.with_tasks], topics)
    _find_internal(reading)
    changelogs = (reading.changelog(store) for part in reading.parts for store in part.stores)
    reading.started = any(map(reading.exists, (*map(reading.full, reading.internal), *changelogs)))
    subtopologies = tuple([_subtopology(part, reading) for part in reading.parts])
    patterns = tuple((part.number, pattern) for part in reading.parts for pattern in part.patterns)
    plain = tuple(InternalTopic(changelog, configs=_COMPACT) for changelog in reading.plain)
    topology = Topology(application_id, subtopologies, "description", internal_topics=plain, patterns=patterns)
    general = _general(reading, patterns=bool(patterns))
    return DescribedSubtopology(topology, (*general, *reading.notes, *_not_in_the_text(topology, topics or ())))


def _not_in_the_text(topology: Topology, topics: Collection[str]) -> Iterable[str]:
    """Yields a note on existing internal topics that no subtopology of the text has; a text that was cut off after a
    whole subtopology may lack them."""
    prefix, named = f"{topology.application_id}-", {*topology.topics}
    unexpected = sorted(t for t in topics if t.startswith(prefix) and t.endswith((CHANGELOG, REPARTITION)))
    unexpected = [t for t in unexpected if t not in named]
    if unexpected:
        yield (
            f"the text has no store or repartition topic of {', '.join(unexpected)}: an earlier version or another"
            " application has left them, or the text is cut off"
        )


def _find_internal(reading: _Reading) -> None:
    """Determines internal topics from their names, from the nodes that write and read them, and from existing
    topics."""
    written = {topic for part in reading.parts for topic in part.written}
    for topic in sorted({topic for part in reading.parts for topic in part.read if named_internal(topic)}):
        prefixed = f"{reading.application_id}-{topic}"
        if reading.exists(topic) != reading.exists(prefixed):
            reading.internal |= {topic} if reading.exists(prefixed) else set()
        elif topic in written:
            writers = [node for part in reading.parts for node in part.sinks.values() if topic in node.topics]
            readers = [node for part in reading.parts for node in part.readers(topic)]
            created = created_by_streams(topic, writers, readers)
            reading.internal |= {topic} if created is not False else set()
            if created is None:
                reading.notes.append(
                    f"{topic} is taken for the internal topic {prefixed}; if it is a topic of your own, write"
                    f" `- {topic}` under SourceTopics, and remove the other from both lists of repartition topics"
                )
            elif created is False:
                reading.notes.append(
                    f"{topic} is taken for a topic of your own; if Kafka Streams makes it, as versions before 2.5 wrote"
                    f" it, write `- {prefixed}` under RepartitionSourceTopics of its reader and RepartitionSinkTopics"
                    " of its writer instead"
                )


def _subtopology(part: Part, reading: _Reading) -> Subtopology:
    internal = reading.internal
    return Subtopology(
        part.number,
        tuple(sorted({reading.full(t) for t in part.read})),
        repartition_sources=tuple(sorted(reading.full(t) for t in {*part.read} & internal)),
        repartition_sinks=tuple(sorted(reading.full(t) for t in {*part.written} & internal)),
        changelogs=tuple(sorted(set(_existing(part, reading) if reading.started else _supposed(part, reading)))),
        copartition_groups=_groups(part, reading),
    )


def _existing(part: Part, reading: _Reading) -> Iterable[str]:
    """Yields the changelogs of a subtopology if the application's topics exist. If the changelog of a table does not
    exist, its source topic serves as changelog, unless a changelog of another table exists and so shows that this
    application does not do so."""
    tables = [reading.changelog(store) for p in reading.parts for store in p.stores if is_table(p, store)]
    optimized = not any(map(reading.exists, tables))
    here = f"{_LISTED} of subtopology {part.number}"
    for store in part.stores:
        source = substitute(part, store)
        if reading.exists(reading.changelog(store)):
            yield reading.changelog(store)
        elif source is not None and (optimized or not is_table(part, store)):
            yield source
            reading.notes.append(
                f"{reading.changelog(store)} does not exist, so the source topic {source} is taken for the changelog"
                f" of the store {store} (topology.optimization); if that is not logged, remove `- {source}` {here}"
            )
        else:
            reading.notes.append(
                f"{reading.changelog(store)} does not exist, so the store {store} is taken not to be logged; otherwise"
                f" write its changelog {here}"
            )


def _supposed(part: Part, reading: _Reading) -> Iterable[str]:
    """Yields the changelogs of a subtopology if all its stores are logged."""
    for store in part.stores:
        changelog, source = reading.changelog(store), substitute(part, store)
        yield changelog
        kind = kind_of(store, part.users(store))
        lists = {StoreKind.PLAIN: reading.plain, StoreKind.JOIN: reading.windowed, StoreKind.UNKNOWN: reading.unknown}
        lists[kind].append(changelog)
        if source is not None:
            what = "under topology.optimization" if is_table(part, store) else "if the store is read-only"
            reading.notes.append(
                f"{what}, write `- {source}` instead of {changelog} {_LISTED}: the source topic serves"
            )


def _groups(part: Part, reading: _Reading) -> tuple[tuple[str, ...], ...]:
    """Returns the copartition groups, which determine the size of internal topics and whether the application may be
    led."""
    groups: set[tuple[str, ...]] = set()
    for topics, guessed in joined(part):
        groups.add(tuple(sorted(map(reading.full, topics))))
        if guessed:
            named = ", ".join(sorted(map(reading.full, topics)))
            reading.notes.append(
                f"{', '.join(guessed)} of subtopology {part.number} is taken for a join, so that {named} have equally"
                " many partitions; if it only looks into the table, remove the entry of CopartitionGroups"
            )
    return tuple(sorted(groups))


def _general(reading: _Reading, *, patterns: bool) -> Iterable[str]:
    """Yields notes on what the text leaves open about the whole application."""
    if reading.topics is not None and not reading.started and (reading.internal or reading.plain or reading.unknown):
        yield "none of its internal topics exists yet, so this comes from the text alone"
    if not reading.started:
        yield from _kinds(reading)
        sized = sorted(reading.full(topic) for topic in reading.internal if may_be_sized(topic))
        if sized:
            yield f"if repartition() gives it a number of partitions, write Partitions of {', '.join(sized)}"
    for part in reading.parts:
        if part.dynamic:
            yield f"subtopology {part.number} chooses topics at run time, so not all of its sinks are known"
    if not reading.started:
        last = max(part.number for part in reading.parts)
        yield f"the text ends with subtopology {last}; compare this number, because the rest may be cut off"
    if patterns:
        yield "pattern sources get their topics from what members subscribe to"


def _kinds(reading: _Reading) -> Iterable[str]:
    """Yields notes on changelogs whose names do not show how they are kept."""
    if reading.unknown:
        yield (
            "what these stores are the text does not say, and until the file does, a Java member has to make their"
            f" topics: {', '.join(reading.unknown)}"
        )
        yield "for a key-value store write, instead of NAME, `- {Name: NAME, TopicConfigs: {cleanup.policy: compact}}`"
        for what, policy in (("windows or sessions", "'compact,delete'"), ("windows with duplicates", "delete")):
            configs = f"cleanup.policy: {policy}, retention.ms: {_RETENTION}"
            yield f"for {what} `- {{Name: NAME, TopicConfigs: {{{configs}}}}}`"
        yield (
            "for a versioned store `- {Name: NAME, TopicConfigs: {cleanup.policy: compact, min.compaction.lag.ms:"
            " <its history retention in ms + 86400000>}}`"
        )
    for changelog in reading.windowed:
        yield (
            f"for the join of two streams write, instead of {changelog}, `- {{Name: {changelog}, TopicConfigs:"
            " {cleanup.policy: delete, retention.ms: <before + after + grace in ms + 86400000>}}`"
        )
    if reading.plain or reading.unknown or reading.windowed:
        yield "all stores are taken to be logged: remove the changelogs of those that are not, add configs of your own"
