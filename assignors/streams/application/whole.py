"""Checks that the text of `Topology.describe()` is complete. Kafka Streams writes each connection at both of its
ends, numbers subtopologies from 0 without gaps, connects all nodes of a subtopology, and reads every repartition
topic that it writes. If one of these does not hold, lines are missing
(docs/reference/topology-file.md#what-a-description-shows)."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from bellwether_kafka.assignors.streams.application.description import Part
from bellwether_kafka.assignors.streams.application.stores import created_by_streams, named_internal
from bellwether_kafka.assignors.streams.application.topology import TopologyError

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
