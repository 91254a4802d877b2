"""Java for tests: fetches the jars once, compiles the sources beside the pom once, and says what is missing.

Everything lands in `.cache` of the checkout. Work is guarded by a file lock, so that parallel test runs wait for one
another instead of fetching twice, and by stamps made from the content of the pom and of the sources.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

CACHE = ROOT / ".cache"
SOURCES = ROOT / "tests" / "java"
EXPORTER = ROOT / "deploy/topology-exporter/src/main/java/bellwether/topology/TopologyExporter.java"
ASSIGNOR = ROOT / "deploy/broker-assignor/src/main/java/bellwether/broker"
TASK_ASSIGNOR = ROOT / "deploy/broker-assignor/src/streams/java/bellwether/broker"
KAFKA_VERSION = "4.3.0"
NEEDED_JARS = (
    f"kafka_2.13-{KAFKA_VERSION}.jar",
    f"kafka-clients-{KAFKA_VERSION}.jar",
    f"kafka-streams-{KAFKA_VERSION}.jar",
    f"kafka-tools-{KAFKA_VERSION}.jar",
    f"kafka-group-coordinator-{KAFKA_VERSION}.jar",
    "slf4j-simple-1.7.36.jar",
)


STREAMS_39_VERSION = "3.9.1"  # of the broker of that age as well


@dataclass(frozen=True, slots=True)
class Release:
    """Jars of one Kafka release and what is compiled against them: pom and sources below `SOURCES`, home in `CACHE`.
    `sources` are patterns with blanks between. `version` is for a pom that serves several releases. Without `sources`
    nothing is compiled; `exports`: they use the exporter of topologies; `assigns`: the assignors for brokers,
    `assigns_tasks`: those of tasks, too."""

    home: str
    pom: str
    needed_jars: tuple[str, ...]
    sources: str
    version: str = ""
    exports: bool = False
    assigns: bool = False
    assigns_tasks: bool = False

    @property
    def inputs(self) -> list[Path]:
        own = [path for pattern in self.sources.split() for path in sorted(SOURCES.rglob(pattern))]
        assignor = sorted(ASSIGNOR.glob("*.java")) if self.assigns or self.assigns_tasks else []
        assignor += sorted(TASK_ASSIGNOR.glob("*.java")) if self.assigns_tasks else []
        return [SOURCES / self.pom, *own, *([EXPORTER] if self.exports else []), *assignor]


def _kafka_tests(home: str, version: str) -> Release:
    needed = (
        f"kafka-streams-{version}-test.jar",
        f"kafka-clients-{version}-test.jar",
        "junit-platform-console-standalone-1.13.4.jar",
        "mockito-core-5.20.0.jar",
    )
    return Release(home, "kafka-tests/pom.xml", needed, "kafka-tests/*.java", version)


KAFKA_TESTS = {
    version: _kafka_tests(home, version)
    for version, home in ((KAFKA_VERSION, "java-kafka-tests"), ("3.9.2", "java-kafka-tests-3.9"))
}


def _system_tests(home: str, version: str) -> Release:
    needed = (f"kafka-streams-{version}-test.jar", f"kafka-clients-{version}-test.jar", f"kafka-tools-{version}.jar")
    return Release(home, "systests/pom.xml", needed, "systests/*.java" if version == KAFKA_VERSION else "", version)


SYSTEM_TESTS = _system_tests("java-systests", KAFKA_VERSION)
SYSTEM_TESTS_39 = _system_tests("java-systests-3.9", "3.9.2")
CURRENT = Release("java", "pom.xml", NEEDED_JARS, "bellwether/*.java", exports=True, assigns=True)
BROKER_39 = Release(
    "java-broker-3.9",
    "broker-3.9/pom.xml",
    (
        f"kafka_2.13-{STREAMS_39_VERSION}.jar",
        f"kafka-group-coordinator-{STREAMS_39_VERSION}.jar",
        "slf4j-simple-1.7.36.jar",
    ),
    "BrokerMain.java",
)
BROKER_40_VERSION = "4.0.0"
BROKER_40 = Release(
    "java-broker-4.0",
    "broker-4.0/pom.xml",
    (
        f"kafka_2.13-{BROKER_40_VERSION}.jar",
        f"kafka-group-coordinator-{BROKER_40_VERSION}.jar",
        "slf4j-simple-1.7.36.jar",
    ),
    "BrokerMain.java AssignorMain.java",
    assigns=True,
)
BROKER_44_VERSION = "4.4.0"
BROKER_44 = Release(
    "java-4.4",
    "broker-4.4/pom.xml",
    (
        f"kafka_2.13-{BROKER_44_VERSION}.jar",
        f"kafka-group-coordinator-{BROKER_44_VERSION}.jar",
        f"kafka-streams-{BROKER_44_VERSION}.jar",
        "slf4j-simple-1.7.36.jar",
    ),
    "BrokerMain.java BrokerSideReferee.java MemberMain.java StreamsMain.java broker-4.4/*.java",
    assigns_tasks=True,
)
STREAMS_39 = Release(
    "java-3.9",
    "streams-3.9/pom.xml",
    (f"kafka-streams-{STREAMS_39_VERSION}.jar", f"kafka-clients-{STREAMS_39_VERSION}.jar", "slf4j-simple-1.7.36.jar"),
    "[MS]*Main.java",  # members and Streams applications
)


def exporting(version: str) -> Release:
    """The exporter of topologies, compiled against this version of Kafka Streams, and random ones that it exports."""
    needed = (f"kafka-streams-{version}.jar", f"kafka-clients-{version}.jar", "slf4j-simple-1.7.36.jar")
    return Release(
        f"java-exporter-{version}", "streams-2.8/pom.xml", needed, "RandomTopologies.java", version, exports=True
    )


class MissingToolError(Exception):
    """A tool that real brokers need is not installed; the text names it."""


@dataclass(frozen=True, slots=True)
class Java:
    """A class path that holds Kafka and Bellwether's compiled sources, and how to start a main class on it."""

    executable: str
    classpath: str

    def command(self, main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        return [
            self.executable,
            *options,
            "-Dorg.slf4j.simpleLogger.logFile=System.err",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            "-cp",
            self.classpath,
            main_class,
            *arguments,
        ]


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds an exclusive lock between processes for as long as the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def java(release: Release = CURRENT) -> Java:
    """The JVM with Kafka on its class path.

    Raises MissingToolError without a JDK, or without Maven while the jars are still to be fetched.
    """
    executable, compiler = tool("java"), tool("javac")
    base = CACHE / release.home
    with file_lock(base / ".lock"):
        jars = _jars(base, release)
        classes = _classes(base, release, jars, compiler)
    return Java(executable, os.pathsep.join([str(classes), str(jars / "*")]))


def tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    beside = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    path = beside or shutil.which(name)
    if path is None:
        raise MissingToolError(f"{name} is not installed (a JDK of version 17 or later and Maven are needed)")
    return path


def _jars(base: Path, release: Release) -> Path:
    jars = base / "jars"
    stamp = base / ".jars"
    wanted = _digest([SOURCES / release.pom])
    if stamp.exists() and stamp.read_text() == wanted and _complete(jars, release):
        return jars
    maven = tool("mvn")
    shutil.rmtree(jars, ignore_errors=True)
    command = [
        maven,
        "-q",
        "-B",
        "-f",
        str(SOURCES / release.pom),
        f"-Dmaven.repo.local={CACHE / 'maven'}",
        f"-DoutputDirectory={jars}",
        *([f"-Dkafka.version={release.version}"] if release.version else []),
        "dependency:copy-dependencies",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0 or not _complete(jars, release):
        raise RuntimeError(f"Maven could not fetch Kafka's jars:\n{(done.stdout + done.stderr)[-3000:]}")
    stamp.write_text(wanted)
    return jars


def _complete(jars: Path, release: Release) -> bool:
    return all(zipfile.is_zipfile(jars / name) for name in release.needed_jars)


def _classes(base: Path, release: Release, jars: Path, compiler: str) -> Path:
    sources = release.inputs[1:]
    if not sources:
        return jars
    # A directory per content: JVMs that still run on older classes load more of them when they need them.
    classes = base / f"classes-{_digest(release.inputs)[:16]}"
    if classes.is_dir():
        return classes
    fresh = base / f"classes.{os.getpid()}"
    fresh.mkdir(parents=True)
    command = [compiler, "-Xlint:all,-processing,-classfile", "-cp", str(jars / "*"), "-d", str(fresh)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        raise RuntimeError(f"javac refused the test sources:\n{done.stderr[-3000:]}")
    fresh.rename(classes)
    return classes


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(os.path.relpath(path, SOURCES).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
