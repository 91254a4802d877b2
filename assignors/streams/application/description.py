"""Reads the text of `Topology.describe()` as nodes: the sources, processors and sinks of each subtopology, and their
order (docs/internals/streams.md#the-topology-is-not-on-the-wire). `topology_text` interprets them.

Incomplete texts are refused: `whole.py` compares the arrows with the nodes.

Interprets names in a description that Streams generates for stores and topics: which topics are internal, how a
changelog is kept, which source topic may serve as one (docs/reference/topology-file.md#what-a-description-shows). Names
that the application chose carry no such information; then the user has to provide it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bellwether_kafka.assignors.streams.application.topology import TopologyError
from bellwether_kafka.protocol.primitives import is_topic_name

_HEADER = re.compile(r"\s*Topologies:\s*")
_NAMED = re.compile(r"\s*Topology: (.+):\s*")
_SUBTOPOLOGY = re.compile(r"\s*Sub-topology: (\d+)( for global store \(will not generate tasks\))?\s*")
_SOURCE = re.compile(r"\s*Source: (.*) \(topics: (.*)\)\s*")
_PROCESSOR = re.compile(r"\s*Processor: (.*) \(stores: \[(.*)\]\)\s*")
_SINK = re.compile(r"\s*Sink: (.*) \((?:topic: (.*)|extractor class: .*)\)\s*")
_BEFORE = re.compile(r"\s*<-- ?(.*)")
_AFTER = re.compile(r"\s*--> ?(.*)")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(slots=True)
class TopologyNode:
    """One node line of the text. `topics` are those that a source reads or a sink writes, without the application id.
    `pattern` is a source's regular expression, `stores` are a processor's. `before` are the nodes that feed it, `after`
    those that it feeds, None if the text has no such line."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    stores: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] | None = None


@dataclass(slots=True)
class Part:
    """One subtopology, with names as in the text. `dynamic`: a sink chooses its topic at run time. `with_tasks`: it is
    not a global store."""

    number: int
    with_tasks: bool = True
    sources: dict[str, TopologyNode] = field(default_factory=dict)
    processors: dict[str, TopologyNode] = field(default_factory=dict)
    sinks: dict[str, TopologyNode] = field(default_factory=dict)
    dynamic: bool = False

    @property
    def nodes(self) -> dict[str, TopologyNode]:
        """All nodes by name."""
        return self.sources | self.processors | self.sinks

    @property
    def read(self) -> list[str]:
        return [topic for node in self.sources.values() for topic in node.topics]

    @property
    def written(self) -> list[str]:
        return [topic for node in self.sinks.values() for topic in node.topics]

    @property
    def stores(self) -> list[str]:
        return sorted({store for node in self.processors.values() for store in node.stores})

    @property
    def patterns(self) -> list[str]:
        return [node.pattern for node in self.sources.values() if node.pattern]

    def users(self, store: str) -> list[TopologyNode]:
        """Returns the processors that are connected with this store."""
        return [node for node in self.processors.values() if store in node.stores]

    def readers(self, topic: str) -> list[TopologyNode]:
        """Returns the processors directly after the sources of this topic."""
        sources = {node.name for node in self.sources.values() if topic in node.topics}
        return [node for node in self.processors.values() if sources & {*node.before}]

    def feeds(self, node: TopologyNode) -> bool:
        """Returns whether a node follows this one."""
        followers: Iterable[TopologyNode] = (*self.processors.values(), *self.sinks.values())
        return any(node.name in follower.before for follower in followers)

    def topics_behind(self, node: TopologyNode) -> set[str]:
        """Returns the topics of all sources from which records can reach this node."""
        seen: set[str] = set()
        open_names = [node.name]
        while open_names:
            name = open_names.pop()
            if name not in seen:
                seen.add(name)
                open_names += self.processors[name].before if name in self.processors else ()
        return {topic for name in seen & self.sources.keys() for topic in self.sources[name].topics}


def read_description(text: str) -> list[Part]:
    """Returns all subtopologies, including those of global stores. Raises TopologyError with the number of a line that
    cannot be read. Does not check whether the text is complete."""
    parts: list[Part] = []
    last: TopologyNode | None = None
    for number, line in enumerate(text.removeprefix(BYTE_ORDER_MARK).splitlines(), 1):
        if not line.strip() or _HEADER.fullmatch(line):
            continue
        if named := _NAMED.fullmatch(line):
            raise TopologyError(f"line {number} is of the named topology {named[1]!r}, and these are not led")
        if begins := _SUBTOPOLOGY.fullmatch(line):
            parts.append(Part(int(begins[1]), with_tasks=not begins[2]))
            last = None
        elif not _add_arrow(last, line):
            last = _node(parts[-1], line) if parts else None
            if last is None:
                raise TopologyError(f"line {number} is nothing that Topology.describe() writes: {line.strip()[:80]!r}")
    return parts


def _add_arrow(node: TopologyNode | None, line: str) -> bool:
    """Adds an arrow line to its node. Returns whether the line is an arrow line."""
    before, after = _BEFORE.fullmatch(line), _AFTER.fullmatch(line)
    arrow = before or after
    linked = _linked(arrow[1]) if arrow else None
    if node is None or linked is None:
        return False
    if before:
        node.before = linked
    else:
        node.after = linked
    return True


def _linked(text: str) -> tuple[str, ...] | None:
    """Returns the nodes of an arrow line, None if a name is missing. Streams writes "none" if there are no nodes."""
    names = tuple(name.strip() for name in text.split(","))
    if names == ("none",):
        return ()
    return names if all(names) else None


def _node(part: Part, line: str) -> TopologyNode | None:
    """Returns the node that a line describes, None if it describes none. Raises TopologyError if the subtopology
    already has it."""
    if source := _SOURCE.fullmatch(line):
        names = _names(source[2])
        return _added(part, part.sources, TopologyNode(source[1], names, "" if names else source[2]))
    if processor := _PROCESSOR.fullmatch(line):
        stores = tuple(store.strip() for store in processor[2].split(",") if store.strip())
        return _added(part, part.processors, TopologyNode(processor[1], stores=stores))
    if sink := _SINK.fullmatch(line):
        part.dynamic |= not sink[2]
        return _added(part, part.sinks, TopologyNode(sink[1], (sink[2],) if sink[2] else ()))
    return None


def _added(part: Part, nodes: dict[str, TopologyNode], node: TopologyNode) -> TopologyNode:
    if node.name in part.nodes:
        raise TopologyError(f"node {node.name} of subtopology {part.number} is there twice")
    nodes[node.name] = node
    return node


def _names(text: str) -> tuple[str, ...]:
    """Returns the topics of a list such as "[a, b]", () for a regular expression."""
    if not (text.startswith("[") and text.endswith("]")):
        return ()
    names = tuple(name.strip() for name in text[1:-1].split(","))
    return names if all(map(is_topic_name, names)) else ()


CHANGELOG, REPARTITION = "-changelog", "-repartition"  # what the names of internal topics end with
_NUMBER = r"-\d{10}"
_INTERNAL = re.compile(
    rf".+-repartition|.+-subscription-(registration|response)-topic"
    rf"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE){_NUMBER}-topic"
)
_NUMBERED_TOPIC = re.compile(rf".*{_NUMBER}-(repartition|topic)")
_MAYBE_SIZED = re.compile(rf"(?!.*{_NUMBER}-).+-repartition|KSTREAM-REPARTITION{_NUMBER}-repartition")
_NUMBERED_STORE = re.compile(rf"(?!KSTREAM-AGGREGATE|KSTREAM-REDUCE|COGROUPKSTREAM-).+-STATE-STORE{_NUMBER}")
_PLAIN_STORE = re.compile(
    rf"KSTREAM-OUTERSHARED{_NUMBER}-store|.+-(left|outer)-shared-join-store|(KSTREAM-.*JOIN{_NUMBER}|.+)-Buffer"
)
_JOIN_STORE = re.compile(
    rf"KSTREAM-(JOIN|OUTER)(THIS|OTHER){_NUMBER}-store|.+-(this|other)-join-store|.+-(this|other)-windowed"
)
_SUBSCRIPTION = re.compile(r"(.+)-subscription-receive")
_TABLE = re.compile(rf"KTABLE-SOURCE{_NUMBER}|.+-table-source")
# Custom processors are connected with the stores that they request, which implies nothing about copartitioning.
_CUSTOM_CODE = re.compile(rf"KSTREAM-(PROCESSOR|PROCESSVALUES|TRANSFORM|TRANSFORMVALUES|FLATTRANSFORM.*){_NUMBER}")
_DSL = re.compile(
    rf"(KSTREAM|KTABLE)-.*{_NUMBER}|.+-(this|other)-(windowed|join)|.+-join-(this|other)"
    r"|.+-subscription-(receive|join-foreign|response-resolver)|.+-foreign-join-subscription|.+-table-source"
)


class StoreKind(StrEnum):
    """How the changelog of a store is kept, as far as names show. JOIN: windowed, of a join of two streams."""

    PLAIN = "plain"
    JOIN = "join"
    UNKNOWN = "unknown"


def named_internal(name: str) -> bool:
    """Returns whether an internal topic other than a changelog may have this name (without the application id)."""
    return _INTERNAL.fullmatch(name) is not None


def created_by_streams(topic: str, writers: Sequence[TopologyNode], readers: Sequence[TopologyNode]) -> bool | None:
    """Returns whether Streams created a topic with such a name that the application itself writes, None if undecided.
    For topics that Streams created, nodes carry the topic's name, or the topic has a number, except for a table that is
    regrouped. Before 2.5 the nodes of named topics had numbers too; then the store behind it may have its name."""
    if _NUMBERED_TOPIC.fullmatch(topic) or any(node.name == f"{topic.removesuffix('-topic')}-sink" for node in writers):
        return True
    if any(node.name.startswith(("KTABLE-AGGREGATE-", "KTABLE-REDUCE-")) for node in readers):
        return True
    if any(f"{store}-repartition" == topic for node in readers for store in node.stores):
        return None
    return False if readers and all(node.name.startswith("KSTREAM-") for node in readers) else None


def may_be_sized(topic: str) -> bool:
    """Returns whether this topic may come from `repartition`, which accepts a partition count that no text shows."""
    return _MAYBE_SIZED.fullmatch(topic) is not None


def kind_of(store: str, users: Sequence[TopologyNode]) -> StoreKind:
    """Returns the kind of a store. `users` are the processors connected with it."""
    names = [store, *(node.name for node in users)]
    if _PLAIN_STORE.fullmatch(store) or _NUMBERED_STORE.fullmatch(store):
        return StoreKind.PLAIN
    if any(match[1] + "-subscription-store" == store for name in names if (match := _SUBSCRIPTION.fullmatch(name))):
        return StoreKind.PLAIN
    return StoreKind.JOIN if _JOIN_STORE.fullmatch(store) else StoreKind.UNKNOWN


def substitute(part: Part, store: str) -> str | None:
    """Returns the source topic that may serve as the changelog of this store: that of a table under
    topology.optimization, or that of a read-only store, whose processor forwards nothing."""
    users = part.users(store)
    for node in users:
        topics = [t for name in node.before if name in part.sources for t in part.sources[name].topics]
        fills = len(node.before) == len(topics) == 1 and set(node.before) <= part.sources.keys()
        own_name = not node.name.startswith("KSTREAM-")
        if fills and (_TABLE.fullmatch(node.name) or (own_name and not part.feeds(node) and len(users) > 1)):
            return topics[0]
    return None


def is_table(part: Part, store: str) -> bool:
    """Returns whether this store belongs to a table that is read from a topic."""
    return any(_TABLE.fullmatch(node.name) for node in part.users(store))


def joined(part: Part) -> list[tuple[set[str], list[str]]]:
    """Returns (topics that must have equal partition counts, processors that only may take part) per group, with names
    as in the text. Topics are in one group if they meet in a store, directly or through other topics of the group.
    Custom processors may share a store too, without that rule."""
    groups: list[tuple[set[str], list[str]]] = []
    for store in part.stores:
        users = [node for node in part.users(store) if not _CUSTOM_CODE.fullmatch(node.name)]
        behind = {node.name: part.topics_behind(node) for node in users}
        of_dsl = {n for n, topics in behind.items() if _DSL.fullmatch(n) or f"{n}-repartition" in topics}
        topics = set().union(*behind.values())
        if not of_dsl or len(users) < 2 or len(topics) < 2:
            continue
        produced = set().union(*(behind[name] for name in of_dsl))
        # sure, because the join created one of the topics
        sure = topics == produced or any(f"{name}-repartition" in behind[name] for name in of_dsl)
        guessed = [] if sure else sorted(behind.keys() - of_dsl)
        for other in [group for group in groups if group[0] & topics]:
            groups.remove(other)
            topics, guessed = topics | other[0], guessed + other[1]
        groups.append((topics, guessed))
    return groups
