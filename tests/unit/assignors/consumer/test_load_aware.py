"""The policy `load-aware`: even load, few moves, racks, capacities, and what happens without weights."""

from dataclasses import replace
from typing import Never

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Load, LoadAware
from bellwether_kafka.assignors.shared import (
    NOBODY,
    ClusterView,
    GroupView,
    IntArray,
    MemberView,
    Rules,
    Weight,
    Weights,
    load_balance,
    moves,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import members_of

RATIO_MAX = 1000.0
SKEW_MS_MAX = 300_000

RACKS = ("az1", "az2", "az3")


def world(
    sizes: list[float], members: int, owner: list[int] | IntArray | None = None, *, racks: bool = False
) -> tuple[GroupView, ClusterView, Weights]:
    """Topic t with these loads, and members that hold what `owner` says. With racks, partition p and member i stand in
    rack p % 3 and i % 3."""
    cluster = ClusterView.of({"t": [[RACKS[p % 3] if racks else None] for p in range(len(sizes))]})
    views = [MemberView(f"m{i}", None, ("t",), RACKS[i % 3] if racks else None) for i in range(members)]
    owned = None if owner is None else np.array(owner, dtype=np.int32)
    group = GroupView.of(cluster, views, remembered=owned, remembered_generation=0 if owned is not None else -1)
    return group, cluster, Weights({TopicPartition("t", p): size for p, size in enumerate(sizes)})


def imbalance(policy: LoadAware, group: GroupView, cluster: ClusterView, owner: IntArray) -> float:
    return Load.of(group, cluster, policy).imbalance(owner)


def test_skewed_load_is_levelled_where_counts_are_even_already() -> None:
    sizes = [900.0, 800, 100, 100, 100, 100, 500, 400, 100, 100, 100, 100]
    group, cluster, weights = world(sizes, 3, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    policy = LoadAware(weights, rules=Rules(moves_max=8))
    counted = LoadAware().assign(group, cluster)
    after = policy.assign(group, cluster)
    assert imbalance(policy, group, cluster, counted) > 1.6
    assert imbalance(policy, group, cluster, after) < 1.1
    assert moves(counted, after).moved <= 8


def test_nothing_moves_within_the_band() -> None:
    group, cluster, weights = world([105.0, 95, 100, 100, 96, 104], 3, [0, 0, 1, 1, 2, 2])
    assert LoadAware(weights).assign(group, cluster).tolist() == [0, 0, 1, 1, 2, 2]


def test_weights_with_small_errors_are_evened_out_further_than_those_without() -> None:
    group, cluster, weights = world([107.0, 95, 10, 98, 91, 8, 100, 91], 3, [0, 0, 0, 1, 1, 1, 2, 2])
    plain, certain = LoadAware(weights), LoadAware(replace(weights, errors=dict.fromkeys(weights.of, 0.1)))
    kept = plain.assign(group, cluster)
    assert kept.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert imbalance(certain, group, cluster, kept) > 1.05
    assert imbalance(certain, group, cluster, certain.assign(group, cluster)) < 1.02
    wide = replace(weights, errors=dict.fromkeys(weights.of, 10.0))
    assert LoadAware(wide).assign(group, cluster).tolist() == kept.tolist()


def test_moves_per_rebalance_are_bounded_and_the_rebalances_converge() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.uniform(50, 500, 120)
    sizes[:30] *= 4
    owner = np.repeat(np.arange(4), 30)
    policy = LoadAware(world(list(sizes), 4)[2], rules=Rules(moves_max=6))
    rebalances = 0
    while True:
        group, cluster, _ = world(list(sizes), 4, owner)
        after = policy.assign(group, cluster)
        moved = moves(owner.astype(np.int32), after).moved
        assert moved <= 6
        owner, rebalances = after, rebalances + 1
        if not moved:
            break
    assert rebalances < 20
    assert imbalance(policy, group, cluster, owner) < 1.1


def test_partitions_do_not_leave_their_rack_for_load() -> None:
    sizes = [400.0, 100, 100, 300, 100, 100, 300, 100, 100]
    group, cluster, weights = world(sizes, 6, [0, 1, 2, 0, 1, 2, 0, 1, 2], racks=True)
    after = LoadAware(weights, rules=Rules(moves_max=9)).assign(group, cluster)
    assert [RACKS[p % 3] for p in range(9)] == [RACKS[m % 3] for m in after.tolist()]
    assert sorted(np.bincount(after, sizes)[[0, 3]].tolist()) == [400, 600]


@pytest.mark.slow
def test_a_group_that_reads_across_racks_gets_even_and_local_in_rebalances_of_few_moves() -> None:
    """Levelling first always would end with two fifths of the load across racks: bringing partitions home first is
    tried as well."""
    sizes = [60.0] * 3 + [10.0] * 9 + [30.0] * 3 + [10.0] * 9
    owner = np.arange(24, dtype=np.int32) % 6
    racks = {m: RACKS[m // 2] for m in range(6)}
    cluster = ClusterView.of({"t": [[RACKS[p % 3]] for p in range(24)]})
    views = [MemberView(f"m{m}", None, ("t",), racks[m]) for m in range(6)]
    policy = LoadAware(Weights({TopicPartition("t", p): size for p, size in enumerate(sizes)}))
    for _ in range(12):
        group = GroupView.of(cluster, views, remembered=owner, remembered_generation=0)
        after = policy.assign(group, cluster)
        assert moves(owner, after).moved <= 4
        owner = after
    assert imbalance(policy, group, cluster, owner) < 1.1
    assert Load.of(group, cluster, policy).crossing(owner) < 0.3


def test_one_partition_is_the_whole_load_wherever_it_is_read() -> None:
    group, cluster, weights = world([5.0], 2, racks=True)
    load = Load.of(group, cluster, LoadAware(weights))
    assert [load.crossing(np.array([owner], dtype=np.int32)) for owner in (0, 1)] == [0.0, 1.0]


def test_partitions_come_home_where_that_unsettles_nobody() -> None:
    group, cluster, weights = world([100.0] * 6, 3, [1, 0, 2, 0, 1, 2], racks=True)
    after = LoadAware(weights).assign(group, cluster)
    assert after.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_large_member_gets_more() -> None:
    group, cluster, weights = world([100.0] * 12, 3)
    policy = LoadAware(weights, {"m0": 2.0})
    assert np.bincount(policy.assign(group, cluster)).tolist() == [6, 3, 3]


def test_one_partition_that_outweighs_the_rest_is_left_where_it_is() -> None:
    group, cluster, weights = world([10_000.0, 10, 10, 10, 10, 10], 2, [0, 0, 0, 1, 1, 1])
    after = LoadAware(weights).assign(group, cluster)
    assert after.tolist() == [0, 0, 0, 1, 1, 1]


def test_without_enough_weights_counts_decide_as_in_kafka() -> None:
    group, cluster, _ = world([1.0] * 8, 2, [0, 0, 0, 0, 0, 0, 1, 1])
    few = Weights({TopicPartition("t", p): 1e9 for p in range(3)})
    assert LoadAware(few).assign(group, cluster).tolist() == LoadAware().assign(group, cluster).tolist()
    assert "3 of 8" in Load.of(group, cluster, LoadAware(few)).reason


def test_a_group_of_nobody_has_no_owners() -> None:
    group, cluster, weights = world([1.0] * 3, 0)
    assert set(LoadAware(weights).assign(group, cluster).tolist()) == {NOBODY}


def test_members_only_get_what_they_subscribe_to() -> None:
    cluster = ClusterView.of({"t": [[None]] * 4, "u": [[None]] * 4})
    members = [MemberView("a", None, ("t",)), MemberView("b", None, ("t", "u")), MemberView("c", None, ("u",))]
    weights = Weights({TopicPartition(t, p): 1_000.0 if t == "t" else 1.0 for t in "tu" for p in range(4)})
    owner = LoadAware(weights).assign(GroupView.of(cluster, members), cluster)
    assert all(m in (0, 1) for m in owner[:4].tolist())
    assert all(m in (1, 2) for m in owner[4:].tolist())
    assert sorted(np.bincount(owner[:4], minlength=2).tolist()) == [2, 2]


def test_topics_with_little_load_are_levelled_among_those_who_read_them() -> None:
    cluster = ClusterView.of({"heavy": [[None]] * 4, "light": [[None]] * 6})
    members = [MemberView("a", None, ("heavy",)), MemberView("b", None, ("light",)), MemberView("c", None, ("light",))]
    before = np.array([0] * 4 + [1] * 6, dtype=np.int32)
    group = GroupView.of(cluster, members, remembered=before, remembered_generation=0)
    weights = Weights(
        {TopicPartition(t, p): 1_000.0 if t == "heavy" else 5.0 for t in cluster.topics for p in range(6)}
    )
    owner = LoadAware(weights, rules=Rules(moves_max=9)).assign(group, cluster)
    assert np.bincount(owner[4:]).tolist() == [0, 3, 3]


@pytest.mark.parametrize("absurd", [float("nan"), float("inf"), -1.0])
def test_estimates_that_are_no_rates_old_or_early_are_refused_by_name(absurd: float) -> None:
    now = 10_000_000
    estimates = {
        TopicPartition("t", 0): Weight(5.0, now),
        TopicPartition("t", 1): Weight(absurd, now),
        TopicPartition("t", 2): Weight(5.0, now - 1_001),
        TopicPartition("t", 3): Weight(5.0, now + SKEW_MS_MAX + 1),
    }
    weights, refused = Weights.usable(estimates, now, age_ms_max=1_000)
    assert dict(weights.of) == {TopicPartition("t", 0): 5.0}
    assert refused == {"absurd": 1, "old": 1, "from the future": 1}


def test_huge_and_tiny_estimates_are_clamped_and_missing_ones_are_their_topic_s_median() -> None:
    cluster = ClusterView.of({"t": [[None]] * 5})
    estimates = {0: 1e300, 1: 1.0, 2: 1.0, 3: 0.0}
    weights = Weights({TopicPartition("t", p): value for p, value in estimates.items()})
    dense, reason = weights.dense(cluster, np.ones(5, dtype=np.bool_))
    assert reason == ""
    assert dense[0] / dense[1] == pytest.approx(RATIO_MAX)
    assert dense[3] / dense[1] == pytest.approx(1 / RATIO_MAX)
    assert dense[4] == pytest.approx(np.median(dense[:4]))
    assert dense.mean() == pytest.approx(1.0)


def test_a_group_does_not_go_through_the_weights_of_the_whole_cluster() -> None:
    class OfCluster(dict[TopicPartition, float]):
        def items(self) -> Never:
            raise AssertionError("it takes longer than a broker waits for a plan")

    weights = Weights(OfCluster({TopicPartition(t, p): p + 1.0 for t in ("t", "other") for p in range(9)}))
    raw = weights.raw(ClusterView.of({"new": [[None]], "t": [[None]] * 10}))
    assert np.array_equal(raw, [np.nan, *range(1, 10), np.nan], equal_nan=True)


def test_what_weighs_nothing_is_balanced() -> None:
    cluster = ClusterView.of({"t": [[None]] * 4, "empty": []})
    group = GroupView.of(cluster, members_of([["t"], ["t"], ["empty"]]))
    weights = Weights({TopicPartition("t", p): 1.0 for p in range(4)} | {TopicPartition("gone", 0): 5.0})
    policy = LoadAware(weights)
    load = Load.of(group, cluster, policy)
    owner = np.array([0, 0, 1, 1], dtype=np.int32)
    assert load.imbalance(np.full(4, NOBODY, dtype=np.int32)) == 1.0
    assert load.balanced(owner).tolist() == owner.tolist()


def test_evening_out_that_is_cut_short_has_moved_something_in_the_right_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ClusterView.of({"t": [[None]] * 30})
    owner = np.zeros(30, dtype=np.int32)
    group = GroupView.of(cluster, members_of([["t"]] * 3), remembered=owner, remembered_generation=0)
    policy = LoadAware(Weights({TopicPartition("t", p): 100.0 for p in range(30)}), rules=Rules(moves_max=30))
    load = Load.of(group, cluster, policy)
    monkeypatch.setattr(load_balance, "_ATTEMPTS_MAX", 1)
    cut = load.balanced(owner)
    assert 1.0 < load.imbalance(cut) < load.imbalance(owner)
