"""Jobs that run meet a new version of a schema: an unknown one is a dead letter, a known one goes into the same table.

Nothing is restarted where the jobs know the version; after an upgrade they go on from the checkpoints of the old ones.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.streaming import StreamingQuery

from bellwether_kafka.coordinator.events import EventSchema, SchemaSet
from bellwether_kafka.pipeline.jobs import Pipeline, start
from bellwether_kafka.pipeline.source import kafka_options
from bellwether_kafka.pipeline.tables import TABLES, Options
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.pipeline.spark import SCHEMAS, as_dicts, lag_event, local_spark, read_batch
from tests.pipeline.streams import HOUR_MS, publish
from tests.unit.coordinator.events.evolution import evolution_findings

TOPIC, LAG = "evolving-events", "lag_trends"
LIMIT_S = 300
EACH = 60  # events of each version and phase

pytestmark = [pytest.mark.proof, pytest.mark.timeout(5 * LIMIT_S)]


def test_running_jobs_meet_a_new_version_of_a_schema(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic(TOPIC, 1)
    spark, now_ms = local_spark(), int(time.time() * 1000)
    both = SchemaSet({**SCHEMAS.schemas, ("lag", 2): second_version(SCHEMAS.latest("lag"))})
    assert not evolution_findings(*both.versions("lag"))
    at_ms = now_ms - 4 * HOUR_MS
    old = [lag_event(at_ms + 1_000 * n, n, partition=n % 3) for n in range(EACH)]
    new = [evolved(both, value) for value in old]
    pipeline = Pipeline(kafka.bootstrap, TOPIC, tmp_path.as_uri(), interval="1 second")

    queries = start(spark, pipeline, (LAG, "dead_letters"))  # they know the first version
    for values, seen in ((old, EACH), (new, 2 * EACH), (old, 3 * EACH)):
        publish(kafka, TOPIC, values, at_ms, 1)
        wait_until(lambda seen=seen: read(queries) >= seen, LIMIT_S, lambda: f"{read(queries)} records were read")
    stopped(queries)

    queries = start(spark, pipeline, (LAG, "dead_letters"), both)  # upgraded, on the same checkpoints
    for values, seen in ((old, EACH), (new, 2 * EACH), (old, 3 * EACH)):
        publish(kafka, TOPIC, values, at_ms, 1)
        wait_until(lambda seen=seen: read(queries) >= seen, LIMIT_S, lambda: f"{read(queries)} records were read")
    publish(kafka, TOPIC, [evolved(both, lag_event(now_ms, 0))], now_ms, 1)
    written = tmp_path / "tables" / LAG
    wait_until(lambda: committed(written), LIMIT_S, lambda: "the closed windows were not written")
    stopped(queries)

    raw = read_batch(spark, kafka_options(kafka.bootstrap, TOPIC))
    unknown = F.col("offset").between(EACH, 2 * EACH - 1)
    dead = as_dicts(spark.read.parquet(f"{tmp_path}/tables/dead_letters"))
    assert sorted((row["offset"], row["reason"]) for row in dead) == [
        (n, "unknown schema") for n in range(EACH, 2 * EACH)
    ]
    table = TABLES[LAG](raw.where(~unknown), both, Options())
    wanted = table.where(F.col("window_end") < F.timestamp_millis(F.lit(now_ms - HOUR_MS)))
    rows = spark.read.parquet(str(written)).select(*wanted.columns)
    assert not as_dicts(wanted.exceptAll(rows))
    assert not as_dicts(rows.exceptAll(wanted))
    assert sum(row["samples"] for row in as_dicts(rows)) == 5 * EACH


def second_version(schema: EventSchema) -> EventSchema:
    """A field more in the record and one in each of its entries, in front of the others, both with a default."""
    record = json.loads(schema.text)
    record["fields"].insert(0, {"name": "sampler", "type": "string", "default": "leader"})
    entry = next(field for field in record["fields"] if field["name"] == "entries")["type"]["items"]
    entry["fields"].insert(0, {"name": "epoch", "type": "int", "default": -1})
    return EventSchema(schema.event, schema.version + 1, json.dumps(record))


def evolved(schemas: SchemaSet, value: bytes) -> bytes:
    """The same event as a writer of the newest version has it."""
    event, record = schemas.decode(value)
    entries: list[dict[str, Any]] = [{**entry, "epoch": 7} for entry in record["entries"]]
    return schemas.encode(event, {**record, "sampler": "standby", "entries": entries})


def read(queries: Sequence[StreamingQuery]) -> int:
    """How many records all of them have read since they were started."""
    failed = [query.exception() for query in queries if query.exception() is not None]
    assert not failed, failed
    return min(sum(batch["numInputRows"] for batch in query.recentProgress) for query in queries)


def committed(table: Path) -> bool:
    """Whether the log of the file sink has a batch with files in it."""
    return any("/day=" in log.read_text() for log in table.glob("_spark_metadata/[0-9]*"))


def stopped(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        query.stop()
