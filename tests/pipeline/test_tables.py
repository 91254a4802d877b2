"""What the tables say about a few events written by hand, and what becomes of records that are none."""

import datetime as dt
import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.coordinator.events import HEADER_BYTES, EventSchema, SchemaSet, confluent
from bellwether_kafka.pipeline.source import dead_letters, single_objects
from bellwether_kafka.pipeline.tables import TABLES, Options, rates, weights
from tests.pipeline.spark import (
    NOW_MS,
    SCHEMAS,
    as_dicts,
    decision_event,
    kafka_rows,
    lag_event,
    local_spark,
    membership_event,
    traffic_event,
)

AHEAD_MS_MAX = 5 * 60_000
AMOUNT_MAX = 1 << 46
LATE_MS_MAX = 15 * 60_000

pytestmark = pytest.mark.timeout(600)
START_MS = NOW_MS - NOW_MS % 300_000


def table(name: str, values: list[bytes | None], schemas: SchemaSet = SCHEMAS) -> list[dict[str, Any]]:
    return as_dicts(TABLES[name](kafka_rows(local_spark(), values), schemas, Options()))


def test_lag_has_a_slope_and_a_time_to_catch_up() -> None:
    values: list[bytes | None] = [lag_event(START_MS + 10_000 * n, 1_000 - 100 * n) for n in range(5)]
    (row,) = table("lag_trends", [*values, lag_event(START_MS, -1)])
    assert (row["samples"], row["unknown"], row["lag_min"], row["lag_max"], row["lag_last"]) == (5, 1, 600, 1_000, 600)
    assert row["lag_p50"] == 800
    assert row["slope_per_s"] == pytest.approx(-10)
    assert row["catch_up_s"] == pytest.approx(60)


def test_cost_counts_what_crosses_racks_and_absurd_amounts_as_unknown() -> None:
    values = [
        traffic_event(NOW_MS, 2_000_000_000),
        traffic_event(NOW_MS, 500, replicas=("b", "a")),
        traffic_event(NOW_MS, -1),
        traffic_event(NOW_MS, AMOUNT_MAX + 1),
        traffic_event(NOW_MS, -5),
    ]
    rows = {(r["from_rack"], r["to_rack"]): r for r in table("rack_costs", list(values))}
    assert rows["b", "a"]["bytes"] == 2_000_000_000
    assert rows["b", "a"]["cost"] == pytest.approx(0.02)
    assert rows["b", "a"]["unknown"] == 3
    assert [row["bytes_per_s"] for row in table("rates", list(values))] == [pytest.approx(2_000_000_500 / 20)]
    assert (rows["a", "a"]["bytes"], rows["a", "a"]["cost"], rows["a", "a"]["crossed"]) == (500, 0.0, False)


def test_storms_and_who_caused_them() -> None:
    decisions: list[bytes | None] = [decision_event(START_MS + n, n, moved=2) for n in range(6)]
    (row,) = table("rebalances", decisions)
    assert (row["rebalances"], row["moved"], row["pause_us"], row["storm"]) == (6, 12, 6 * 6_750, True)
    assert row["last_sentence"] == "round 5"
    rows = table("culprits", [membership_event(NOW_MS, "flapper", change) for change in ("joined", "left", "joined")])
    assert {(r["member"], r["change"], r["times"]) for r in rows} == {("flapper", "joined", 2), ("flapper", "left", 1)}


def test_a_weight_is_a_median_that_one_burst_does_not_move() -> None:
    values = [traffic_event(START_MS - 300_000 * n, 1_000) for n in range(2)]
    values += [traffic_event(START_MS - 300_000 * 2, 9_000_000)]
    rows = rates(kafka_rows(local_spark(), values), SCHEMAS, Options())
    (row,) = as_dicts(weights(rows))
    assert (row["topic"], row["partition"], row["windows"]) == ("t", 0, 3)
    assert row["bytes_per_s"] == pytest.approx(100)
    assert row["estimated_at_ms"] == START_MS


def test_a_weight_has_an_error_by_how_much_its_windows_vary() -> None:
    values = [traffic_event(START_MS - 300_000 * n, size) for n, size in enumerate((900, 1_000, 1_100, 1_000))]
    rows = rates(kafka_rows(local_spark(), values), SCHEMAS, Options())
    (row,) = as_dicts(weights(rows))
    assert row["error"] == pytest.approx(1.2533 * 8.165 / 2, rel=1e-3)
    (few,) = as_dicts(weights(rates(kafka_rows(local_spark(), values[:3]), SCHEMAS, Options())))
    assert few["error"] is None


def test_every_record_is_in_a_table_or_among_the_dead() -> None:
    good = lag_event(NOW_MS, 5)
    values: list[bytes | None] = [
        good,
        good[:-3],
        b"junk",
        None,
        good[:2] + b"12345678" + good[10:],
        lag_event(NOW_MS - LATE_MS_MAX - 1, 5),
        lag_event(NOW_MS + AHEAD_MS_MAX + 1, 5),
    ]
    dead = {row["offset"]: row["reason"] for row in as_dicts(dead_letters(kafka_rows(local_spark(), values), SCHEMAS))}
    assert dead == {
        1: "malformed",
        2: "not an event",
        3: "not an event",
        4: "unknown schema",
        5: "late",
        6: "from the future",
    }
    (row,) = table("lag_trends", values)
    assert row["samples"] == 1


def test_records_in_a_registrys_framing_make_the_same_tables() -> None:
    """Beside single objects, where a topic went from one to the other; an id that the registry never gave is named."""
    good = lag_event(NOW_MS, 5)
    framed = confluent(17, good[HEADER_BYTES:])
    values: list[bytes | None] = [good, framed, confluent(99, good[HEADER_BYTES:]), framed[:-3], b"\x00\x01", None]
    raw = single_objects(kafka_rows(local_spark(), values), {17: SCHEMAS.latest("lag"), 18: SCHEMAS.latest("traffic")})
    (row,) = as_dicts(TABLES["lag_trends"](raw, SCHEMAS, Options()))
    assert row["samples"] == 2
    dead = {row["offset"]: row["reason"] for row in as_dicts(dead_letters(raw, SCHEMAS))}
    assert dead == {2: "unknown schema", 3: "malformed", 4: "not an event", 5: "not an event"}


def test_two_versions_of_a_schema_make_one_table() -> None:
    old = SCHEMAS.latest("membership")
    record = json.loads(old.text)
    record["fields"].append({"name": "host", "type": "string", "default": "unknown"})
    new = EventSchema("membership", 2, json.dumps(record))
    both = SchemaSet({**SCHEMAS.schemas, ("membership", 2): new})
    names = {"member": "m", "member_id": "m", "instance_id": None, "rack": None, "host": "h"}
    written = both.encode(
        "membership", {"group": "g", "generation": 1, "changed_at_ms": NOW_MS, "change": "joined", **names}
    )
    rows = table("culprits", [membership_event(NOW_MS, "m"), written], both)
    assert [(r["member"], r["times"]) for r in rows] == [("m", 2)]


def test_a_weight_follows_the_daily_pattern_where_three_days_of_it_are_known() -> None:
    """Thrice the traffic in the hour that comes next; partition 1 is known for two days only, partition 2 has forty
    times as much in that hour, of which four times are believed."""
    hour_ms = 3_600_000
    end_ms = START_MS - START_MS % hour_ms
    rows = [
        (dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC), "t", partition, at_ms, 100.0 * more, 1.0 * more)
        for at_ms in range(end_ms - 96 * hour_ms, end_ms, hour_ms // 4)
        for partition, days, times in ((0, 4, 3), (1, 2, 3), (2, 4, 40))
        for more in [times if at_ms // hour_ms % 24 == end_ms // hour_ms % 24 else 1]
        if at_ms >= end_ms - days * 24 * hour_ms
    ]
    columns = "window_start timestamp, topic string, partition int, sampled_at_ms long, bytes_per_s double,"
    estimates = weights(local_spark().createDataFrame(rows, columns + " records_per_s double"))
    assert {row["partition"]: row["bytes_per_s"] for row in as_dicts(estimates)} == {
        0: pytest.approx(300),
        1: pytest.approx(100),
        2: pytest.approx(400),
    }
    assert {row["partition"]: row["error"] for row in as_dicts(estimates)} == dict.fromkeys(range(3), 0.0)
    rows = [(*row[:4], row[4] * (1.1 if n % 2 else 0.9), row[5]) for n, row in enumerate(rows)]
    noisy = as_dicts(weights(local_spark().createDataFrame(rows, columns + " records_per_s double")))
    errors = {row["partition"]: row["error"] / row["bytes_per_s"] for row in noisy}
    assert 0.03 < errors[1] < 0.05, "twelve windows"
    assert 0.06 < errors[0] < 0.1, "that of the hour on four days, too"
