"""The lag of the last hours: fixed in size, peaks and gaps kept."""

import sys
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.observation import LagTrends, Trend
from tests.kit.observed import SKEWED, group_lag, sample

POINTS = 68
STEP_MS_MAX = 320_000
STEP_MS_MIN = 10_000

HOUR_MS = 3_600_000
BEGAN_MS = 1_700_000_003_000


def trend(*refreshes: tuple[int, int | None]) -> Trend:
    """By time since the beginning, in milliseconds."""
    new_trend = Trend()
    for after_ms, lag in refreshes:
        new_trend.add(BEGAN_MS + after_ms, lag)
    return new_trend


def test_each_refresh_is_a_value_at_first() -> None:
    curve = trend((0, 5), (10_000, 7), (20_000, 0)).curve()
    assert curve.values == (5, 7, 0)
    assert curve.step_ms == STEP_MS_MIN
    assert curve.from_ms <= BEGAN_MS < curve.from_ms + STEP_MS_MIN


def test_what_nobody_knew_is_a_gap_and_never_zero() -> None:
    assert trend((0, 5), (10_000, None), (20_000, 6)).curve().values == (5, None, 6)
    assert trend((0, None)).curve().values == (None,)


def test_refreshes_that_are_far_apart_are_no_gap_but_a_silence_is() -> None:
    assert trend((0, 5), (30_000, 7)).curve().values == (5, 5, 5, 7)
    silent = trend((0, 5), (300_000, 7)).curve().values
    assert (silent[0], set(silent[1:-1]), silent[-1]) == (5, {None}, 7)


@pytest.mark.parametrize("hours", [0.1, 1, 5, 24])
def test_it_never_grows_and_reaches_back_six_hours(hours: float) -> None:
    last_ms = int(hours * HOUR_MS)
    curve = trend(*((at, at) for at in range(0, last_ms + 1, 10_000))).curve()
    assert len(curve.values) <= POINTS
    assert STEP_MS_MIN <= curve.step_ms <= STEP_MS_MAX
    reach_ms = BEGAN_MS + last_ms - curve.from_ms
    assert reach_ms >= min(last_ms, 6 * HOUR_MS - STEP_MS_MAX)
    assert curve.values[-1] == last_ms
    assert None not in curve.values[1:-1]


def test_a_peak_outlives_thinning_at_its_time() -> None:
    refreshes = [(at, 1_000_000 if at == HOUR_MS else 3) for at in range(0, 4 * HOUR_MS, 10_000)]
    curve = trend(*refreshes).curve()
    place = curve.values.index(1_000_000)
    begin_ms = curve.from_ms + place * curve.step_ms
    assert begin_ms <= BEGAN_MS + HOUR_MS < begin_ms + curve.step_ms
    assert curve.values.count(1_000_000) == 1


def test_a_clock_that_goes_back_begins_anew() -> None:
    assert trend((0, 5), (10_000, 6), (-HOUR_MS, 7)).curve().values == (7,)


def test_a_clock_that_goes_back_by_a_moment_drops_nothing() -> None:
    before_a_step = STEP_MS_MIN - BEGAN_MS % STEP_MS_MIN - 1
    assert trend((0, 5), (before_a_step + 1, 7), (before_a_step, 9)).curve().values == (5, 9)


def test_a_day_of_silence_begins_anew_too() -> None:
    assert trend((0, 5), (24 * HOUR_MS, 7)).curve().values[-1] == 7


def test_a_thousand_groups_take_less_than_a_megabyte_and_a_half() -> None:
    curve = trend(*((at, 10**12 + at) for at in range(0, 12 * HOUR_MS, 10_000)))
    size = sys.getsizeof(curve) + sys.getsizeof(curve._values) + 2 * sys.getsizeof(2**40)
    assert len(curve.curve().values) == POINTS
    assert size * 1_000 < 1_500_000


def test_both_led_and_observed_groups_are_remembered_until_they_are_gone() -> None:
    lag = group_lag(sample(0, {"orders": [1, 2]}, {"orders": [4, 9]}))
    trends = LagTrends(clock=lambda: lag.at_ms / 1000 + 10)
    trends.on_lag("led", lag)
    trends.on_lag("led", None)
    trends.on_observation(replace(SKEWED, group_id="seen", seen_at_ms=lag.at_ms, group_lag=lag))
    led, seen = trends.of("led"), trends.of("seen")
    assert led is not None
    assert seen is not None
    assert (led.summary, led.curve.values) == (None, (10, None))
    assert (seen.summary, seen.curve.values) == (lag.summary(), (10,))
    trends.on_gone("seen")
    trends.on_observation(replace(SKEWED, group_id="led", kind="missing"))
    assert (trends.of("seen"), trends.of("led"), trends.of("never")) == (None, None, None)
