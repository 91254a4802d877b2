"""Events in Confluent's framing through a registry that is not Bellwether's, franz-go's: any reader of that framing
reads them.

Bellwether registers its schemas there; a reader that knows nothing but the address takes ids from the records and
schemas from the registry; the jobs and `bellwether debug history` get the same ids and leave no record out.
"""

import io
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from confluent_kafka import Consumer, Message, TopicPartition
from fastavro import parse_schema, schemaless_reader

from bellwether_kafka.coordinator.events import SchemaSet, registered, single_object
from bellwether_kafka.coordinator.events.schema_registry import subject
from bellwether_kafka.coordinator.replay import read_history
from bellwether_kafka.pipeline.source import dead_letters, kafka_options, single_objects
from bellwether_kafka.pipeline.tables import TABLES, Options
from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import create_local_topic
from tests.interop.support.jvm import CACHE
from tests.interop.support.members import Flock, partitions_of, wait_settled
from tests.pipeline.spark import as_dicts, local_spark, read_batch
from tests.pipeline.topics import read_until

TOPIC, GROUP, EVENTS = "framed-orders", "framed-group", "framed-events"
SOURCES = Path(__file__).parent / "registry"
EVENT_OF = {json.loads(schema.text)["name"]: event for (event, _), schema in SchemaSet.load().schemas.items()}
WANTED = set(EVENT_OF.values()) - {"weight"}

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


@pytest.fixture
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Its address."""
    go = shutil.which("go")
    if go is None:
        missing_tool(request.config, "go is not installed: no registry")
    base, program = CACHE / "go", tmp_path / "registry"
    places = {"GOMODCACHE": str(base / "mod"), "GOCACHE": str(base / "build"), "GOFLAGS": "-mod=readonly"}
    command = [str(go), "build", "-modcacherw", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    subprocess.run(command, cwd=SOURCES, env=os.environ | places, check=True, timeout=600)
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip()  # it ends with its standard input


def test_every_reader_of_the_framing_reads_the_events(kafka: KafkaCluster, registry: str, tmp_path: Path) -> None:
    create_local_topic(kafka, TOPIC, 6)
    settings = {"topic": EVENTS, "sample_interval_ms": 1_000, "registry_url": registry}
    with Bellwether(kafka, [GROUP], events=settings), Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", GROUP, (TOPIC,), ("range",)) for _ in range(2)]
        wait_settled(members, partitions_of({TOPIC: 6}), spread=0)
        read_until(kafka, EVENTS, lambda messages: {read(registry, m)[0] for m in messages} >= WANTED, 60)
    count = written(kafka)
    messages = read_until(kafka, EVENTS, lambda messages: len(messages) >= count, 60)
    schemas = SchemaSet.load()
    ids = registered(registry, EVENTS, schemas)
    assert set(asked(registry, "/subjects")) == {subject(EVENTS, schema) for schema in schemas.schemas.values()}
    for message in messages:
        event, record = read(registry, message)
        assert (event, record) == schemas.decode(single_object(bytes(message.value() or b""), ids))

    raw = single_objects(read_batch(local_spark(), kafka_options(kafka.bootstrap, EVENTS)), ids)
    assert as_dicts(dead_letters(raw, schemas)) == []
    decisions = [read(registry, message)[0] for message in messages].count("decision")
    assert sum(row["rebalances"] for row in as_dicts(TABLES["rebalances"](raw, schemas, Options()))) == decisions

    words = ["debug", "history", "--bootstrap", kafka.bootstrap, "--events-topic", EVENTS, "--registry-url", registry]
    copied = run_to_end([*words, "--file", str(tmp_path / "history")])
    assert copied.code == 0, copied.text
    history = read_history(tmp_path / "history")
    assert not history.refused
    assert len(history.snapshots[GROUP]) == decisions


def read(url: str, message: Message) -> tuple[str, dict[str, Any]]:
    """As a reader that knows the framing and the registry: the event and the record."""
    value = bytes(message.value() or b"")
    assert value[:1] == b"\x00"
    schema = asked(url, f"/schemas/ids/{int.from_bytes(value[1:5], 'big')}")["schema"]
    body = io.BytesIO(value[5:])
    record = schemaless_reader(body, parse_schema(json.loads(schema)), None)
    assert isinstance(record, dict)
    assert not body.read(1)
    return EVENT_OF[json.loads(schema)["name"]], record


def asked(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=60) as answer:  # noqa: S310 - the fixture's own address
        return json.load(answer)


def written(kafka: KafkaCluster) -> int:
    """How many records the topic of events has."""
    reader = Consumer(kafka.client_config("admin", "admin") | {"group.id": "nobody"})
    try:
        partitions = kafka.admin.list_topics(EVENTS, timeout=10).topics[EVENTS].partitions
        return sum(reader.get_watermark_offsets(TopicPartition(EVENTS, p), timeout=60)[1] for p in partitions)
    finally:
        reader.close()
