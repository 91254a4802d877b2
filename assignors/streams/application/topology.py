"""The parts of a Streams application that are not on the wire: subtopologies, their topics and their stores.

A leader without the application's classes reads them from a file, a description or a live group
(docs/internals/streams.md#the-topology-is-not-on-the-wire). To lead a group, it must know:

* every subtopology that has tasks, with all source topics (for a pattern, the topics that members see now);
* every changelog, with its subtopology. A client sums the offsets of all stores of a task, so one missing changelog
  makes every lag wrong, and a subtopology without changelogs counts as stateless. If learning could not determine the
  subtopology of a changelog (`undecided`), the group is not led until that is settled;
* repartition sinks, copartition groups and configs of internal topics, only if a missing topic is to be created.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from bellwether_kafka.assignors.streams.application.java_pattern import PatternError, translated
from bellwether_kafka.assignors.streams.application.task_views import Subtopology
from bellwether_kafka.protocol.primitives import is_topic_name

LEARNED = "learned"
GUESSED = "guessed"  # learned, where one of several possible assignments of changelogs was chosen
_LISTED = 5


class TopologyError(ValueError):
    """Raised for a topology that contradicts itself or the group. The message names the subtopology or topic."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """How to create an internal topic. `partitions` None: derived; `replication_factor` -1: the broker's default."""

    name: str
    partitions: int | None = None
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """What only the exporter provides: the version of Kafka Streams, a digest of the file, and the names of the stores
    that a member keeps only in memory, including suppression buffers."""

    streams_version: str
    digest: str
    in_memory_stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """A whole application. Raises TopologyError if it contradicts itself.

    `source` is its origin ("file", "description", "learned"). `patterns` are (subtopology id, Java's regular
    expression) of pattern sources, whose topics are taken from what members subscribe to. `internal_topics` has what is
    configured for internal topics. `undecided` are changelogs whose subtopology is unknown. `exported` is set if the
    application itself wrote the file. A pattern in a copartition group means the topics that it matches.
    """

    application_id: str
    subtopologies: tuple[Subtopology, ...]
    source: str
    internal_topics: tuple[InternalTopic, ...] = ()
    patterns: tuple[tuple[int, str], ...] = ()
    undecided: tuple[str, ...] = ()
    exported: Exported | None = None
    subtopology_of: Mapping[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subtopologies", tuple(sorted(self.subtopologies, key=lambda s: s.id)))
        _check(self)
        owners = {topic: s.id for s in self.subtopologies for topic in s.sources}
        object.__setattr__(self, "subtopology_of", owners)

    @property
    def digest(self) -> str:
        """A fingerprint of what determines placement. It ignores the source, who writes which topics, and the topics of
        patterns."""
        shape = [
            (s.id, sorted(t for t in s.sources if not self.fits_pattern(t)), sorted(s.changelogs))
            for s in self.subtopologies
        ]
        text = repr((self.application_id, shape, sorted(self.patterns), sorted(self.undecided)))
        return blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def summary(self) -> str:
        """A short description of the topology."""
        origin = f", exported by Kafka Streams {self.exported.streams_version}" if self.exported is not None else ""
        count = len(self.subtopologies)
        return f"{count} subtopolog{'y' if count == 1 else 'ies'}, digest {self.digest}{origin}"

    @property
    def stateful(self) -> frozenset[int]:
        """Ids of the subtopologies with changelogs."""
        return frozenset(s.id for s in self.subtopologies if s.stateful)

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics that every member subscribes to, sorted: with repartition topics, without global ones."""
        return tuple(sorted(self.subtopology_of))

    @property
    def repartition_topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for s in self.subtopologies for topic in s.repartition_sources}))

    @property
    def changelogs(self) -> tuple[str, ...]:
        return tuple(sorted({topic for s in self.subtopologies for topic in s.changelogs}))

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics whose metadata a leader reads."""
        return tuple(sorted({*self.source_topics, *self.changelogs, *self.undecided}))

    @property
    def obstacle(self) -> str:
        """Why no application can be led with this file and what to write instead, as a sentence part; "" if there is no
        reason."""
        if not self.undecided:
            return ""
        listed = ", ".join(self.undecided)
        return (
            "move each of these from UndecidedChangelogTopics to StateChangelogTopics of its subtopology, or remove it"
            f" if the application has no such store: {listed}"
        )

    def find(self, subtopology_id: int) -> Subtopology | None:
        return next((s for s in self.subtopologies if s.id == subtopology_id), None)

    def internal(self, topic: str) -> InternalTopic | None:
        """Returns how to create this topic, None if the topology does not say."""
        return next((t for t in self.internal_topics if t.name == topic), None)

    def fits_pattern(self, topic: str) -> tuple[int, ...]:
        """Returns the subtopologies with a pattern that this topic matches."""
        return tuple(sorted({s for s, pattern in self.patterns if translated(pattern).fullmatch(topic)}))

    def found_by_members(self, topic: str) -> bool:
        """Returns whether members subscribe to this topic even before they list it. If sources include a pattern,
        Streams subscribes to all of them by one large pattern, and a member only lists topics that it has already
        found, not ones just created."""
        return bool(self.patterns) and (topic in self.repartition_topics or bool(self.fits_pattern(topic)))

    def resolved(self, subscribed: Iterable[str]) -> "Topology":
        """Returns the topology with pattern topics added from what members subscribe to. Raises TopologyError."""
        added: dict[int, list[str]] = {}
        for topic in sorted(set(subscribed) - self.subtopology_of.keys()):
            owners = self.fits_pattern(topic)
            if len(owners) > 1:
                named = " and ".join(map(str, owners))
                raise TopologyError(f"topic {topic} matches the patterns of subtopologies {named}")
            if owners:
                added.setdefault(owners[0], []).append(topic)
        if not added:
            return self
        grown = [self._grown(s, added) for s in self.subtopologies]
        return replace(self, subtopologies=tuple(grown))

    def _grown(self, subtopology: Subtopology, added: Mapping[int, Sequence[str]]) -> Subtopology:
        """Adds topics that match patterns: the subtopology's own, and those of patterns in its copartition groups."""
        patterns = {pattern for _, pattern in self.patterns}
        topics = [topic for matching in added.values() for topic in matching]

        def grown(group: tuple[str, ...]) -> tuple[str, ...]:
            within = [translated(pattern) for pattern in patterns & {*group}]
            return tuple(sorted({*group} - patterns | {t for t in topics if any(p.fullmatch(t) for p in within)}))

        groups = tuple(grown(group) for group in subtopology.copartition_groups)
        sources = (*subtopology.sources, *added.get(subtopology.id, ()))
        return replace(subtopology, sources=sources, copartition_groups=groups)

    def differences(self, subscribed: Iterable[str]) -> tuple[str, ...]:
        """Returns how one member's subscription contradicts this topology, as sentence parts; () if they agree. A
        member may lack a pattern topic (it has not found it yet) or still list one that was deleted."""
        theirs = set(subscribed)
        extra = sorted(t for t in theirs - self.subtopology_of.keys() if not self.fits_pattern(t))
        lacking = [t for t in self.source_topics if t not in theirs and not self.found_by_members(t)]
        differences = [f"topic {t} belongs to no subtopology" for t in extra[:_LISTED]]
        differences += [
            f"topic {t} of subtopology {self.subtopology_of[t]} is not subscribed" for t in lacking[:_LISTED]
        ]
        return tuple(differences)


def _check(topology: Topology) -> None:
    seen: dict[str, int] = {}
    ids: set[int] = set()
    for subtopology in topology.subtopologies:
        if subtopology.id < 0 or subtopology.id in ids:
            raise TopologyError(f"subtopology {subtopology.id} is there twice or negative")
        ids.add(subtopology.id)
        for topic in subtopology.sources:
            if topic in seen:
                raise TopologyError(f"topic {topic} is a source of subtopologies {seen[topic]} and {subtopology.id}")
            seen[topic] = subtopology.id
    for subtopology in topology.subtopologies:
        _check_one(subtopology, seen, {i for i, _ in topology.patterns})
    stores: dict[str, int] = {}
    for subtopology in topology.subtopologies:
        for topic in subtopology.changelogs:
            if stores.setdefault(topic, subtopology.id) != subtopology.id:
                raise TopologyError(f"changelog {topic} belongs to subtopologies {stores[topic]} and {subtopology.id}")
    _check_patterns(topology, ids)


def _check_one(subtopology: Subtopology, sources: Mapping[str, int], with_pattern: set[int]) -> None:
    here = f"subtopology {subtopology.id}"
    if not subtopology.sources and subtopology.id not in with_pattern:
        raise TopologyError(f"{here} has no source topic")
    if not set(subtopology.repartition_sources) <= set(subtopology.sources):
        raise TopologyError(f"{here} has a repartition source that is not among its sources")
    topics = (*subtopology.sources, *subtopology.repartition_sinks, *subtopology.changelogs)
    for topic in topics:
        if not is_topic_name(topic):
            raise TopologyError(f"{here} names {topic!r}, which is no legal topic name")
    for group in subtopology.copartition_groups:
        unknown = sorted(set(group) - sources.keys())  # for `cogroup` a group has topics of several subtopologies
        if unknown and subtopology.id not in with_pattern:
            raise TopologyError(f"{here} has a copartition group with {unknown[0]}, which no subtopology reads")


def _check_patterns(topology: Topology, ids: set[int]) -> None:
    for subtopology_id, pattern in topology.patterns:
        if subtopology_id not in ids:
            raise TopologyError(f"pattern {pattern!r} belongs to subtopology {subtopology_id}, which is not there")
        try:
            translated(pattern)
        except PatternError as error:
            message = f"pattern {pattern!r} of subtopology {subtopology_id} cannot be read: {error}"
            raise TopologyError(message) from error
