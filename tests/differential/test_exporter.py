"""The exporter's files, read by Bellwether, are what Kafka Streams' own builder gives its partition assignor; more of
them and more versions: `python -m tests.differential.exported_topologies`."""

import subprocess
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.topology.internal_topics import plan_internal_topics
from tests.differential.exported import (
    KAFKA_VERSION,
    OLDEST,
    OPTIONS,
    as_built,
    as_read,
    exported_corpus,
    random_topologies,
)
from tests.get_started_pages import fenced
from tests.interop.support.jvm import SOURCES, Java
from tests.kit.streams import read_topology
from tests.paths import ROOT
from tests.vectors.topologies import Recorded, recorded

RANDOM = 40
EXPORTER = "bellwether.topology.TopologyExporter"

pytestmark = pytest.mark.timeout(600)  # once, jars are fetched


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("version", [OLDEST, KAFKA_VERSION])
def test_random_topologies_are_read_as_they_are_built(version: str) -> None:
    seen = 0
    for line in random_topologies(version, RANDOM):
        assert as_read(line["file"], line["subscribed"]) == as_built(line), f"seed {line['seed']}"
        seen += len(line["parts"])
    assert seen > 2 * RANDOM


def test_recorded_topologies_are_created_as_java_creates_them(jvm: Java) -> None:
    """Unedited and without settings of the group: files of the exporter have everything."""
    files = exported_corpus()
    cases = recorded()
    assert len(cases) >= 100
    for case in cases:
        check(case, files[case.name])


def test_a_stale_file_is_an_error_and_an_exported_topology_is_what_it_was(jvm: Java, tmp_path: Path) -> None:
    message = ran(jvm, "bellwether.ExporterCheck", str(tmp_path / "app.yaml"))
    assert message.returncode == 0, message.stderr
    assert message.stdout.endswith("right\n")
    assert "app.yaml is stale: line 1 is <nothing>" in message.stdout
    assert "line 5 is <ApplicationId: app>, and the application has <ApplicationId: other>" in message.stdout


@pytest.mark.parametrize("factory", ["built", "table"])
def test_the_command_line_writes_the_file_and_checks_it(jvm: Java, factory: str, tmp_path: Path) -> None:
    """A builder is built with the properties, or there would be a changelog beside each source topic."""
    file, properties = tmp_path / "app.yaml", tmp_path / "app.properties"
    properties.write_text("application.id=app\ntopology.optimization=all\nnum.standby.replicas=1\n")
    arguments = f"bellwether.ExporterCheck::{factory}", str(properties), str(file)
    assert ran(jvm, EXPORTER, *arguments).returncode == 0
    assert read_topology(file.read_text()).changelogs == ("u",)
    assert '#   "num.standby.replicas" = 1\n' in file.read_text()
    assert ran(jvm, EXPORTER, *arguments, "--check").returncode == 0
    file.write_text(file.read_text().replace("[u]", "[v]"))
    stale = ran(jvm, EXPORTER, *arguments, "--check")
    assert (stale.returncode, "is stale: line" in stale.stderr) == (1, True)
    wrong = ran(jvm, EXPORTER, "bellwether.ExporterCheck")
    assert (wrong.returncode, "Usage: TopologyExporter CLASS::METHOD" in wrong.stderr) == (2, True)


def test_the_example_of_the_guide_is_exported_as_the_guide_shows_it(jvm: Java, tmp_path: Path) -> None:
    page = (ROOT / "docs/guides/export-a-topology.md").read_text()
    source = (SOURCES / "bellwether/Shop.java").read_text()
    blocks = fenced(page)
    (method, *_) = [block.text for block in blocks if block.language == "java"]
    assert textwrap.indent(method, "    ", str.strip) in source
    (tmp_path / "app.properties").write_text(next(block.text for block in blocks if block.language == "properties"))
    file = tmp_path / "topology.yaml"
    done = ran(jvm, EXPORTER, "bellwether.Shop::topology", str(tmp_path / "app.properties"), str(file))
    assert done.returncode == 0, done.stderr
    shown = CliRunner().invoke(app, ["topology", "show", str(file)]).stdout
    texts = [block.text for block in blocks if block.language == "text"]
    assert texts[0] == shown
    assert texts[1] in file.read_text()


def ran(jvm: Java, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = jvm.command(program, *arguments, options=OPTIONS)
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def check(case: Recorded, file: str) -> None:
    topology = read_topology(file).resolved(case.counts)
    parts = {s.id: s for s in topology.subtopologies}
    assert {n: {*s.sources} for n, s in parts.items()} == {n: {*p.sources} for n, p in case.parts.items()}, case.name
    assert {n: s.repartition_sinks for n, s in parts.items()} == {n: p.sinks for n, p in case.parts.items()}, case.name
    assert {n: s.changelogs for n, s in parts.items()} == {n: p.stores for n, p in case.parts.items()}, case.name
    groups = sorted(tuple(sorted(group)) for s in topology.subtopologies for group in s.copartition_groups)
    assert groups == sorted(case.groups), case.name
    plan = plan_internal_topics(topology, case.counts)
    assert not plan.reasons
    assert {t.name: (t.partitions, dict(t.configs)) for t in plan.topics} == case.created, case.name
