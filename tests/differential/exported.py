"""Topology files that the exporter writes, beside what Kafka Streams' own builder gives its partition assignor."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bellwether_kafka.assignors.streams.application import Topology
from tests.interop.support.jvm import CURRENT, KAFKA_VERSION, Java, exporting, java
from tests.kit.streams import read_topology
from tests.vectors.topologies import PROGRAM as CORPUS

RANDOM = "org.apache.kafka.streams.processor.internals.RandomTopologies"
OLDEST = "2.8.2"
VERSIONS = (OLDEST, "3.3.2", "3.9.1", "4.0.0", KAFKA_VERSION, "4.4.0")
OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
LIMIT_S = 500


def exporter(version: str) -> Java:
    """A JVM with the exporter and a version of Kafka Streams. The library of RocksDB is the current one: nothing opens
    a store. Raises MissingToolError."""
    current = java(CURRENT)
    if version == KAFKA_VERSION:
        return current
    program = java(exporting(version))
    libraries = [part for part in current.classpath.split(os.pathsep) if part.endswith("*")]
    rocksdb = [str(path) for part in libraries for path in sorted(Path(part).parent.glob("rocksdbjni-*.jar"))]
    return replace(program, classpath=os.pathsep.join([program.classpath, *rocksdb]))


def random_topologies(version: str, count: int) -> Iterator[dict[str, Any]]:
    """What a program says of each: tests/java/bellwether/RandomTopologies.java."""
    yield from _lines(exporter(version), RANDOM, str(count))


def exported_corpus() -> dict[str, str]:
    """The files of the recorded topologies by name."""
    return {line["name"]: line["file"] for line in _lines(java(), CORPUS, "export")}


def as_read(file: str, subscribed: list[str]) -> dict[str, Any]:
    """What Bellwether reads, in the shape of a line."""
    topology = read_topology(file).resolved(subscribed)
    assert topology.exported is not None
    return {
        "parts": {
            str(s.id): {
                "sources": sorted(s.sources),
                "sinks": sorted(s.repartition_sinks),
                "made": {t: [_partitions(topology, t), _configs(topology, t)] for t in s.repartition_sources},
                "changelogs": {t: _configs(topology, t) for t in s.changelogs},
            }
            for s in topology.subtopologies
        },
        "groups": sorted(sorted(group) for s in topology.subtopologies for group in s.copartition_groups),
        "memory": sorted(topology.exported.in_memory_stores),
    }


def as_built(line: dict[str, Any]) -> dict[str, Any]:
    """What the builder gives the assignor."""
    return {
        "parts": line["parts"],
        "groups": sorted(sorted(group) for group in line["groups"]),
        "memory": line["memory"],
    }


def _partitions(topology: Topology, name: str) -> int:
    topic = topology.internal(name)
    return (topic.partitions or 0) if topic is not None else 0


def _configs(topology: Topology, name: str) -> dict[str, str]:
    topic = topology.internal(name)
    return dict(topic.configs) if topic is not None else {}


def _lines(runtime: Java, program: str, *arguments: str) -> Iterator[dict[str, Any]]:
    command = runtime.command(program, *arguments, options=OPTIONS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        yield json.loads(line)
