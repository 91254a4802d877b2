"""Topologies built with Kafka Streams, and what Kafka's own classes make of them: `python -m` writes the file.

The program is tests/java/bellwether/TopologyCorpus.java, which says what a line holds; it needs a JDK and Maven. The
file is written anew only with another version of Kafka Streams or with more topologies.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("topologies.jsonl")
PROGRAM = "org.apache.kafka.streams.processor.internals.TopologyCorpus"
APPLICATION = "app"


@dataclass(frozen=True, slots=True)
class Part:
    """One subtopology by full topic names: `sinks` are the repartition topics that it writes, `stores` its changelogs,
    a source topic that serves as one included."""

    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One topology. `settings` are those of the application, `counts` the partitions of its source topics, `text` is
    its description, `groups` the topics that must be copartitioned, and `created` has the partitions and configs of
    each topic that a Java leader creates."""

    name: str
    settings: dict[str, Any]
    counts: dict[str, int]
    text: str
    parts: dict[int, Part]
    groups: list[tuple[str, ...]]
    created: dict[str, tuple[int, dict[str, str]]]

    @property
    def topic_configs(self) -> dict[str, str]:
        """What the application sets for all of its internal topics."""
        return {k.removeprefix("topic."): str(v) for k, v in self.settings.items() if k.startswith("topic.")}

    @property
    def serving(self) -> set[str]:
        """The source topics that serve as changelogs."""
        return {t for part in self.parts.values() for t in {*part.stores} & {*part.sources}}


def recorded() -> list[Recorded]:
    """All of the file."""
    return [_recorded(json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]


def _recorded(line: dict[str, Any]) -> Recorded:
    parts = {
        int(n): Part(*(tuple(p[key]) for key in ("sources", "sinks", "stores")))
        for n, p in line["subtopologies"].items()
    }
    created = {topic: (made["partitions"], made["configs"]) for topic, made in line["created"].items()}
    groups = [tuple(group) for group in line["groups"]]
    settings = {name: value for name, value in line["settings"].items() if name != "topology.optimization"}
    return Recorded(line["name"], settings, line["counts"], line["text"], parts, groups, created)


def write() -> None:
    """Asks Kafka's own classes again."""
    from tests.interop.support.jvm import java

    quiet = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xmx256m")
    done = subprocess.run(
        java().command(PROGRAM, options=quiet), check=True, capture_output=True, text=True, timeout=300
    )
    FILE.write_text(done.stdout, "utf-8")


if __name__ == "__main__":
    write()
