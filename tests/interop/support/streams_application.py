"""A Streams application as its instances are configured, and what its program is called with."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.support.jvm import CURRENT, Release, java

SUBTOPOLOGIES = 3


OPTIONS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


START_TIMEOUT_S = 150.0


@dataclass(frozen=True, slots=True)
class Application:
    """What all instances share. `settings` are Streams settings by Kafka's names and win over what is set here.

    `pattern` subscribes to topics by name instead of `topics`. Times are milliseconds.
    """

    application_id: str
    topics: tuple[str, ...]
    output: str
    partitions: int
    topology: str = "v1"
    pattern: str | None = None
    threads: int = 1
    standbys: int = 0
    guarantee: str = "at_least_once"
    acceptable_recovery_lag: int = 1_000
    probing_interval_ms: int = 60_000
    warmups: int = 2
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    commit_interval_ms: int = 1_000
    rack_strategy: str = "none"
    settings: Mapping[str, str] = field(default_factory=dict)
    release: Release = CURRENT

    @property
    def tasks(self) -> frozenset[str]:
        """Every task as Java prints it, such as "1_5"."""
        return frozenset(f"{s}_{p}" for s in range(SUBTOPOLOGIES) for p in range(self.partitions))

    @property
    def sources(self) -> Mapping[int, tuple[str, ...]]:
        """The source topics of each subtopology."""
        by_key, by_mark = (f"{self.application_id}-{name}-repartition" for name in ("by-key", "by-mark"))
        swapped = self.topology == "v3"
        return {0: self.topics, 1: (by_mark if swapped else by_key,), 2: (by_key if swapped else by_mark,)}

    @property
    def changelogs(self) -> Mapping[int, tuple[str, ...]]:
        """The changelog topics of each stateful subtopology."""
        counts, windowed, sizes = (
            f"{self.application_id}-{name}-changelog" for name in ("counts", "windowed", "sizes")
        )
        if self.topology == "v3":
            return {1: (windowed,), 2: (counts,)}
        joined = {0: (f"{self.application_id}-names-changelog",)} if self.topology == "v7" else {}
        return {**joined, 1: (counts, sizes) if self.topology == "v2" else (counts,), 2: (windowed,)}

    def arguments(self, bootstrap: str, state_dir: Path) -> dict[str, str]:
        source = {"app.pattern": self.pattern} if self.pattern else {"app.input": ",".join(self.topics)}
        return {
            **source,
            "app.topology": self.topology,
            "app.output": self.output,
            "application.id": self.application_id,
            "bootstrap.servers": bootstrap,
            "state.dir": str(state_dir),
            "num.stream.threads": str(self.threads),
            "num.standby.replicas": str(self.standbys),
            "processing.guarantee": self.guarantee,
            "acceptable.recovery.lag": str(self.acceptable_recovery_lag),
            "probing.rebalance.interval.ms": str(self.probing_interval_ms),
            "max.warmup.replicas": str(self.warmups),
            "commit.interval.ms": str(self.commit_interval_ms),
            "rack.aware.assignment.strategy": self.rack_strategy,
            "consumer.session.timeout.ms": str(self.session_timeout_ms),
            "consumer.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "consumer.metadata.max.age.ms": "5000",
            **self.settings,
        }


def describe(application: Application) -> str:
    """What `Topology.describe()` prints for this application, from its own classes; needs no broker."""
    arguments = {**application.arguments("", Path()), "app.describe": "only"}
    command = java(application.release).command("bellwether.StreamsMain", *_pairs(arguments), options=OPTIONS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=True)
    return str(json.loads(done.stdout)["text"])


def export(application: Application, file: Path) -> Path:
    """Writes the topology file of this application by the exporter's command line, as its developers would; no broker.
    Its properties are beside it."""
    properties = write_properties(application, file.with_suffix(".properties"))
    words = "bellwether.StreamsExport::topology", str(properties), str(file)
    command = java().command("bellwether.topology.TopologyExporter", *words, options=OPTIONS)
    subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=True)
    return file


def write_properties(application: Application, file: Path) -> Path:
    """The properties of an instance but for its addresses."""
    arguments = application.arguments("127.0.0.1:1", Path("unused"))
    file.write_text("\n".join(_pairs(arguments)))
    return file


def _pairs(arguments: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in arguments.items()]
