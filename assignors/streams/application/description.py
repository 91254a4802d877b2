"""Reads the text of `Topology.describe()` as nodes: the sources, processors and sinks of each subtopology, and their
order (docs/internals/streams.md#the-topology-is-not-on-the-wire). `topology_text` interprets them.

Incomplete texts are refused: `whole.py` compares the arrows with the nodes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

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
