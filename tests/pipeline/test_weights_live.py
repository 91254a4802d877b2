"""The weights job on four days of traffic with a daily pattern: what it writes is what the next hour needs."""

import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.coordinator.events import ERROR_HEADER
from bellwether_kafka.pipeline.jobs import Pipeline, start
from tests.interop.support.brokers import KafkaCluster
from tests.pipeline.spark import SCHEMAS, local_spark, traffic_event
from tests.pipeline.streams import HOUR_MS, publish
from tests.pipeline.topics import read_until

TOPIC, WEIGHTS_TOPIC = "daily-events", "daily-weights"
DAYS, DAY_MS, WINDOW_MS, SAMPLE_MS = 4, 24 * HOUR_MS, 300_000, 10_000
QUIET, BUSY, BURST = 1_000, 3_000, 90_000  # bytes in ten seconds
LIMIT_S = 300

pytestmark = [pytest.mark.proof, pytest.mark.timeout(5 * LIMIT_S)]


def test_weights_follow_the_daily_pattern_into_the_next_hour(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Partition 0 has thrice the traffic in the hour that comes next, every day; partition 1 always has the same, but
    for one burst in its latest hour; partition 2 is like the first and has been known for two days only."""
    kafka.create_topic(TOPIC, 3)
    kafka.create_topic(WEIGHTS_TOPIC, 1)
    now_ms = int(time.time() * 1000)
    # A full hour, two to three hours ago: every window before it closes, and the hour that begins then is the next.
    end_ms = now_ms - now_ms % HOUR_MS - 2 * HOUR_MS
    values, stamps = [], []
    for at_ms in range(end_ms - DAYS * DAY_MS, end_ms, WINDOW_MS // 2):
        busy = at_ms % DAY_MS // HOUR_MS == end_ms % DAY_MS // HOUR_MS
        shaped = BUSY if busy else QUIET
        burst = at_ms == end_ms - 6 * WINDOW_MS
        sizes = [shaped, BURST if burst else QUIET, *([shaped] if at_ms >= end_ms - 2 * DAY_MS else [])]
        values += [traffic_event(at_ms, size, partition=p) for p, size in enumerate(sizes)]
        stamps += [at_ms] * len(sizes)
    publish(kafka, TOPIC, [*values, traffic_event(now_ms, QUIET)], [*stamps, now_ms])
    pipeline = Pipeline(kafka.bootstrap, TOPIC, tmp_path.as_uri(), WEIGHTS_TOPIC, available_now=True)
    (query,) = start(local_spark(), pipeline, ["weights"])
    assert query.awaitTermination(LIMIT_S)
    assert query.exception() is None
    sent = read_until(kafka, WEIGHTS_TOPIC, lambda messages: len({m.key() for m in messages}) == 3, 60)
    last = {record["partition"]: record for _, record in (SCHEMAS.decode(bytes(m.value() or b"")) for m in sent)}
    quiet = QUIET * 1_000 / SAMPLE_MS
    assert last[0]["bytes_per_s"] == pytest.approx(quiet * BUSY / QUIET)
    assert last[1]["bytes_per_s"] == pytest.approx(quiet)
    assert last[2]["bytes_per_s"] == pytest.approx(quiet)
    assert {record["windows"] for record in last.values()} == {12}
    errors = {bytes(m.key() or b""): float(dict(m.headers() or ())[ERROR_HEADER] or b"") for m in sent}
    assert errors[b"t-0"] == 0, "every window has the same"
    assert errors[b"t-1"] > quiet, "one window has much more than the others"
