"""Part of `make prove-pipeline`: each job's throughput over a topic, beside what reading and decoding alone take."""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from bellwether_kafka.pipeline.jobs import JOBS, Pipeline, start
from bellwether_kafka.pipeline.source import decoded, kafka_options, read_batch
from tests.interop.support.brokers import KafkaCluster
from tests.measure.pipeline.prove import EVENTS, say
from tests.pipeline.spark import SCHEMAS, local_spark
from tests.pipeline.streams import HOUR_MS, closing, publish, values

TOPIC, WEIGHTS_TOPIC = "proof-events", "proof-weights"
LIMIT_S = 600
EVENT_OF = {
    "lag_trends": "lag",
    "rack_costs": "traffic",
    "rebalances": "decision",
    "culprits": "membership",
    "rates": "traffic",
    "weights": "traffic",
}


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with tempfile.TemporaryDirectory(prefix="prove-throughput-") as directory, KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, 3)
        kafka.create_topic(WEIGHTS_TOPIC, 1)
        now_ms = int(time.time() * 1000)
        publish(kafka, TOPIC, values(count, now_ms - 4 * HOUR_MS), now_ms - 4 * HOUR_MS)
        publish(kafka, TOPIC, closing(now_ms), now_ms)
        spark = local_spark(quick=False)
        throughput(spark, read_batch(spark, kafka_options(kafka.bootstrap, TOPIC)), kafka, Path(directory), count)
    return 0


def throughput(spark: SparkSession, raw: DataFrame, kafka: KafkaCluster, directory: Path, count: int) -> None:
    """Records per second over the whole topic: reading alone, reading and decoding, and each job from start to end."""
    values_only = raw.select(F.length("value"))
    timed(lambda: drained(values_only))  # the first pass warms the JVM
    say(f"reading alone: {count / timed(lambda: drained(values_only)):,.0f} records/s")
    for job in JOBS:
        # Dead letters are looked for among all events: decoding each of them once is what that takes at least.
        events = [EVENT_OF[job]] if job in EVENT_OF else sorted(set(EVENT_OF.values()))
        bound = sum(timed(lambda event=event: drained(decoded(raw, event, SCHEMAS))) for event in events)
        once = (directory / "once").as_uri()
        pipeline = Pipeline(kafka.bootstrap, TOPIC, once, WEIGHTS_TOPIC, available_now=True)
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
