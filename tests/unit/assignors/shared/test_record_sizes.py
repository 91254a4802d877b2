"""Bytes per record from the growth of logs: what shows them, and what must never count as 0 bytes."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import LogSample, RecordSizes, SizesOfTopics

INTERVALS_KEPT = 5
UNKNOWN = -1

KIB = 1_024


def log(*, size: int, end: int, start: int = 0) -> LogSample:
    """Returns a sample of a topic with one partition."""
    return logs((size, start, end))


def logs(*partitions: tuple[int, int, int]) -> LogSample:
    """Returns a sample of a topic, with (size, start, end) of each partition."""
    size, start, end = (np.array(column, dtype=np.int64) for column in zip(*partitions, strict=True))
    return LogSample(size=size, start=start, end=end)


def after(*samples: LogSample) -> RecordSizes:
    sizes = RecordSizes.of(samples[0])
    for sample in samples[1:]:
        sizes = sizes.plus(sample)
    return sizes


def typical(*samples: LogSample) -> list[float | None]:
    return [None if np.isnan(value) else value for value in after(*samples).typical().tolist()]


def test_a_log_that_grows_shows_the_bytes_of_its_records() -> None:
    assert typical(log(size=5_000, end=50), log(size=7_000, end=60)) == [200.0]


def test_one_sample_shows_nothing() -> None:
    assert typical(log(size=5_000, end=50)) == [None]


@pytest.mark.parametrize(
    "now",
    [log(size=UNKNOWN, end=60), log(size=7_000, end=UNKNOWN), log(size=7_000, end=60, start=UNKNOWN)],
    ids=["no size", "no end", "no start"],
)
def test_what_is_missing_is_unknown_and_not_zero(now: LogSample) -> None:
    assert typical(log(size=5_000, end=50), now) == [None]


def test_a_broker_that_is_silent_for_a_while_hides_no_growth() -> None:
    assert typical(log(size=5_000, end=50), log(size=UNKNOWN, end=55), log(size=7_000, end=60)) == [200.0]


def test_a_log_without_bytes_has_no_size_before_something_is_written() -> None:
    assert typical(log(size=0, end=0), log(size=0, end=0)) == [None]
    assert typical(log(size=0, end=0), log(size=0, end=0), log(size=300, end=3)) == [100.0]


def test_records_that_do_not_let_the_log_grow_are_not_free() -> None:
    assert typical(log(size=5_000, end=50), log(size=5_000, end=60)) == [None]


def test_retention_makes_the_log_smaller_and_changes_nothing() -> None:
    samples = log(size=5_000, end=50), log(size=7_000, end=60), log(size=1_000, end=65, start=60)
    assert typical(*samples) == [200.0]


def test_retention_that_deletes_less_than_was_written_changes_nothing() -> None:
    samples = log(size=5_000, end=50), log(size=7_000, end=60), log(size=7_500, end=80, start=25)
    assert typical(*samples) == [200.0]


def test_compaction_makes_the_log_smaller_and_changes_nothing() -> None:
    assert typical(log(size=5_000, end=50), log(size=7_000, end=60), log(size=900, end=61)) == [200.0]


def test_compaction_that_removes_less_than_was_written_is_outvoted() -> None:
    grown = [log(size=2_000 * at, end=10 * at) for at in range(1, 4)]
    assert typical(*grown, log(size=6_100, end=40), log(size=8_100, end=50)) == [200.0]


def test_a_recreated_topic_has_no_past() -> None:
    before = log(size=5_000, end=50), log(size=7_000, end=60)
    assert typical(*before, log(size=80, end=2)) == [None]
    assert typical(*before, log(size=80, end=2), log(size=480, end=12)) == [40.0]


def test_partitions_without_a_size_have_the_median_of_their_topic() -> None:
    first = logs((0, 0, 0), (0, 0, 0), (0, 0, 0), (UNKNOWN, 0, 0))
    second = logs((100, 0, 1), (300, 0, 1), (800, 0, 1), (UNKNOWN, 0, 9))
    assert typical(first, second) == [100.0, 300.0, 800.0, 300.0]


def test_new_partitions_begin_without_a_past_and_leave_that_of_the_others() -> None:
    sizes = after(log(size=0, end=0), log(size=200, end=2), logs((400, 0, 4), (0, 0, 0)), logs((600, 0, 6), (90, 0, 3)))
    assert sizes.typical().tolist() == [100.0, 30.0]
    assert len(after(logs((0, 0, 0), (0, 0, 0)), log(size=10, end=1)).measured) == 0, "fewer partitions"


def test_only_the_last_intervals_count() -> None:
    small = [log(size=10 * at, end=at) for at in range(4)]
    large = [log(size=30 + 1_000 * at, end=3 + at) for at in range(1, INTERVALS_KEPT + 1)]
    assert typical(*small, *large) == [1_000.0]


def test_the_error_follows_from_how_much_intervals_differ() -> None:
    even = after(*(log(size=KIB * at, end=at) for at in range(4)))
    assert even.relative_error().tolist() == [0.0]
    uneven = after(log(size=0, end=0), log(size=100, end=1), log(size=400, end=2))
    assert uneven.relative_error().tolist() == pytest.approx([100 / 200])
    assert np.isnan(after(log(size=0, end=0), log(size=100, end=1)).relative_error()).all(), "one interval"


def test_columns_follow_the_topics_of_the_group() -> None:
    sizes = SizesOfTopics({"a": after(log(size=0, end=0), log(size=100, end=1))})
    bytes_of_records, errors = sizes.columns({"b": 1, "a": 1})
    assert np.isnan(bytes_of_records).tolist() == [True, False]
    assert np.isnan(errors).all()
    assert np.isnan(sizes.columns({"a": 2})[0]).all(), "other partitions than those that were sampled"
