"""Topology files: the KIP-1071 shape as YAML, which includes JSON. They are read strictly and written so that a user
can add what learning or parsing could not find out (docs/reference/topology-file.md#the-format).

Partitions 0 and ReplicationFactor 0 or -1 mean "not set", as in the KIP. A topic may be written as its bare name.
"""

import hashlib
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bellwether_kafka.assignors.streams.application import Exported, InternalTopic, Subtopology, Topology, TopologyError
from bellwether_kafka.bounded import OutsideTextError, read_file, yaml_of
from bellwether_kafka.protocol.primitives import whole_number

SOURCES, PATTERNS, SINKS = "SourceTopics", "SourceTopicRegex", "RepartitionSinkTopics"
REPARTITION, CHANGELOGS, COPARTITION = "RepartitionSourceTopics", "StateChangelogTopics", "CopartitionGroups"
APPLICATION, SUBTOPOLOGIES, ID = "ApplicationId", "Subtopologies", "SubtopologyId"
UNDECIDED = "UndecidedChangelogTopics"
VERSION, DIGEST, IN_MEMORY = "StreamsVersion", "Digest", "InMemoryStores"  # of an exported file
DIGEST_CHARS = 32
FILE_BYTES_MAX = 10_000_000
_TOPIC_FIELDS = ("Name", "Partitions", "ReplicationFactor", "TopicConfigs")

_SHORT = reprlib.Repr()  # YAML aliases can turn a few lines into a value of any size
_SHORT.maxlevel = 2


def load_topology(path: Path) -> Topology:
    """Reads a file. Raises TopologyError with one sentence that names the file."""
    try:
        return read_topology(read_file(path, FILE_BYTES_MAX).decode("utf-8-sig"))
    except OSError as error:
        raise TopologyError(f"The topology file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise TopologyError(f"The topology file {path} is no text in UTF-8; save it as one.") from None
    except TopologyError as error:
        raise TopologyError(f"The topology file {path} cannot be used: {error}.") from error


def read_topology(text: str) -> Topology:
    """Reads the text of a file. Raises TopologyError."""
    try:
        document = yaml_of(text)
    except OutsideTextError as error:
        raise TopologyError(str(error)) from None
    top = _mapping(document, "the file", (APPLICATION, VERSION, IN_MEMORY, DIGEST, SUBTOPOLOGIES, UNDECIDED))
    application_id = top.get(APPLICATION)
    if not isinstance(application_id, str) or not application_id:
        raise TopologyError(f"{APPLICATION} is missing")
    internal: dict[str, InternalTopic] = {}
    patterns: list[tuple[int, str]] = []
    parts = tuple([_subtopology(part, internal, patterns) for part in _list(top, SUBTOPOLOGIES, "the file")])
    if not parts:
        raise TopologyError(
            f"{SUBTOPOLOGIES} is missing or empty: an application has at least one, so the file was cut off"
        )
    undecided = tuple([_topic(item, UNDECIDED, internal) for item in _list(top, UNDECIDED, "the file")])
    return Topology(
        application_id,
        parts,
        "file",
        internal_topics=tuple(internal.values()),
        patterns=tuple(patterns),
        undecided=undecided,
        exported=_exported(top, text),
    )


def write_topology(topology: Topology, notes: Sequence[str] = ()) -> str:
    """Returns the text of a file that reads back as this topology. `notes` become comments at its head."""
    document = {
        APPLICATION: topology.application_id,
        SUBTOPOLOGIES: [_document(subtopology, topology) for subtopology in topology.subtopologies],
        UNDECIDED: [_topic_document(t, topology) for t in topology.undecided],
    }
    import yaml  # noqa: PLC0415 - most processes write no topology, and the import takes 2 % of the start

    head = "".join(f"# {note}\n" for note in notes)
    return head + str(yaml.safe_dump(document, sort_keys=False, width=120))


def _exported(top: Mapping[str, Any], text: str) -> Exported | None:
    """Returns the part that only the exporter writes, None if there is none. Its digest reveals edits and truncated
    files. Raises TopologyError if the digest is wrong."""
    if DIGEST not in top:
        return None
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for line in lines if line and not line.lstrip().startswith("#") and not line.startswith(f"{DIGEST}:")]
    digest = hashlib.sha256("\n".join(kept).encode()).hexdigest()[:DIGEST_CHARS]
    if str(top[DIGEST]) != digest:
        raise TopologyError(
            f"its {DIGEST} is not that of its lines, so it was edited or lacks some; export it again, or remove the"
            f" line {DIGEST} to use it as it is"
        )
    return Exported(str(top.get(VERSION, "")), digest, tuple(_texts(top, IN_MEMORY, "the file")))


def _subtopology(value: object, internal: dict[str, InternalTopic], patterns: list[tuple[int, str]]) -> Subtopology:
    fields = (ID, SOURCES, PATTERNS, REPARTITION, SINKS, CHANGELOGS, COPARTITION)
    part = _mapping(value, "a subtopology", fields)
    number = _number(part.get(ID))
    here = f"subtopology {number}"
    sources, regexes = _texts(part, SOURCES, here), _texts(part, PATTERNS, here)
    patterns += [(number, pattern) for pattern in regexes]
    repartition = [_topic(item, here, internal) for item in _list(part, REPARTITION, here)]
    return Subtopology(
        number,
        (*sources, *repartition),
        repartition_sources=tuple(repartition),
        repartition_sinks=tuple(_texts(part, SINKS, here)),
        changelogs=tuple(dict.fromkeys(_topic(item, here, internal) for item in _list(part, CHANGELOGS, here))),
        copartition_groups=tuple(
            [_group(item, here, sources, regexes, repartition) for item in _list(part, COPARTITION, here)]
        ),
    )


def _number(value: object) -> int:
    number = None if isinstance(value, bool | list | dict) else whole_number(str(value))
    if number is None:
        raise TopologyError(f"{ID} is {_SHORT.repr(value)}, which is no number")
    return number


def _topic(value: object, here: str, internal: dict[str, InternalTopic]) -> str:
    """Returns the name of an internal topic. Adds its settings, if any, to `internal`."""
    if isinstance(value, str):
        return value
    item = _mapping(value, f"a topic of {here}", _TOPIC_FIELDS)
    name = item.get("Name")
    if not isinstance(name, str):
        raise TopologyError(f"a topic of {here} has no Name")
    partitions, factor = (_whole(item.get(key, 0), f"{key} of {name}") for key in ("Partitions", "ReplicationFactor"))
    configs = _configs(item.get("TopicConfigs") or (), name)
    described = InternalTopic(name, partitions if partitions > 0 else None, factor or -1, configs)
    if internal.setdefault(name, described) != described:
        raise TopologyError(f"topic {name} is described twice, and differently")
    return name


def _configs(value: object, name: str) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _text(item, f"{key} of {name}")) for key, item in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        pairs = [_mapping(item, f"a config of {name}", ("Key", "Value")) for item in value]
        return tuple(sorted((str(pair.get("Key")), _text(pair.get("Value"), f"Value of {name}")) for pair in pairs))
    raise TopologyError(f"TopicConfigs of {name} are neither a list nor a mapping")


def _text(value: object, what: str) -> str:
    """Returns a config value as text, as Kafka expects it; YAML reads some as booleans."""
    if not isinstance(value, str | bool | int | float):
        raise TopologyError(f"{what} is {_SHORT.repr(value)}, which is no value of a config; write it as one text")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _whole(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < -1:
        raise TopologyError(f"{what} is {_SHORT.repr(value)}, which is no number")
    return value


def _group(
    value: object, here: str, sources: Sequence[str], regexes: Sequence[str], repartition: Sequence[str]
) -> tuple[str, ...]:
    """Returns the topics of a copartition group, which the KIP writes as indexes into the lists beside it."""
    group = _mapping(value, f"a copartition group of {here}", (SOURCES, PATTERNS, REPARTITION))
    lists = (SOURCES, sources), (PATTERNS, regexes), (REPARTITION, repartition)
    return tuple(sorted(_named(item, names, here) for key, names in lists for item in _list(group, key, here)))


def _named(item: object, names: Sequence[str], here: str) -> str:
    if isinstance(item, int) and not isinstance(item, bool):
        if not 0 <= item < len(names):
            raise TopologyError(f"a copartition group of {here} has index {item} of {len(names)} topics")
        return names[item]
    return str(item)


def _mapping(value: object, what: str, keys: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TopologyError(f"{what} is not a mapping of {', '.join(keys)}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise TopologyError(f"{what} has the unknown key {unknown[0]}; known are {', '.join(keys)}")
    return value


def _list(part: Mapping[str, Any], key: str, here: str) -> Sequence[object]:
    value = part.get(key)
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TopologyError(f"{key} of {here} is not a list")
    return value


def _texts(part: Mapping[str, Any], key: str, here: str) -> list[str]:
    items = _list(part, key, here)
    if not all(isinstance(item, str) for item in items):
        raise TopologyError(f"{key} of {here} is not a list of names")
    return [str(item) for item in items]


def _document(subtopology: Subtopology, topology: Topology) -> dict[str, Any]:
    sources = [t for t in subtopology.sources if t not in subtopology.repartition_sources]
    repartition = list(subtopology.repartition_sources)
    regexes = [pattern for number, pattern in topology.patterns if number == subtopology.id]

    def places(names: Sequence[str], group: Sequence[str]) -> list[int]:
        return [names.index(t) for t in group if t in names]

    return {
        ID: str(subtopology.id),
        SOURCES: sources,
        PATTERNS: regexes,
        REPARTITION: [_topic_document(t, topology) for t in repartition],
        SINKS: list(subtopology.repartition_sinks),
        CHANGELOGS: [_topic_document(t, topology) for t in subtopology.changelogs],
        COPARTITION: [
            {SOURCES: places(sources, group), PATTERNS: places(regexes, group), REPARTITION: places(repartition, group)}
            for group in subtopology.copartition_groups
        ],
    }


def _topic_document(name: str, topology: Topology) -> str | dict[str, Any]:
    described = topology.internal(name)
    if described is None:
        return name
    return {
        "Name": name,
        "Partitions": described.partitions or 0,
        "ReplicationFactor": described.replication_factor,
        "TopicConfigs": [{"Key": key, "Value": value} for key, value in described.configs],
    }
