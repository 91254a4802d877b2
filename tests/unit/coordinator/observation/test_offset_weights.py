"""Weights from offsets alone: what is written, lag that stays, and how much rates vary."""

from collections.abc import Iterator, Sequence
from itertools import starmap

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Load, LoadAware, holding
from bellwether_kafka.assignors.shared import (
    NOBODY,
    ClusterView,
    GroupView,
    LogSample,
    OffsetRows,
    RecordSizes,
    SizesOfTopics,
    Weights,
    moves,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import cluster_of, members_of
from tests.kit.observed import Lags, Sample, group_lag, of_one_partition, sample, weights_of

NO_SIZES = SizesOfTopics()
ZIPF = 1 / np.arange(1, 61)
RATES = 6_000 * ZIPF / ZIPF.sum()


def test_nothing_is_known_before_ends_were_read_for_a_while() -> None:
    assert weights_of() == Weights()
    assert weights_of(of_one_partition(0, 5, 9), of_one_partition(10, 5, 90)) == Weights()
    assert weights_of(of_one_partition(0, 5, 9), of_one_partition(20, 29, 29)).of == {TopicPartition("t", 0): 1.0}


def test_only_lag_that_stays_adds_weight() -> None:
    brief = weights_of(*starmap(of_one_partition, ((0, 600, 600), (60, 600, 1200), (120, 1800, 1800))))
    assert brief.of == {TopicPartition("t", 0): 10.0}
    lasting = weights_of(
        *(of_one_partition(*refresh) for refresh in ((0, 0, 1200), (60, 600, 1800), (120, 1200, 2400)))
    )
    assert lasting.of == {TopicPartition("t", 0): 12.0}


def test_partitions_whose_ends_are_not_known_have_no_weight() -> None:
    estimates = weights_of(sample(0, {}, {"t": [0, -1]}), sample(40, {}, {"t": [80, 9]}))
    assert estimates.of == {TopicPartition("t", 0): 2.0}


def test_a_partition_keeps_its_weight_while_it_has_no_leader() -> None:
    ends = [[0, 0], [4_000, 80], [-1, 120], [-1, 160]]
    weights = weights_of(*(sample(40 * at, {}, {"t": row}) for at, row in enumerate(ends)))
    assert weights.of == {TopicPartition("t", 0): 100.0, TopicPartition("t", 1): pytest.approx(160 / 120)}


def test_a_rate_that_varies_in_all_partitions_alike_is_no_error() -> None:
    ends = np.cumsum([0, 100, 900, 100, 500, 300])
    weights = weights_of(*(sample(40 * at, {}, {"t": [int(end), int(3 * end)]}) for at, end in enumerate(ends)))
    assert weights.error == pytest.approx(0, abs=1e-9)
    assert (
        weights_of(of_one_partition(0, 0, 0), of_one_partition(40, 0, 9), of_one_partition(80, 0, 20)).error is None
    ), "two steps"


def weighed(samples: Sequence[Sample], sizes: SizesOfTopics = NO_SIZES) -> Weights:
    """What follows from offsets of which nothing was committed, and from sizes of records."""
    counts = {topic: len(ends) for topic, ends in samples[0].ends.items()}
    ends = np.array([[end for topic in counts for end in sample.ends[topic]] for sample in samples])
    at_ms = np.array([int(1_000 * sample.at_s) for sample in samples])
    return OffsetRows(counts, at_ms, np.full_like(ends, -1), ends, np.full_like(ends[0], -1), sizes).weights()


def sized(*bytes_of_records: int, intervals: int = 1) -> SizesOfTopics:
    """Returns the sizes of the records of topic t, from so many intervals. A partition with 0 shows none."""
    size = np.array(bytes_of_records, dtype=np.int64)
    nothing = np.zeros_like(size)
    sizes = RecordSizes.of(LogSample(size=nothing, start=nothing, end=nothing))
    for interval in range(1, intervals + 1):
        sizes = sizes.plus(LogSample(size=size * 10 * interval, start=nothing, end=nothing + 10 * interval))
    return SizesOfTopics({"t": sizes})


def loads(sizes: SizesOfTopics, *ends: int) -> list[float]:
    """Returns the weights of partitions that are written to for 100 seconds, up to these ends."""
    nothing = [0] * len(ends)
    return list(weighed([sample(0, {}, {"t": nothing}), sample(100, {}, {"t": [*ends]})], sizes).of.values())


def test_half_of_a_weight_follows_the_bytes_of_records() -> None:
    assert loads(sized(100, 300), 1_000, 1_000) == [7.5, 12.5]
    assert loads(sized(100, 100), 1_000, 3_000) == [10.0, 30.0], "records of one size change nothing"


def test_records_of_unknown_size_count_as_of_mean_size() -> None:
    assert loads(SizesOfTopics(missing="no broker reports sizes"), 1_000, 3_000) == [10.0, 30.0]
    other = SizesOfTopics({"other": sized(100).of["t"]})
    assert loads(other, 1_000, 3_000) == [10.0, 30.0]


@pytest.mark.parametrize(("ends", "sizes"), [((900, 100), (1, 10_000)), ((500, 500), (10, 90)), ((1, 99), (5_000, 50))])
def test_even_members_have_at_most_twice_the_mean_of_records_and_of_bytes(
    ends: tuple[int, int], sizes: tuple[int, int]
) -> None:
    weights, records = np.array(loads(sized(*sizes), *ends)), np.array(ends)
    of_bytes = records * np.array(sizes)
    for share in (records / records.sum(), of_bytes / of_bytes.sum()):
        assert (share <= 2 * weights / weights.sum() + 1e-9).all()


def test_weights_say_what_they_are_made_of() -> None:
    offsets = [of_one_partition(0, 0, 0), of_one_partition(100, 0, 1_000)]
    assert weighed(offsets).source == "records"
    assert weighed(offsets, sized(100)).source == "records and bytes"
    assert (
        weighed(offsets, SizesOfTopics(missing="no broker reports sizes")).source == "records; no broker reports sizes"
    )
    both = [sample(at, {}, {"t": [at], "u": [at]}) for at in (0, 100)]
    assert weighed(both, sized(100)).source == "records and bytes; sizes of 1 of 2 partitions are known"


def test_sizes_that_vary_widen_the_error() -> None:
    ends = [40 * at for at in range(6)]
    offsets = [sample(at, {}, {"t": [at, at]}) for at in ends]
    steady = sized(100, 100, intervals=2)
    assert weighed(offsets, steady).error == pytest.approx(0, abs=1e-9)
    nothing = np.zeros(2, dtype=np.int64)
    varied = steady.of["t"].plus(LogSample(size=np.array([3_000, 5_000]), start=nothing, end=nothing + 30))
    assert (weighed(offsets, SizesOfTopics({"t": varied})).error or 0) > 0.1


def test_sizes_of_a_single_interval_are_not_taken_for_exact() -> None:
    offsets = [sample(at, {}, {"t": [at, at]}) for at in range(0, 240, 40)]
    assert weighed(offsets).error == pytest.approx(0, abs=1e-9), "there are no sizes to be wrong"
    assert weighed(offsets, sized(100, 100)).error == pytest.approx((2 * (0.5 * 0.5) ** 2) ** 0.5)
    assert weighed(offsets, sized(100, 100, intervals=2)).error == pytest.approx(0, abs=1e-9)


def skewed() -> tuple[GroupView, ClusterView]:
    cluster = cluster_of({"t": 60})
    return GroupView.of(cluster, members_of([["t"]] * 6)), cluster


def noisy(seconds: int, seed: int = 1) -> Iterator[Sample]:
    """Refreshes every half minute while partitions are written at Zipf's rates with Poisson's noise."""
    random, ends = np.random.default_rng(seed), np.zeros(60, dtype=np.int64)
    for at_s in range(0, seconds + 1, 30):
        yield sample(at_s, {"t": ends.tolist()}, {"t": ends.tolist()})
        ends = ends + random.poisson(RATES * 30)


@pytest.mark.slow
def test_a_cold_group_becomes_even_within_three_minutes_and_noise_moves_nothing_afterwards() -> None:
    group, cluster = skewed()
    plan = LoadAware().assign(group, cluster)
    assert np.bincount(plan).tolist() == [10] * 6, "cold: by counts"
    before = plan
    moved: list[int] = []
    lags = Lags()
    for step, refresh in enumerate(noisy(2_100)):
        lags.after(refresh)
        if step % 2:
            continue  # a rebalance is asked for at most once a minute
        after = LoadAware(lags.weights()).assign(holding(group, before), cluster)
        moved.append(moves(before, after).moved)
        before = after
        if step == 6:
            shares = np.bincount(before, ZIPF, 6) / ZIPF.sum()
            lower_bound = max(1 / 6, ZIPF.max() / ZIPF.sum())
            assert shares.max() <= 1.05 * lower_bound
    assert (before != NOBODY).all()
    assert sum(moved[:4]) <= 18
    assert sum(moved[4:]) == 0, moved


def test_the_dead_band_is_as_wide_as_the_error_asks_for() -> None:
    group, cluster = skewed()
    bands = [
        Load.of(group, cluster, LoadAware(Weights({TopicPartition("t", 0): 1.0}, error=error))).rules.band
        for error in (0.0, 0.005, 0.5, None)
    ]
    assert bands == pytest.approx([0.02, 0.02 + 0.015 * 6**0.5, 0.10, 0.10])


def heavy(*refreshes: Sample, members: int) -> tuple[str, ...]:
    """The sentences on a group in which these members share partitions evenly."""
    owners = {TopicPartition("t", partition): f"m{partition % members}" for partition in range(60 if members else 0)}
    return group_lag(*refreshes, owners=owners).notes


def test_a_partition_that_no_assignment_can_balance_is_named() -> None:
    refreshes = list(noisy(300))
    (note,) = heavy(*refreshes, members=6)
    assert note.startswith(
        "too heavy to be balanced: t-0 (21%); an even share for each of 6 members is 17% of the load"
    )
    assert heavy(*refreshes, members=2) == (), "half of the load is more than the heaviest partition has"
    assert "t-2 (7%) and 8 more" in heavy(*refreshes, members=60)[0]


def test_a_partition_that_keeps_a_member_above_the_dead_band_is_named_once_its_share_is_certain() -> None:
    """With small records written in bulk, the heaviest partition of Zipf's law is 18 % above an even share."""

    def of(steps: int) -> tuple[str, ...]:
        ends = [[118 * at, *(100 * at for _ in range(4)), 82 * at] for at in range(0, 30 * steps + 1, 30)]
        return heavy(*(sample(30 * step, {}, {"t": row}) for step, row in enumerate(ends)), members=6)

    assert of(3) == (), "by how much shares vary is not known yet"
    assert of(6)[0].startswith("too heavy to be balanced: t-0 (20%)")


def test_partitions_are_not_called_heavy_before_their_rates_are_known() -> None:
    assert heavy(*noisy(30), members=6) == ()
    assert heavy(*noisy(300), members=0) == (), "nobody has a share"


def test_a_group_with_little_to_read_has_no_heavy_partitions() -> None:
    assert heavy(sample(0, {}, {"t": [0, 0, 0]}), sample(100, {}, {"t": [30, 0, 0]}), members=3) == ()
