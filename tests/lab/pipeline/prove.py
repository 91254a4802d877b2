"""`make prove-pipeline`: a million events through all jobs, kill -9 of their drivers within batches, a broker restart.

The output is compared with a batch recomputation row for row, and the report is made of it.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bellwether_kafka.pipeline.jobs import JOBS
from bellwether_kafka.pipeline.source import kafka_options
from bellwether_kafka.pipeline.tables import TABLES
from tests.interop.support.brokers import KafkaCluster
from tests.paths import ROOT
from tests.pipeline.spark import local_spark, read_batch
from tests.pipeline.streams import (
    HOUR_MS,
    Victim,
    closing,
    command,
    compared,
    kill_within_a_batch,
    publish,
    values,
    weights_differ,
)

TOPIC, WEIGHTS_TOPIC = "proof-events", "proof-weights"
EVENTS = 1_000_000
BATCHES = 8  # one of them is cut off by each kill
LIMIT_S = 2_400  # a busy machine needs ten minutes for what takes one
BROKER_DOWN_S = 3.0

echo = partial(print, flush=True)


def main() -> int:
    began_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="prove-pipeline-") as directory, KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, 3, rf=3)
        kafka.create_topic(WEIGHTS_TOPIC, 1, rf=3)
        now_ms = int(time.time() * 1000)
        began = time.monotonic()
        records = values(EVENTS, now_ms - 4 * HOUR_MS)
        publish(kafka, TOPIC, records, now_ms - 4 * HOUR_MS)
        publish(kafka, TOPIC, closing(now_ms), now_ms)
        size = sum(map(len, records)) / 1e6
        echo(f"{EVENTS:,} events, {size:.0f} MB, made and written in {time.monotonic() - began:.0f} s")
        output = Path(directory) / "pipeline"
        ended = killed_and_restarted(kafka, output)
        spark = local_spark(quick=False, table_format="parquet")
        raw = read_batch(spark, kafka_options(kafka.bootstrap, TOPIC))
        equal = [same(spark, raw, output, name, now_ms) for name in (*TABLES, "dead_letters")]
        equal.append(same_weights(spark, raw, kafka, now_ms))
    echo(f"All of it took {time.monotonic() - began_at:.0f} s.")
    return 0 if ended and all(equal) else 1


def killed_and_restarted(kafka: KafkaCluster, output: Path) -> bool:
    """Whether each kill hit some job within a batch and all jobs came to their end afterwards."""
    more = ["--per-trigger", str(-(-EVENTS // BATCHES)), "--format", "parquet"]
    words = command(kafka, output, TOPIC, WEIGHTS_TOPIC, *more)
    within = []
    for victim in Victim:
        within.append(kill_within_a_batch(words, output, LIMIT_S, victim))
        echo(f"SIGKILL of {victim.value} within a batch of {', '.join(sorted(within[-1])) or 'no job'}.")
    finished = len(list(output.glob("checkpoints/*/commits/[0-9]*")))
    log = output / "driver.log"
    with log.open("w") as sink:
        driver = subprocess.Popen(words, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT)
        wait(lambda: len(list(output.glob("checkpoints/*/commits/[0-9]*"))) > finished or driver.poll() is not None)
        running = driver.poll() is None
        kafka.kill_node(2)
        time.sleep(BROKER_DOWN_S)
        kafka.start_node(2)
        echo(f"Broker 2 killed and started again {'while the jobs worked' if running else 'TOO LATE'}.")
        code = driver.wait(LIMIT_S)
    echo(f"The jobs ended with {code}; the last line of each:")
    for line in log.read_text().splitlines()[-len(JOBS) :]:
        echo(f"  {line}")
    return all(within) and running and code == 0


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)


def same(spark: SparkSession, raw: DataFrame, output: Path, name: str, now_ms: int) -> bool:
    rows = compared(spark, raw, output, name, now_ms, "parquet")
    echo(f"{name}: {rows.rows} rows, {'equal row for row' if rows.equal else f'NOT EQUAL: {rows}'}")
    return rows.equal


def same_weights(spark: SparkSession, raw: DataFrame, kafka: KafkaCluster, now_ms: int) -> bool:
    differing = weights_differ(spark, raw, kafka, WEIGHTS_TOPIC, now_ms)
    echo(f"weights: {f'NOT EQUAL: {differing}' if differing else 'the last of each partition is equal'}")
    return not differing


if __name__ == "__main__":
    raise SystemExit(main())
