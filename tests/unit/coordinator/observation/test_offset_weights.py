"""Weights from offsets alone: what is written, lag that stays, and how much rates vary."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.load_aware import Load, LoadAware, by_counts, holding
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, moves
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.coordinator.observation.lag_refreshes import heavy_partitions, weights_of
from bellwether_kafka.coordinator.observation.offset_history import OffsetHistory
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.unit.assignors.consumer.scenes import cluster_of, members_of
from tests.unit.coordinator.observation.test_offset_history import history, one, sample

ZIPF = 1 / np.arange(1, 61)
RATES = 6_000 * ZIPF / ZIPF.sum()


def test_nothing_is_known_before_ends_were_read_for_a_while() -> None:
    assert weights_of(OffsetHistory()) == Weights()
    assert weights_of(history(one(0, 5, 9), one(10, 5, 90))) == Weights()
    assert weights_of(history(one(0, 5, 9), one(20, 29, 29))).of == {TopicPartition("t", 0): 1.0}


def test_only_lag_that_stays_adds_weight() -> None:
    brief = weights_of(history(one(0, 600, 600), one(60, 600, 1200), one(120, 1800, 1800)))
    assert brief.of == {TopicPartition("t", 0): 10.0}
    lasting = weights_of(history(one(0, 0, 1200), one(60, 600, 1800), one(120, 1200, 2400)))
    assert lasting.of == {TopicPartition("t", 0): 12.0}


def test_partitions_whose_ends_are_not_known_have_no_weight() -> None:
    found = weights_of(history(sample(0, {}, {"t": [0, -1]}), sample(40, {}, {"t": [80, 9]})))
    assert found.of == {TopicPartition("t", 0): 2.0}


def test_a_partition_keeps_its_weight_while_it_has_no_leader() -> None:
    ends = [[0, 0], [4_000, 80], [-1, 120], [-1, 160]]
    found = history(*(sample(40 * at, {}, {"t": row}) for at, row in enumerate(ends)))
    assert weights_of(found).of == {TopicPartition("t", 0): 100.0, TopicPartition("t", 1): pytest.approx(160 / 120)}


def test_a_rate_that_varies_in_all_partitions_alike_is_no_error() -> None:
    ends = np.cumsum([0, 100, 900, 100, 500, 300])
    found = history(*(sample(40 * at, {}, {"t": [int(end), int(3 * end)]}) for at, end in enumerate(ends)))
    assert weights_of(found).error == pytest.approx(0, abs=1e-9)
    assert weights_of(history(one(0, 0, 0), one(40, 0, 9), one(80, 0, 20))).error is None, "two steps"


def skewed() -> tuple[GroupView, ClusterView]:
    cluster = cluster_of({"t": 60})
    return GroupView.of(cluster, members_of([["t"]] * 6)), cluster


def noisy(seconds: int, seed: int = 1) -> list[OffsetHistory]:
    """Returns what is known every half minute while partitions are written at Zipf's rates with Poisson's noise."""
    random, ends = np.random.default_rng(seed), np.zeros(60, dtype=np.int64)
    known, all_of_it = OffsetHistory(), []
    for at_s in range(0, seconds + 1, 30):
        known = known.plus(sample(at_s, {"t": ends.tolist()}, {"t": ends.tolist()}))
        all_of_it.append(known)
        ends = ends + random.poisson(RATES * 30)
    return all_of_it


def test_a_cold_group_becomes_even_within_three_minutes_and_noise_moves_nothing_afterwards() -> None:
    group, cluster = skewed()
    plan = LoadAware().assign(group, cluster)
    assert np.bincount(plan).tolist() == [10] * 6, "cold: by counts"
    before = by_counts(group, cluster)
    moved: list[int] = []
    for step, known in enumerate(noisy(2_100)):
        if step % 2:
            continue  # a rebalance is asked for at most once a minute
        after = LoadAware(weights_of(known)).assign(holding(group, before), cluster)
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


def owners(members: int) -> dict[TopicPartition, str]:
    return {TopicPartition("t", partition): f"m{partition % members}" for partition in range(60)}


def test_a_partition_that_no_assignment_can_balance_is_named() -> None:
    history = noisy(300)[-1]
    (note,) = heavy_partitions(history, owners(6))
    assert note.startswith(
        "too heavy to be balanced: t-0 (21%); an even share for each of 6 members is 17% of the load"
    )
    assert heavy_partitions(history, owners(2)) == (), "half of the load is more than the heaviest partition has"
    assert "t-2 (7%) and 7 more" in heavy_partitions(history, owners(60))[0]


def test_partitions_are_not_called_heavy_before_their_rates_are_known() -> None:
    assert heavy_partitions(OffsetHistory(), owners(6)) == ()
    assert heavy_partitions(noisy(30)[-1], owners(6)) == ()
    assert heavy_partitions(noisy(300)[-1], {}) == (), "nobody has a share"


def test_a_group_with_little_to_read_has_no_heavy_partitions() -> None:
    quiet = history(sample(0, {}, {"t": [0, 0, 0]}), sample(100, {}, {"t": [30, 0, 0]}))
    assert heavy_partitions(quiet, {TopicPartition("t", p): f"m{p}" for p in range(3)}) == ()
