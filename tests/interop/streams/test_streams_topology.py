"""The topology of a real application, learned from its group and parsed from its description, is the same and right."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bellwether_kafka.assignors.streams.application import Topology
from bellwether_kafka.coordinator.cli import app as bellwether
from bellwether_kafka.coordinator.topology import load_topology, topic_configs
from bellwether_kafka.coordinator.topology.internal_topics import plan_internal_topics
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application, describe
from tests.interop.support.streams_load import Load

pytestmark = pytest.mark.broker

PARTITIONS = 4


def command(out: Path, *arguments: str) -> Topology:
    """Runs `bellwether topology ...` and loads the file that it wrote."""
    result = CliRunner().invoke(bellwether, ["topology", *arguments])
    assert result.exit_code == 0, result.output
    out.write_text(result.stdout)
    return load_topology(out)


def test_learn_and_parse_agree_with_the_application(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("topo-in", PARTITIONS)
    kafka.create_topic("topo-out", 1)
    common = Application("topo", ("topo-in",), "topo-out", PARTITIONS, standbys=1, session_timeout_ms=6_000)
    with StreamsApp(kafka, common) as app, Load(kafka, "topo-in", keys=50) as load:
        load.produce(500)
        app.add("one", "az1")
        app.wait_settled()
        app.add("two", "az2")
        app.wait_settled()
        learned = command(tmp_path / "learned.yaml", "learn", "topo", "--bootstrap", kafka.bootstrap)
        text = tmp_path / "describe.txt"
        text.write_text(describe(common))
        options = ("--application-id", "topo", "--bootstrap", kafka.bootstrap)
        parsed = command(tmp_path / "parsed.yaml", "parse", str(text), *options)
        assert _by_number(parsed, "changelogs") == dict(common.changelogs)
        assert _by_number(parsed, "sources") == _by_number(learned, "sources") == dict(common.sources)
        # Offsets distinguish the two changelogs, unless records came between their joins and the reading of the ends.
        # A wrong answer is never given.
        if learned.undecided:
            assert set(learned.undecided) == set(parsed.changelogs)
        else:
            assert learned.digest == parsed.digest

        made = plan_internal_topics(parsed, {"topo-in": PARTITIONS})
        assert not made.reasons, "the file is enough for a first start"
        configs = topic_configs(kafka.admin, [topic.name for topic in made.topics], 10.0)
        assert {topic.name: dict(topic.configs) for topic in made.topics} == configs
        assert {topic.partitions for topic in made.topics} == {PARTITIONS}
        for topic in made.topics:
            learned_configs = learned.internal(topic.name)
            assert (
                dict(topic.configs).items()
                >= dict(learned_configs.configs if learned_configs is not None else ()).items()
            )
            assert learned_configs is not None


def _by_number(topology: Topology, field: str) -> dict[int, tuple[str, ...]]:
    return {s.id: getattr(s, field) for s in topology.subtopologies if getattr(s, field)}
