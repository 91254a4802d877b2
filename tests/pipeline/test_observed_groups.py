"""The jobs read events of groups that are only observed as they read those of led ones."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.coordinator.observation import Observation, Rebalances
from bellwether_kafka.coordinator.telemetry import ObservedRebalances, ObservedSamples
from bellwether_kafka.pipeline.tables import TABLES, Options
from tests.kit.observed import SKEWED, group_lag, member, observed_group, sample
from tests.pipeline.spark import NOW_MS, SCHEMAS, as_dicts, kafka_rows, local_spark

pytestmark = pytest.mark.timeout(600)

INTERVAL_MS = 30_000
START_MS = NOW_MS - NOW_MS % 300_000
CHANGED = observed_group(member("a-1", "az1", "orders-1"), member("b-1", "az2", "orders-0", "orders-2", "orders-3"))


def published() -> list[bytes | None]:
    """Three refreshes: each partition is written to, orders-0 is read, and c goes away."""
    values: list[bytes | None] = []

    class Publisher:
        def offer(self, event: str, record: Any) -> None:
            values.append(SCHEMAS.encode(event, dict(record)))

        def offer_later(self, _: str, work: Any) -> None:
            for event, record in work():
                self.offer(event, record)

    publisher, seen_ones = Publisher(), Rebalances()
    samples, rebalances = ObservedSamples(publisher, INTERVAL_MS), ObservedRebalances(publisher.offer_later)
    for number, group in enumerate((SKEWED, SKEWED, CHANGED)):
        seen = refresh(number, group)
        ended = seen_ones.observe(seen)
        if ended is not None:
            rebalances.on_rebalance(seen, ended)
        samples.on_observation(seen)
        rebalances.on_observation(seen)
    return values


def refresh(number: int, seen: Observation) -> Observation:
    ends = [100 * number] * 4
    lag = group_lag(sample(0, {"orders": [90 * number, -1, 0, 0]}, {"orders": ends}))
    return replace(seen, seen_at_ms=START_MS + number * INTERVAL_MS, group_lag=lag)


def test_lags_traffic_between_racks_and_members_that_go_are_in_the_tables() -> None:
    raw = kafka_rows(local_spark(), published())
    tables = {
        name: as_dicts(TABLES[name](raw, SCHEMAS, Options())) for name in ("lag_trends", "rack_costs", "culprits")
    }
    lags = {row["partition"]: (row["lag_min"], row["lag_max"], row["unknown"]) for row in tables["lag_trends"]}
    assert lags[0] == (0, 20, 0)
    assert lags[1][2] == 3
    records = {(row["from_rack"], row["to_rack"]): row["records"] for row in tables["rack_costs"]}
    assert sum(records.values()) == 4 * 200
    assert {row["bytes"] for row in tables["rack_costs"]} == {0}
    assert sum(row["unknown"] for row in tables["rack_costs"]) == 8
    assert [(row["member"], row["change"], row["times"]) for row in tables["culprits"]] == [("c-1", "left", 1)]


def test_a_rebalance_that_was_seen_is_in_the_table_without_what_only_its_leader_knows() -> None:
    (row,) = as_dicts(TABLES["rebalances"](kafka_rows(local_spark(), published()), SCHEMAS, Options()))
    assert (row["rebalances"], row["cause"], row["last_sentence"]) == (1, "members left", "c left or died")
    assert (row["moved"], row["lost"], row["withheld"], row["fallbacks"]) == (0, 0, 0, 0)
    assert (row["pause_us"], row["pause_us_max"], row["members_max"]) == (None, None, 2)
