"""The streaming jobs on a real topic: killed within a batch, started again, equal to a batch over the same records."""

import json
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader
from bellwether_kafka.pipeline.session import JARS
from bellwether_kafka.pipeline.source import kafka_options
from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.paths import ROOT
from tests.pipeline.spark import QUICK_JVM, local_spark, read_batch
from tests.pipeline.streams import (
    HOUR_MS,
    closing,
    command,
    compared,
    kill_within_a_batch,
    publish,
    values,
    weights_differ,
)

TOPIC, WEIGHTS_TOPIC = "stream-events", "stream-weights"
LIMIT_S = 600
COUNT, PER_TRIGGER = 6_000, 2_500
KEYS = 7  # partitions of which a weight is written
KILLS = 2  # at most: each waits for a batch beyond those before, and there are three
# Each job is a query of its own; these stand for all of them, which `make prove-pipeline` runs.
RUN = ("lag_trends", "rebalances", "dead_letters", "weights")


@pytest.mark.timeout(5 * LIMIT_S)
def test_killed_and_restarted_jobs_write_what_a_batch_computes(
    kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not JARS.is_dir():
        missing_tool(request.config, "Spark's jars are not there (make setup-pipeline): no streaming jobs")
    kafka.create_topic(TOPIC, 3)
    kafka.create_topic(WEIGHTS_TOPIC, 1)
    now_ms = int(time.time() * 1000)
    publish(kafka, TOPIC, values(COUNT, now_ms - 4 * HOUR_MS), now_ms - 4 * HOUR_MS)
    publish(kafka, TOPIC, closing(now_ms), now_ms)
    output = tmp_path / "pipeline"
    words = command(kafka, output, TOPIC, WEIGHTS_TOPIC, "--per-trigger", str(PER_TRIGGER), "--jobs", ",".join(RUN))
    words = ["env", f"JAVA_TOOL_OPTIONS={QUICK_JVM}", *words]
    killed = (kill_within_a_batch(words, output, LIMIT_S) for _ in range(KILLS))
    assert any(killed), "each kill came between two batches"
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["job"]: line.get("dropped_by_watermark", 0) for line in reported} == dict.fromkeys(RUN, 0)
    spark = local_spark()
    raw = read_batch(spark, kafka_options(kafka.bootstrap, TOPIC))
    for name in RUN:
        if name != "weights":
            difference = compared(spark, raw, output, name, now_ms)
            assert difference.equal, difference
    differing = weights_differ(spark, raw, kafka, WEIGHTS_TOPIC, now_ms)
    assert not differing, differing
    reader = WeightReader({"bootstrap.servers": kafka.bootstrap}, WeightSettings(topic=WEIGHTS_TOPIC))
    reader.start()
    try:
        wait_until(lambda: reader.describe()["known"] == KEYS, LIMIT_S, lambda: str(reader.describe()))
        reported = reader.describe()
    finally:
        reader.close()
    assert (reported["used"], reported["refused"]) == (0, {"old": KEYS})
