"""Lags as Prometheus sees them: Bellwether's of every group, and those that go by the names of kafka-lag-exporter."""

import math

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import GroupLag, Observation, ObservedMember
from bellwether_kafka.coordinator.telemetry import LagExporterMetrics, LagMetrics, Metrics, metrics_lag_exporter
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.observed import group_lag, sample

MEMBER = "reader-6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f"
LEFT = Note(NoteKind.LEFT, "told to")


def group_lag_of_three() -> GroupLag:
    """Two refreshes: t-0 catches up, t-1 is stuck, of t-2 nothing is known."""
    refreshes = (
        sample(0, {"t": [0, 5, -1]}, {"t": [100, 20, 7]}),
        sample(300, {"t": [300, 5, -1]}, {"t": [340, 20, 7]}),
    )
    return group_lag(*refreshes, owners={TopicPartition("t", 0): MEMBER, TopicPartition("t", 1): MEMBER})


def seen(lag: GroupLag | None) -> Observation:
    member = ObservedMember(MEMBER, None, "reader", "/10.0.0.3")
    return Observation("g", "classic", "Stable", "range", 9_000, (member,), group_lag=lag)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"bellwether_lag_{name}", {"group": "g", **labels})


@pytest.mark.parametrize("led", [True, False], ids=["led", "observed"])
def test_every_group_has_the_same_metrics(led: bool) -> None:
    metrics = Metrics()
    lags = LagMetrics(metrics)
    if led:
        lags.on_lag("g", group_lag_of_three())
    else:
        lags.on_observation(seen(group_lag_of_three()))
    names = ("records", "max_records", "unknown_partitions", "seconds", "timestamp_seconds")
    assert [value(metrics, name) for name in names] == [55, 40, 1, 300, 300]
    assert [value(metrics, name) for name in ("written_per_second", "consumed_per_second")] == [0.8, 1.0]
    counts = {verdict: value(metrics, "partitions", verdict=verdict) for verdict in ("ok", "stalled", "unknown")}
    assert counts == {"ok": 1, "stalled": 1, "unknown": 1}
    assert math.isnan(value(metrics, "catch_up_seconds") or 0)


def test_what_cannot_be_read_is_no_number_and_keeps_its_time() -> None:
    metrics = Metrics()
    lags = LagMetrics(metrics)
    lags.on_lag("g", group_lag_of_three())
    lags.on_observation(seen(None))
    assert math.isnan(value(metrics, "records") or 0)
    assert math.isnan(value(metrics, "partitions", verdict="stalled") or 0)
    assert value(metrics, "timestamp_seconds") == 300


def test_a_group_that_is_gone_has_no_series_any_more() -> None:
    metrics = Metrics()
    lags = LagMetrics(metrics)
    lags.on_lag("g", group_lag_of_three())
    lags.on_observation(Observation("g", "missing", "Dead", "", 0))
    assert value(metrics, "records") is None


def exposed(*groups: str, of: GroupLag | None = None) -> CollectorRegistry:
    registry, exporter = CollectorRegistry(), LagExporterMetrics("prod")
    registry.register(exporter)
    for group in groups:
        exporter.on_lag(group, of or group_lag_of_three())
    return registry


def test_the_names_and_labels_are_those_of_kafka_lag_exporter() -> None:
    registry, exporter = CollectorRegistry(), LagExporterMetrics("prod")
    registry.register(exporter)
    exporter.on_observation(seen(group_lag_of_three()))
    get = registry.get_sample_value
    group = {"cluster_name": "prod", "group": "g"}
    first = {
        **group,
        "topic": "t",
        "partition": "0",
        "member_host": "10.0.0.3",
        "consumer_id": MEMBER,
        "client_id": "reader",
    }
    nobody = {**group, "topic": "t", "partition": "2", "member_host": "", "consumer_id": "", "client_id": ""}
    assert get("kafka_consumergroup_group_offset", first) == 300
    assert get("kafka_consumergroup_group_lag", first) == 40
    assert get("kafka_consumergroup_group_lag_seconds", first) == 50
    assert math.isnan(get("kafka_consumergroup_group_lag", nobody) or 0)
    assert get("kafka_consumergroup_group_max_lag", group) == 40
    assert get("kafka_consumergroup_group_max_lag_seconds", group) == 300
    assert get("kafka_consumergroup_group_sum_lag", group) == 55
    assert get("kafka_consumergroup_group_topic_sum_lag", {**group, "topic": "t"}) == 55
    assert get("kafka_partition_latest_offset", {"cluster_name": "prod", "topic": "t", "partition": "1"}) == 20


def test_of_a_led_group_the_client_is_named_and_its_host_is_not_known() -> None:
    (line,) = [
        line for line in generate_latest(exposed("g")).decode().splitlines()
        if line.startswith("kafka_consumergroup_group_lag{") and 'partition="0"' in line
    ]  # fmt: skip
    assert 'client_id="reader"' in line
    assert 'member_host=""' in line


def test_a_topic_of_two_groups_has_one_end() -> None:
    """Prometheus refuses a scrape that has a series twice."""
    lines = [line.rsplit(" ", 1)[0] for line in generate_latest(exposed("a", "b")).decode().splitlines() if "{" in line]
    assert len(lines) == len(set(lines))
    assert sum(line.startswith("kafka_partition_latest_offset") for line in lines) == 3


def test_a_very_large_group_has_no_series_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_lag_exporter, "PARTITIONS_MAX", 2)
    names = {sample.name for family in exposed("g").collect() for sample in family.samples}
    assert names == {
        f"kafka_consumergroup_group_{name}" for name in ("max_lag", "max_lag_seconds", "sum_lag", "topic_sum_lag")
    }
