"""Part of `make prove-pipeline`: each job's throughput over a topic, beside what reading and decoding alone take."""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from pipeline.jobs import Pipeline, start
from pipeline.source import decoded, kafka_options, read_batch
from pipeline.tables import TABLES
from tests.interop.brokers import KafkaCluster
from tests.pipeline.prove import EVENTS, say
from tests.pipeline.spark import SCHEMAS, local_spark
from tests.pipeline.streams import HOUR_MS, closing, publish, values

TOPIC = "proof-events"
LIMIT_S = 600
EVENT_OF = {
    "lag_trends": "lag",
    "rack_costs": "traffic",
    "rebalances": "decision",
    "culprits": "membership",
    "rates": "traffic",
}


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with tempfile.TemporaryDirectory(prefix="prove-throughput-") as directory, KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, 3)
        now_ms = int(time.time() * 1000)
        publish(kafka, TOPIC, values(count, now_ms - 4 * HOUR_MS), now_ms - 4 * HOUR_MS)
        publish(kafka, TOPIC, closing(now_ms), now_ms)
        spark = local_spark()
        throughput(spark, read_batch(spark, kafka_options(kafka.bootstrap, TOPIC)), kafka, Path(directory), count)
    return 0


def throughput(spark: SparkSession, raw: DataFrame, kafka: KafkaCluster, directory: Path, count: int) -> None:
    """Records per second over the whole topic: reading alone, reading and decoding, and each job from start to end."""
    values_only = raw.select(F.length("value"))
    timed(lambda: drained(values_only))  # the first pass warms the JVM
    say(f"reading alone: {count / timed(lambda: drained(values_only)):,.0f} records/s")
    for job in TABLES:
        rows = decoded(raw, EVENT_OF[job], SCHEMAS)
        bound = timed(lambda rows=rows: drained(rows))
        pipeline = Pipeline(kafka.bootstrap, TOPIC, (directory / "once").as_uri(), available_now=True)
        took = timed(lambda pipeline=pipeline, job=job: run_alone(spark, pipeline, job))
        say(f"{job}: {count / took:,.0f} records/s; reading and decoding alone {count / bound:,.0f} records/s")


def drained(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def run_alone(spark: SparkSession, pipeline: Pipeline, job: str) -> None:
    (query,) = start(spark, pipeline, [job])
    assert query.awaitTermination(LIMIT_S), f"{job} did not end"


def timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())
