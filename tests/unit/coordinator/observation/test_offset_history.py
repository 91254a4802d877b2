"""What is remembered of looks at offsets, for how long, and what makes it void."""

from collections.abc import Mapping

import numpy as np
import pytest

from bellwether_kafka.coordinator.observation import offset_history
from bellwether_kafka.coordinator.observation.offset_history import OffsetHistory, OffsetSample

UNKNOWN = -1

DAY_MS = 86_400_000
Of = Mapping[str, list[int]]


def sample(at_s: float, committed: Of, ends: Of) -> OffsetSample:
    both = ({topic: np.array(column, dtype=np.int64) for topic, column in of.items()} for of in (committed, ends))
    return OffsetSample(int(at_s * 1000), *both)


def history(*samples: OffsetSample) -> OffsetHistory:
    offsets = OffsetHistory()
    for sample in samples:
        offsets = offsets.plus(sample)
    return offsets


def of_one_partition(at_s: float, committed: int, end: int) -> OffsetSample:
    return sample(at_s, {"t": [committed]}, {"t": [end]})


def test_refreshes_follow_one_another_topic_after_topic() -> None:
    offsets = history(
        sample(10, {"a": [1, 2], "b": [3]}, {"a": [5, 6], "b": [7]}),
        sample(50, {"a": [2, 2], "b": [4]}, {"a": [5, 8], "b": [9]}),
    )
    assert offsets.at_ms.tolist() == [10_000, 50_000]
    assert offsets.committed.tolist() == [[1, 2, 3], [2, 2, 4]]
    assert offsets.ends.tolist() == [[5, 6, 7], [5, 8, 9]]


def test_a_topic_that_grows_is_unknown_where_it_was_not() -> None:
    offsets = history(
        sample(10, {"a": [1], "b": [3]}, {"a": [5], "b": [7]}),
        sample(50, {"a": [2, 0], "b": [4]}, {"a": [5, 1], "b": [9]}),
    )
    assert offsets.ends.tolist() == [[5, UNKNOWN, 7], [5, 1, 9]]


def test_a_topic_that_is_gone_is_forgotten() -> None:
    offsets = history(
        sample(10, {"a": [1], "b": [3]}, {"a": [5], "b": [7]}),
        sample(50, {"b": [4], "c": [0]}, {"b": [9], "c": [1]}),
    )
    assert (dict(offsets.counts), offsets.ends.tolist()) == ({"b": 1, "c": 1}, [[7, UNKNOWN], [9, 1]])


def test_a_topic_made_anew_has_no_past() -> None:
    offsets = history(of_one_partition(10, 90, 100), of_one_partition(50, 0, 3))
    assert (offsets.committed.tolist(), offsets.ends.tolist()) == ([[UNKNOWN], [0]], [[UNKNOWN], [3]])


def test_an_end_that_is_not_known_for_a_moment_has_not_gone_back() -> None:
    offsets = history(of_one_partition(10, 90, 100), of_one_partition(50, 90, UNKNOWN), of_one_partition(90, 95, 110))
    assert (offsets.committed.tolist(), offsets.ends.tolist()) == ([[90], [90], [95]], [[100], [UNKNOWN], [110]])


def test_a_topic_made_anew_while_its_end_was_not_known_has_no_past() -> None:
    offsets = history(of_one_partition(10, 90, 100), of_one_partition(50, 90, UNKNOWN), of_one_partition(90, 0, 3))
    assert offsets.ends.tolist() == [[UNKNOWN], [UNKNOWN], [3]]


def test_a_group_that_goes_back_has_no_progress_before_and_the_ends_stay() -> None:
    offsets = history(of_one_partition(10, 90, 100), of_one_partition(50, 20, 103))
    assert (offsets.committed.tolist(), offsets.ends.tolist()) == ([[UNKNOWN], [20]], [[100], [103]])


@pytest.mark.parametrize("at_s", [10, 49, 50])
def test_a_clock_that_goes_back_begins_anew(at_s: float) -> None:
    assert history(
        of_one_partition(10, 1, 2), of_one_partition(50, 1, 3), of_one_partition(at_s, 1, 3)
    ).at_ms.tolist() == [at_s * 1000]


def test_of_frequent_refreshes_few_are_kept_and_always_the_newest() -> None:
    offsets = history(*(of_one_partition(at_s, at_s, at_s) for at_s in range(0, 105, 5)))
    assert offsets.at_ms.tolist() == [0, 30_000, 60_000, 90_000, 100_000]


@pytest.mark.slow
def test_the_past_is_thinned_out_in_proportion_to_its_age_and_ends_after_a_day() -> None:
    offsets = history(*(of_one_partition(at_s, at_s, at_s) for at_s in range(0, 100_000, 30)))
    newest, gaps = offsets.at_ms[-1], np.diff(offsets.at_ms)
    ages = newest - offsets.at_ms[1:]
    assert (gaps <= np.maximum(ages / 7, 60_000)).all(), gaps.tolist()
    assert newest - offsets.at_ms[0] <= DAY_MS
    assert newest - offsets.at_ms[0] > DAY_MS / 2
    assert len(offsets.at_ms) < 80


def test_of_a_very_large_group_nothing_but_the_newest_refresh_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_history, "PARTITIONS_MAX", 1)
    both = {"t": [1, 1]}
    assert history(sample(10, both, both), sample(50, both, both)).at_ms.tolist() == [50_000]


def test_a_window_reaches_back_to_the_row_before_it() -> None:
    offsets = history(*(of_one_partition(at_s, at_s, at_s) for at_s in range(0, 400, 40)))
    assert offsets.since(100_000).at_ms.tolist() == [240_000, 280_000, 320_000, 360_000]
    assert offsets.since(10**9).at_ms.tolist() == offsets.at_ms.tolist()
