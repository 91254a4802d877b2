"""The jar of the exporter of topologies, built as a user builds it: the class, its sources, the licence, its tests."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.deploy.jars import packaged
from tests.paths import ROOT

FOLDER = ROOT / "deploy/topology-exporter"
CLASS = "bellwether/topology/TopologyExporter"

pytestmark = pytest.mark.timeout(600)  # once, Maven fetches its plug-ins


@pytest.fixture(scope="module")
def jars(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder in which `mvn package` leaves its jars."""
    with packaged(request.config, FOLDER) as target:
        yield target


def test_the_jar_has_the_class_the_licence_and_nothing_of_kafka(jars: Path) -> None:
    with zipfile.ZipFile(jars / "topology-exporter.jar") as jar:
        names = {name for name in jar.namelist() if not name.endswith("/")}
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
        assert jar.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes()
        version = jar.read(f"{CLASS}.class")[6:8]
    assert {name for name in names if not name.startswith(("META-INF/", CLASS))} == set()
    assert "Main-Class: bellwether.topology.TopologyExporter" in manifest
    assert int.from_bytes(version, "big") == 52, "an application on Java 8 can load it"


def test_the_sources_are_published_beside_it(jars: Path) -> None:
    with zipfile.ZipFile(jars / "topology-exporter-sources.jar") as sources:
        assert sources.read(f"{CLASS}.java") == (FOLDER / f"src/main/java/{CLASS}.java").read_bytes()
        assert "META-INF/LICENSE" in sources.namelist()


def test_its_own_tests_have_run(jars: Path) -> None:
    (report,) = (jars / "surefire-reports").glob("TEST-*.xml")
    suite = ET.parse(report).getroot()  # noqa: S314 - written by the build above
    assert int(suite.get("tests", "0")) >= 5
    assert {suite.get(name) for name in ("errors", "failures", "skipped")} == {"0"}
