"""The text of `Topology.describe()` as nodes: sources, processors and sinks of each subtopology, and which precede
which (docs/reference/streams.md#the-topology-is-not-on-the-wire). `topology_text` interprets them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from bellwether_kafka.assignors.streams.application.topology import TopologyError, legal_topic

_HEADER = re.compile(r"Topologies:\s*")
_SUBTOPOLOGY = re.compile(r"\s*Sub-topology: (\d+)( for global store \(will not generate tasks\))?\s*")
_SOURCE = re.compile(r"\s*Source: (.*) \(topics: (.*)\)\s*")
_PROCESSOR = re.compile(r"\s*Processor: (.*) \(stores: \[(.*)\]\)\s*")
_SINK = re.compile(r"\s*Sink: (.*) \((?:topic: (.*)|extractor class: .*)\)\s*")
_BEFORE = re.compile(r"\s*<-- ?(.*)")
_AFTER = re.compile(r"\s*--> ?.*")


@dataclass(slots=True)
class Node:
    """One line of the text. `topics` are those that a source reads or a sink writes, without the application id;
    `pattern` is a source's regular expression, `stores` a processor's; `before` are the nodes that feed it."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    stores: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


@dataclass(slots=True)
class Part:
    """One subtopology, by the names in the text. `dynamic`: some sink chooses its topic at run time."""

    number: int
    sources: dict[str, Node] = field(default_factory=dict)
    processors: dict[str, Node] = field(default_factory=dict)
    sinks: dict[str, Node] = field(default_factory=dict)
    dynamic: bool = False

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

    def users(self, store: str) -> list[Node]:
        """The processors that this store is connected with."""
        return [node for node in self.processors.values() if store in node.stores]

    def readers(self, topic: str) -> list[Node]:
        """The processors right behind the sources of this topic."""
        sources = {node.name for node in self.sources.values() if topic in node.topics}
        return [node for node in self.processors.values() if sources & {*node.before}]

    def feeds(self, node: Node) -> bool:
        """Whether some node follows this one."""
        followers: Iterable[Node] = (*self.processors.values(), *self.sinks.values())
        return any(node.name in follower.before for follower in followers)

    def topics_behind(self, node: Node) -> set[str]:
        """The topics of all sources that records of this node may come from."""
        seen: set[str] = set()
        open_names = [node.name]
        while open_names:
            name = open_names.pop()
            if name not in seen:
                seen.add(name)
                open_names += self.processors[name].before if name in self.processors else ()
        return {topic for name in seen & self.sources.keys() for topic in self.sources[name].topics}


def read_description(text: str) -> list[Part]:
    """The subtopologies that have tasks. Raises TopologyError with the number of a line that cannot be read."""
    parts: list[Part] = []
    current: Part | None = None
    last: Node | None = None
    for number, line in enumerate(text.splitlines(), 1):
        before = _BEFORE.fullmatch(line)
        if before and last is not None:
            last.before = tuple(name.strip() for name in before[1].split(",") if name.strip())
        if before or not line.strip() or _HEADER.fullmatch(line) or _AFTER.fullmatch(line):
            continue
        begins = _SUBTOPOLOGY.fullmatch(line)
        if begins:
            current = Part(int(begins[1]))
            if not begins[2]:
                parts.append(current)
            continue
        last = _node(current, line) if current is not None else None
        if last is None:
            raise TopologyError(f"line {number} is nothing that Topology.describe() writes: {line.strip()[:80]!r}")
    if not parts:
        raise TopologyError("the description has no subtopology with tasks")
    return [part for part in parts if part.sources]


def _node(part: Part, line: str) -> Node | None:
    if source := _SOURCE.fullmatch(line):
        names = _names(source[2])
        return part.sources.setdefault(source[1], Node(source[1], names, "" if names else source[2]))
    if processor := _PROCESSOR.fullmatch(line):
        stores = tuple(store.strip() for store in processor[2].split(",") if store.strip())
        return part.processors.setdefault(processor[1], Node(processor[1], stores=stores))
    if sink := _SINK.fullmatch(line):
        part.dynamic |= not sink[2]
        return part.sinks.setdefault(sink[1], Node(sink[1], (sink[2],) if sink[2] else ()))
    return None


def _names(text: str) -> tuple[str, ...]:
    """The topics of a list such as "[a, b]"; nothing for a regular expression."""
    if not (text.startswith("[") and text.endswith("]")):
        return ()
    names = tuple(name.strip() for name in text[1:-1].split(","))
    return names if all(map(legal_topic, names)) else ()
