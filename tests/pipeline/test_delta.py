"""Tables in Delta's format: jobs killed within a batch and started again, and asked for the other format.

Needs `make setup-delta`."""

import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.pipeline.session import DELTA_JARS
from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.paths import ROOT
from tests.pipeline.spark import QUICK_JVM
from tests.pipeline.streams import HOUR_MS, closing, command, kill_within_a_batch, publish, values

TOPIC = "delta-events"
COUNT, PER_TRIGGER, LIMIT_S = 3_000, 1_200, 300

pytestmark = [pytest.mark.proof, pytest.mark.timeout(5 * LIMIT_S)]


def test_killed_jobs_write_every_record_once_into_delta(
    kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not DELTA_JARS.is_dir():
        missing_tool(request.config, "Delta's jars are not there (make setup-delta)")
    kafka.create_topic(TOPIC, 3)
    now_ms = int(time.time() * 1000)
    publish(kafka, TOPIC, values(COUNT, now_ms - 4 * HOUR_MS), now_ms - 4 * HOUR_MS)
    publish(kafka, TOPIC, closing(now_ms), now_ms)
    output = tmp_path / "pipeline"
    words = command(kafka, output, TOPIC, "", "--per-trigger", str(PER_TRIGGER), "--jobs", "culprits,dead_letters")
    words = ["env", f"JAVA_TOOL_OPTIONS={QUICK_JVM}", *words, "--format", "delta"]
    assert kill_within_a_batch(words, output, LIMIT_S), "the kill came between two batches"
    ran = run(words)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert (output / "tables" / "dead_letters" / "_delta_log").is_dir()
    refused = run(words[:-2])
    assert refused.returncode == 2, refused.stderr[-3000:]
    assert "is in the format delta" in refused.stderr


def run(words: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S * 2, check=False)
