"""The jar of assignors for brokers, built as a user builds it."""

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bellwether_kafka.assignors.consumer import POLICIES
from tests.deploy.jars import packaged
from tests.interop.support.jvm import BROKER_40, BROKER_44, Release, java
from tests.paths import DOCS, ROOT

FOLDER = ROOT / "deploy/broker-assignor"
SOURCES, STREAMS_SOURCES = FOLDER / "src/main/java", FOLDER / "src/streams/java"
LINES_MAX = {SOURCES: 600, STREAMS_SOURCES: 400}  # of code: what runs in a broker must be easy to read as a whole

pytestmark = pytest.mark.timeout(600)  # once, Maven fetches its plug-ins


@pytest.fixture(scope="module")
def jars(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder in which `mvn package` leaves its jars."""
    with packaged(request.config, FOLDER) as target:
        yield target


def test_the_jar_has_its_classes_the_licence_and_nothing_of_kafka(jars: Path) -> None:
    with zipfile.ZipFile(jars / "broker-assignor.jar") as jar:
        names = {name for name in jar.namelist() if not name.endswith("/")}
        assert jar.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes()
        version = jar.read("bellwether/broker/BellwetherAssignor.class")[6:8]
    assert {name for name in names if not name.startswith(("META-INF/", "bellwether/broker/"))} == set()
    assert int.from_bytes(version, "big") == 61, "a broker on Java 17 can load it"


def test_each_policy_has_a_class_and_the_guide_lists_it(jars: Path) -> None:
    guide = (DOCS / "guides/beyond-classic.md").read_text(encoding="utf-8")
    with zipfile.ZipFile(jars / "broker-assignor.jar") as jar:
        for policy in POLICIES:
            name = f"{policy.title().replace('-', '')}Assignor"
            assert f"bellwether/broker/{name}.class" in jar.namelist()
            assert f"`{name}`" in guide
            assert f'super("bellwether-{policy}")' in (SOURCES / f"bellwether/broker/{name}.java").read_text()


@pytest.mark.parametrize("sources", LINES_MAX, ids=["main", "streams"])
def test_it_stays_small(sources: Path) -> None:
    lines = [line for path in sources.rglob("*.java") for line in path.read_text().splitlines()]
    assert 0 < sum(not re.match(r"\s*(/?\*|//|$)", line) for line in lines) <= LINES_MAX[sources]


@pytest.mark.parametrize(
    ("release", "main", "size"),
    [
        (BROKER_40, ("bellwether.AssignorMain", "bellwether.broker.RackFirstAssignor"), "6 60 4"),
        (BROKER_44, ("bellwether.TaskAssignorMain",), "6 24 4"),
    ],
    ids=["consumers on 4.0", "tasks on 4.4"],
)
def test_the_jar_itself_runs_with_the_classes_of_the_broker(
    jars: Path, release: Release, main: Sequence[str], size: str
) -> None:
    """Without a Bellwether, so by its fallback. The jar comes first on the class path."""
    machine = java(release)
    apart = replace(machine, classpath=f"{jars / 'broker-assignor.jar'}{os.pathsep}{machine.classpath}")
    options = ("-Xmx256m", "-verbose:class")
    command = apart.command(*main, "bellwether.assignor.address=127.0.0.1:1", options=options)
    done = subprocess.run(command, input=f"{size}\n", capture_output=True, text=True, timeout=120, check=True)
    (result,) = (line for line in done.stdout.splitlines() if line.startswith('{"calls"'))
    assert json.loads(result)["faults"] == 0, result
    loaded = re.findall(r"bellwether\.broker\.\S+ source: (file:\S+)", done.stdout)
    assert loaded
    assert all(source.endswith("broker-assignor.jar") for source in loaded), loaded
