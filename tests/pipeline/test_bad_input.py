"""Bad input, case by case: each record that is no row is counted and named, and the tables are those of the good ones.

The events topic created again and a checkpoint of another version are in `test_jobs`, a sampled topic created again in
the tests of samples, weights that arrive absurd, old or early in those of the weights' reader.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.coordinator.events import HEADER_BYTES
from bellwether_kafka.pipeline.source import dead_letters
from bellwether_kafka.pipeline.tables import TABLES, Options, weights
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
GOOD = (lag_event(NOW_MS, 5), traffic_event(NOW_MS, 900), membership_event(NOW_MS, "m"), decision_event(NOW_MS, 1, 2))


def refused(bad: Sequence[bytes | None]) -> Counter[str]:
    """How many records of each reason are dead, after every table was read: it must not know the bad ones."""
    raw = kafka_rows(local_spark(), [*bad, *GOOD])
    for name, table in TABLES.items():
        assert as_dicts(table(raw, SCHEMAS, Options())) == [of_the_good(name)], name
    dead = as_dicts(dead_letters(raw, SCHEMAS))
    assert {row["offset"] for row in dead} == set(range(len(bad)))
    return Counter(row["reason"] for row in dead)


@cache
def of_the_good(name: str) -> dict[str, Any]:
    """The one row that a table has without the bad records."""
    (row,) = as_dicts(TABLES[name](kafka_rows(local_spark(), GOOD), SCHEMAS, Options()))
    return row


def test_unknown_schema() -> None:
    """A fingerprint that no schema has, before bytes that would be a row under one of Bellwether."""
    strangers = [value[:2] + bytes(range(8)) + value[HEADER_BYTES:] for value in GOOD]
    assert refused([*strangers, b"\xc3\x01", b"junk", b"", None]) == {"unknown schema": 5, "not an event": 3}


def test_truncated_records() -> None:
    """Each event cut behind each of its bytes: whatever the cut leaves, it is no row."""
    cuts = [value[:end] for value in GOOD for end in range(HEADER_BYTES, len(value))]
    assert refused(cuts) == {"malformed": len(cuts)}


def test_clock_skew() -> None:
    """Events of clocks that are late, early or out of any range, by the brokers' clock."""
    late, early = NOW_MS - LATE_MS_MAX - 1, NOW_MS + AHEAD_MS_MAX + 1
    skewed = [
        make(at) for at in (late, early) for make in (lambda at: lag_event(at, 7), lambda at: traffic_event(at, 7))
    ]
    assert refused([*skewed, lag_event(-1, 7), lag_event(1 << 62, 7)]) == {
        "late": 2,
        "from the future": 2,
        "malformed": 2,
    }


def test_absurd_weights() -> None:
    """No weight comes of amounts that cannot be: the partition's other samples alone are behind it."""
    absurd = (-2, AMOUNT_MAX + 1, (1 << 63) - 1)
    values = [*GOOD, *(traffic_event(NOW_MS, size, partition=p) for size in absurd for p in (0, 1))]
    table = TABLES["rates"](kafka_rows(local_spark(), values), SCHEMAS, Options())
    (row,) = as_dicts(weights(table))
    assert (row["partition"], row["bytes_per_s"]) == (0, pytest.approx(90))


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("payments", True),
        ("x" * 240, True),
        ("x" * 241, False),
        ("x" * 300, False),
        ("a:" * 60, True),
        ("a:" * 90, False),
        ("%" * 81, False),
        ("ü" * 121, False),
        ("pay\0ments", False),
        ("../..", True),
        ("", True),
        ("__HIVE_DEFAULT_PARTITION__", False),
    ],
)
def test_a_group_that_is_no_name_of_a_folder_is_a_dead_letter(name: str, *, taken: bool) -> None:
    """One such group, which anybody may join, ended the jobs of all groups at each start."""
    event = SCHEMAS.encode("lag", {"group": name, "sampled_at_ms": NOW_MS, "entries": []})
    dead = as_dicts(dead_letters(kafka_rows(local_spark(), [event]), SCHEMAS))
    assert [row["reason"] for row in dead] == ["group is no name of a folder"] * (not taken)


def test_two_groups_whose_names_no_text_is_are_dead_letters() -> None:
    """Both would be written to one folder, and that they were there twice ended the job."""
    event = SCHEMAS.encode("lag", {"group": "name", "sampled_at_ms": NOW_MS, "entries": []})
    values = [event.replace(b"name", other) for other in (b"na\xffe", b"na\xfee")]
    dead = as_dicts(dead_letters(kafka_rows(local_spark(), values), SCHEMAS))
    assert [row["reason"] for row in dead] == ["group is no name of a folder"] * 2
