"""How far behind a group is by what looks at it have shown, and what is said where nobody can know."""

from collections.abc import Mapping, Sequence

import pytest

from bellwether_kafka.coordinator.observation import GroupLag, LagVerdict, PartitionLag
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.observed import Lags, group_lag, of_one_partition, sample

OWNED = {TopicPartition("t", 0): "a-1"}
V = LagVerdict


def lag_of(
    refreshes: Sequence[tuple[float, int, int]], owners: Mapping[TopicPartition, str] | None = OWNED
) -> GroupLag:
    """Looks as (seconds, committed, end)."""
    return group_lag(*(of_one_partition(*refresh) for refresh in refreshes), owners=owners)


def partition(refreshes: Sequence[tuple[float, int, int]], **more: Mapping[TopicPartition, str] | None) -> PartitionLag:
    (only,) = lag_of(refreshes, **more).partitions()
    return only


def steady(committed: Sequence[int], ends: Sequence[int], every_s: float = 30) -> list[tuple[float, int, int]]:
    return [(number * every_s, at, end) for number, (at, end) in enumerate(zip(committed, ends, strict=True))]


class TestRecords:
    def test_one_refresh_has_the_lag_in_records_and_nothing_that_needs_two(self) -> None:
        lag = partition([(10, 5, 8)])
        assert (lag.topic, lag.partition, lag.member) == ("t", 0, "a-1")
        assert (lag.committed, lag.end, lag.lag) == (5, 8, 3)
        assert (lag.lag_ms, lag.lag_ms_min) == (None, 0)
        assert (lag.written_per_s, lag.consumed_per_s, lag.catch_up_ms) == (None, None, None)
        assert (lag.verdict, lag.note) == (V.UNKNOWN, "")

    def test_what_has_all_been_read_is_behind_by_nothing_at_once(self) -> None:
        lag = partition([(10, 8, 8)])
        assert (lag.lag, lag.lag_ms, lag.catch_up_ms, lag.verdict) == (0, 0, 0, V.OK)

    def test_without_a_commit_nothing_is_known(self) -> None:
        lag = partition([(10, -1, 8), (50, -1, 9)])
        assert (lag.committed, lag.lag, lag.lag_ms, lag.lag_ms_min) == (None, None, None, None)
        assert (lag.verdict, lag.note) == (V.UNKNOWN, "the group has committed no offset here")

    def test_an_end_that_is_not_known_makes_no_lag(self) -> None:
        lag = partition([(10, 5, -1)])
        assert (lag.lag, lag.note) == (None, "the end is not known")

    def test_a_committed_offset_beyond_the_end_is_no_lag_and_says_why(self) -> None:
        lag = partition([(10, 12, 8)])
        assert (lag.lag, lag.lag_ms, lag.verdict) == (None, None, V.UNKNOWN)
        assert lag.note == "the committed offset 12 is beyond the end 8: the topic was created again or lost records"


def test_each_partition_of_several_topics_has_its_own_number() -> None:
    ends = {"a": [10, 11], "b": [20, 21, 22], "c": [30]}
    committed = {topic: [0] * len(of) for topic, of in ends.items()}
    lag = group_lag(sample(10, committed, ends), owners={})
    everything = [(topic, number, end) for topic, of in ends.items() for number, end in enumerate(of)]
    assert [(each.topic, each.partition, each.end) for each in lag.partitions()] == everything
    assert [(each.topic, each.partition, each.lag) for each in lag.partitions(2)] == [("b", 2, 22), ("c", 0, 30)]


class TestTime:
    def test_a_lag_in_time_lies_between_the_refreshes_that_show_the_end_around_it(self) -> None:
        lag = partition([(0, 0, 100), (100, 100, 200), (200, 150, 300)])
        assert lag.lag_ms == 150_000, "record 150 was written halfway between the looks at 0 and 100 s"

    def test_the_record_after_a_pause_came_after_the_pause(self) -> None:
        lag = partition([(0, 100, 100), (100, 100, 100), (200, 100, 200)])
        assert lag.lag_ms == 100_000

    def test_a_refresh_without_the_end_is_left_out(self) -> None:
        lag = partition([(0, 0, 100), (100, 100, 200), (150, 150, -1), (200, 250, 300)])
        assert lag.lag_ms == 50_000, "record 250 was written halfway between the refreshes at 100 and 200 s"

    def test_beyond_what_was_read_is_known_as_at_least(self) -> None:
        lag = partition([(0, 50, 100), (100, 60, 200)])
        assert (lag.lag_ms, lag.lag_ms_min) == (None, 100_000)

    def test_a_topic_made_anew_is_watched_from_then_on(self) -> None:
        lag = partition([(0, 50, 100), (100, 0, 5), (150, 1, 9)])
        assert (lag.lag_ms, lag.lag_ms_min) == (None, 50_000)

    def test_a_clock_that_goes_back_makes_nothing_negative(self) -> None:
        lag = partition([(1_000, 50, 100), (100, 60, 200), (200, 200, 300)])
        assert (lag.lag_ms, lag.written_per_s) == (100_000, 1.0)

    def test_of_frequent_refreshes_few_are_kept_and_always_the_newest(self) -> None:
        lag = partition([(at_s, 50, 100 if at_s else 0) for at_s in range(0, 105, 5)])
        assert lag.lag_ms == 85_000, "record 50 was written halfway between the refreshes at 0 and 30 s"

    @pytest.mark.slow
    def test_the_past_ends_after_a_day(self) -> None:
        lag = partition([(at_s, 1, 3) for at_s in range(0, 100_000, 300)])
        assert 43_200_000 < (lag.lag_ms_min or 0) <= 86_400_000

    def test_of_a_very_large_group_nothing_but_the_newest_refresh_is_kept(self) -> None:
        for count, rate in ((20_000, 20_000 / 50), (20_001, None)):
            both = (sample(at, {"t": [at] * count}, {"t": [at] * count}) for at in (10, 60))
            assert group_lag(*both).summary().written_per_s == (rate and pytest.approx(rate * 50))

    def test_a_topic_that_grows_or_is_gone_leaves_the_others_their_past(self) -> None:
        before = sample(10, {"a": [1], "b": [3], "c": [0]}, {"a": [5], "b": [7], "c": [1]})
        lag = group_lag(before, sample(50, {"a": [2, 0], "b": [4]}, {"a": [5, 1], "b": [15]}))
        assert [(each.topic, each.written_per_s) for each in lag.partitions()] == [("a", 0.0), ("a", None), ("b", 0.2)]

    def test_a_topic_made_anew_while_its_end_was_not_known_has_no_past(self) -> None:
        assert partition([(10, 90, 100), (50, 90, -1), (90, 0, 3)]).written_per_s is None


class TestRates:
    def test_rates_are_means_and_show_when_the_group_has_caught_up(self) -> None:
        lag = partition([(0, 0, 1_000), (50, 500, 1_100), (100, 1_000, 1_200)])
        assert (lag.written_per_s, lag.consumed_per_s) == (2.0, 10.0)
        assert lag.catch_up_ms == 25_000

    def test_a_group_that_does_not_gain_does_not_catch_up(self) -> None:
        assert partition([(0, 0, 100), (100, 100, 200)]).catch_up_ms is None

    def test_refreshes_too_close_to_one_another_show_no_rate(self) -> None:
        assert partition([(0, 0, 100), (1, 10, 200)]).written_per_s is None

    def test_a_group_that_goes_back_has_no_negative_rate(self) -> None:
        lag = partition([(0, 90, 100), (50, 10, 110), (100, 60, 120)])
        assert (lag.consumed_per_s, lag.written_per_s) == (1.0, 0.2)


class TestVerdict:
    """Windows of five minutes, a sample every 30 s."""

    UP = tuple(range(0, 220, 20))  # eleven looks, 20 more each

    @pytest.mark.parametrize(
        ("committed", "ends", "verdict"),
        [
            (UP, UP, V.OK),
            ((100,) * 11, (130,) * 11, V.STALLED),
            ((100,) * 11, [130 + n for n in UP], V.STALLED),
            (UP, [100 + 2 * n for n in UP], V.FALLING_BEHIND),
            (UP, [100 + n for n in UP], V.OK),
            (UP, (500,) * 11, V.OK),
            ((100,) * 11, [100] * 9 + [120, 140], V.OK),
            ((*(100,) * 10, 101), [130 + n for n in UP], V.FALLING_BEHIND),
        ],
        ids=[
            "keeps up",
            "stuck at the end of a quiet topic",
            "stuck while records arrive",
            "moves and falls behind",
            "moves, always as far behind",
            "catches up",
            "had read everything within the window",
            "has moved once and falls behind",
        ],
    )
    def test_by_the_rules(self, committed: Sequence[int], ends: Sequence[int], verdict: LagVerdict) -> None:
        assert partition(steady(committed, ends)).verdict is verdict

    def test_one_smaller_lag_is_enough_not_to_fall_behind(self) -> None:
        ends = [100 + 2 * n for n in self.UP]
        ends[5:] = [end - 30 for end in ends[5:]]
        assert partition(steady(self.UP, ends)).verdict is V.OK

    def test_without_an_owner_it_has_stopped(self) -> None:
        refreshes = steady((100,) * 11, (130,) * 11)
        assert partition(refreshes, owners={}).verdict is V.STOPPED

    def test_while_nobody_knows_who_has_what_it_is_stalled_and_not_stopped(self) -> None:
        refreshes = steady((100,) * 11, (130,) * 11)
        assert partition(refreshes, owners=None).verdict is V.STALLED

    def test_nothing_is_reported_before_the_window_is_full(self) -> None:
        assert partition(steady((100,) * 10, (130,) * 10)).verdict is V.UNKNOWN

    def test_what_visibly_catches_up_needs_no_full_window(self) -> None:
        assert partition(steady((100, 150), (200, 210))).verdict is V.OK

    def test_a_reset_of_offsets_begins_a_new_window(self) -> None:
        assert partition(steady((*(100,) * 9, 10, 10), (130,) * 11)).verdict is V.UNKNOWN

    def test_refreshes_further_apart_than_the_window_are_a_window(self) -> None:
        assert partition([(0, 100, 130), (900, 100, 130)]).verdict is V.STALLED


class TestMarker:
    """A lag of one offset at the end of an idle partition may be the marker of a transaction."""

    IDLE = ((100,) * 12, (101,) * 12)

    def test_it_is_neither_stalled_nor_late(self) -> None:
        lag = lag_of(steady(*self.IDLE))
        (only,) = lag.partitions()
        assert (only.verdict, only.lag, only.lag_ms, only.lag_ms_min) == (V.UNKNOWN, 1, None, 0)
        assert only.note == "the last offset may be the marker of a transaction, which no consumer reads, or one record"
        assert (lag.summary().verdict, lag.summary().lag_ms) == (V.UNKNOWN, 0)

    @pytest.mark.slow
    def test_its_time_does_not_grow_after_hours_nor_once_the_rhythm_is_known(self) -> None:
        refreshes = [(at, 99, 99) for at in range(0, 60, 30)] + [(at, 100, 101) for at in range(60, 10_800, 60)]
        summary = lag_of(refreshes).summary()
        assert (summary.verdict, summary.lag_ms) == (V.UNKNOWN, 0)

    def test_without_a_member_it_has_not_stopped(self) -> None:
        assert partition(steady(*self.IDLE), owners={}).verdict is V.UNKNOWN

    @pytest.mark.parametrize(
        "ends", [(102,) * 12, (*(101,) * 11, 102), (*(101,) * 6, *(103,) * 6)], ids=["two", "one more", "written"]
    )
    def test_more_than_one_offset_or_a_new_one_is_stalled(self, ends: Sequence[int]) -> None:
        assert partition(steady((100,) * 12, ends)).verdict is V.STALLED


def every(interval_s: int, span_s: int) -> list[tuple[float, int, int]]:
    """Looks, 30 s apart, at a consumer that reads all and commits now and then."""
    return [(at, max(0, 100 * (at // interval_s * interval_s)), 100 * at) for at in range(0, span_s, 30)]


def verdicts_of(refreshes: Sequence[tuple[float, int, int]]) -> list[LagVerdict]:
    """At each sample."""
    lags = Lags()
    return [lags.after(of_one_partition(*refresh), owners=OWNED).summary().verdict for refresh in refreshes]


class TestRhythm:
    """A group has the time for a commit that it usually takes."""

    @pytest.mark.slow
    @pytest.mark.parametrize("interval_s", [60, 240, 600, 900, 3600])
    def test_a_consumer_that_keeps_its_rhythm_is_never_stalled(self, interval_s: int) -> None:
        verdicts = verdicts_of(every(interval_s, 3 * interval_s + 1_800))
        assert V.STALLED not in verdicts
        assert {*verdicts[interval_s // 30 + 1 :]} == {V.OK}, "from the first commit on"

    @pytest.mark.slow
    @pytest.mark.parametrize(("interval_s", "stalled_after_s"), [(30, 300), (60, 300), (900, 2 * 870)])
    def test_one_that_stops_is_stalled_after_twice_the_usual_time(self, interval_s: int, stalled_after_s: int) -> None:
        refreshes = every(interval_s, 7_201)
        refreshes += [(7_200 + late, 100 * 7_200, 100 * (7_200 + late)) for late in range(30, 3_600, 30)]
        late = verdicts_of(refreshes)[241:].index(V.STALLED) * 30 + 30
        assert late == pytest.approx(stalled_after_s, abs=60)

    @pytest.mark.slow
    def test_one_outage_is_no_rhythm(self) -> None:
        refreshes = every(30, 1_801)
        refreshes += [(1_800 + late, 180_000, 180_000 + 100 * late) for late in range(30, 7_200, 30)]
        refreshes += [(9_000 + late, 900_000 + 100 * late, 900_000 + 100 * late) for late in range(0, 600, 30)]
        refreshes += [(9_600 + late, 957_000, 957_000 + 100 * late) for late in range(0, 360, 30)]
        assert verdicts_of(refreshes)[-1] is V.STALLED

    def test_commits_of_other_partitions_show_the_rhythm(self) -> None:
        refreshes = [sample(at, {"t": [at, 100]}, {"t": [at, 130]}) for at in range(30, 360, 30)]
        owners = {TopicPartition("t", p): "a" for p in (0, 1)}
        assert group_lag(*refreshes, owners=owners).summary().verdict is V.STALLED

    @pytest.mark.slow
    def test_what_was_read_to_its_end_has_time_while_no_commit_was_seen(self) -> None:
        refreshes = [(at, 0, at) for at in range(0, 4_600, 20)]
        verdicts = verdicts_of(refreshes)
        assert {*verdicts[20:225]} == {V.UNKNOWN}
        assert verdicts[225] is V.STALLED, "75 minutes: longer than hourly commits"

    def test_what_waits_since_the_first_refresh_has_not(self) -> None:
        assert partition([(at, 1, 50) for at in range(0, 301, 30)]).verdict is V.STALLED

    @pytest.mark.slow
    def test_a_job_that_runs_each_hour_has_not_stopped_in_between(self) -> None:
        refreshes = [of_one_partition(*refresh) for refresh in every(3_600, 9_000)]
        assert group_lag(*refreshes, owners={}).summary().verdict is V.OK


class TestNeverCommitted:
    """A partition whose consumer dies of its first record."""

    UP = tuple(range(0, 240, 20))  # twelve looks, half a minute apart: the first record waits for five minutes

    def test_what_is_written_while_a_member_commits_nothing_is_stalled(self) -> None:
        lag = lag_of(steady((-1,) * 12, self.UP))
        (only,) = lag.partitions()
        assert (only.verdict, only.lag, lag.summary().verdict) == (V.STALLED, None, V.STALLED)
        assert only.note == "the group has committed no offset here, and records wait to be read"

    def test_it_represents_a_group_that_reads_the_others(self) -> None:
        refreshes = [sample(n * 30, {"t": [at, -1]}, {"t": [at, at]}) for n, at in enumerate(self.UP)]
        summary = group_lag(*refreshes, owners={TopicPartition("t", p): "a" for p in (0, 1)}).summary()
        assert (summary.verdict, summary.lag, summary.unknown) == (V.STALLED, 0, 1)
        assert (summary.verdicts["ok"], summary.verdicts["stalled"]) == (1, 1)

    def test_one_record_and_then_silence_is_stalled(self) -> None:
        assert partition(steady((-1,) * 12, (0, *(1,) * 11))).verdict is V.STALLED

    def test_one_commit_ends_it(self) -> None:
        assert partition(steady((*(-1,) * 11, 220), self.UP)).verdict is V.OK

    @pytest.mark.parametrize(
        ("ends", "owners"),
        [((500,) * 12, OWNED), ((0,) * 12, OWNED), ((0,) * 9 + (20,) * 3, OWNED), (UP, {})],
        ids=["only old records", "an empty log", "written a minute ago", "no member has it"],
    )
    def test_what_nobody_needs_to_have_read_is_unknown(
        self, ends: Sequence[int], owners: Mapping[TopicPartition, str]
    ) -> None:
        assert partition(steady((-1,) * 12, ends), owners=owners).verdict is V.UNKNOWN


class TestSummary:
    def test_what_is_unknown_is_counted_and_never_summed(self) -> None:
        committed, ends = {"t": [5, -1], "u": [7, 9]}, {"t": [8, 4], "u": [7, 3]}
        summary = group_lag(sample(10, committed, ends), owners={}).summary()
        assert (summary.partitions, summary.lag, summary.lag_max, summary.unknown) == (4, 3, 3, 2)
        assert (summary.lag_ms, summary.unknown_ms, summary.catch_up_ms) == (0, 3, None)

    def test_where_nothing_is_known_there_is_no_sum(self) -> None:
        summary = group_lag(sample(10, {"t": [-1]}, {"t": [8]}), owners={}).summary()
        assert (summary.lag, summary.lag_max, summary.lag_ms, summary.unknown) == (None, None, None, 1)
        assert (summary.written_per_s, summary.verdict) == (None, V.UNKNOWN)

    def test_of_no_partitions_nothing_is_known(self) -> None:
        summary = group_lag(sample(10, {}, {}), sample(50, {}, {}), owners={}).summary()
        assert (summary.partitions, summary.lag, summary.verdict, summary.catch_up_ms) == (0, None, V.UNKNOWN, None)

    def test_the_worst_partition_represents_the_group(self) -> None:
        both = [sample(at_s, {"t": [50, 100]}, {"t": [50, 130]}) for at_s in (0, 300)]
        summary = group_lag(*both, owners={TopicPartition("t", 1): "a"}).summary()
        assert summary.verdict is V.STALLED
        assert {name: count for name, count in summary.verdicts.items() if count} == {"ok": 1, "stalled": 1}
        assert (summary.lag_ms, summary.unknown_ms) == (300_000, 1), "at least so far behind"

    def test_what_is_too_early_to_judge_keeps_a_group_from_being_fine_and_what_never_committed_does_not(self) -> None:
        early = group_lag(sample(10, {"t": [8, 5]}, {"t": [8, 9]}), owners={}).summary()
        never = group_lag(sample(10, {"t": [8, -1]}, {"t": [8, 9]}), owners={}).summary()
        assert (early.verdict, never.verdict, never.unknown) == (V.UNKNOWN, V.OK, 1)

    def test_rates_add_up_and_the_slowest_partition_catches_up_last(self) -> None:
        refreshes = (sample(0, {"t": [0, 0]}, {"t": [100, 500]}), sample(100, {"t": [50, 300]}, {"t": [100, 600]}))
        summary = group_lag(*refreshes, owners={}).summary()
        assert (summary.written_per_s, summary.consumed_per_s) == (1.0, 3.5)
        assert summary.catch_up_ms == 150_000
