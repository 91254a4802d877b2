"""The locality swap against brute force: fewest cross-rack partitions first, then fewest moves, counts unchanged."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import locality
from bellwether_kafka.assignors.consumer.locality import improve
from bellwether_kafka.assignors.consumer.plan_cost import crossing
from bellwether_kafka.assignors.shared.dense_views import NOBODY, ClusterView, GroupView, IntArray, MemberView
from tests.seeds import seeds
from tests.unit.assignors.consumer.scenes import cluster_of, members_of, rack_mismatches, racked


def best_by_brute_force(group: GroupView, cluster: ClusterView, owner: IntArray, before: IntArray) -> tuple[int, int]:
    """(cross-rack, extra moves) of the best of all ways to hand the same counts around."""

    def allowed(candidate: Sequence[int]) -> bool:
        return all(cluster.name(f).topic in group.members[m].topics for f, m in enumerate(candidate))

    def cost(candidate: Sequence[int]) -> tuple[int, int]:
        return costs(group, cluster, owner, before, np.array(candidate, dtype=np.int32))

    return min(cost(c) for c in set(itertools.permutations(owner.tolist())) if allowed(c))


def costs(
    group: GroupView, cluster: ClusterView, owner: IntArray, before: IntArray, after: IntArray
) -> tuple[int, int]:
    return int(crossing(group, cluster, after).sum()), int(((after != owner) & (owner == before)).sum())


@pytest.mark.parametrize("seed", seeds(120))
def test_is_optimal_on_small_groups(seed: int) -> None:
    rng = random.Random(seed)
    racks: list[str | None] = ["a", "b", "c"][: rng.randint(1, 3)]
    cluster = ClusterView.of(
        {t: [[rng.choice([*racks, None]) for _ in range(rng.randint(1, 2))] for _ in range(3)] for t in ("t", "u")}
    )
    equal = rng.random() < 0.5
    members = [
        MemberView(f"m{m}", None, ("t", "u") if equal or m == 0 else rng.choice([("t", "u"), ("t",), ("u",)]), rack)
        for m, rack in enumerate(rng.choices([*racks, *racks, None, "elsewhere"], k=rng.randint(2, 4)))
    ]
    group = GroupView.of(cluster, members)
    eligible = [[m for m, v in enumerate(members) if cluster.name(f).topic in v.topics] for f in range(6)]
    owner = np.array([rng.choice(e) for e in eligible], dtype=np.int32)
    before = owner.copy()
    for f in rng.sample(range(6), rng.randint(0, 3)):
        before[f] = rng.choice([-1, *eligible[f]])
    after = improve(group, cluster, owner, before)

    assert np.bincount(after, minlength=4).tolist() == np.bincount(owner, minlength=4).tolist()
    assert all(after[f] in eligible[f] for f in range(6))
    assert costs(group, cluster, owner, before, after) == best_by_brute_force(group, cluster, owner, before)


def test_an_optimal_plan_does_not_move() -> None:
    cluster = cluster_of({"t": 6}, 1, "abc")
    group = GroupView.of(cluster, members_of([["t"]] * 3, list("abc")))
    owner = np.array([0, 1, 2, 0, 1, 2], dtype=np.int32)
    assert improve(group, cluster, owner, owner).tolist() == owner.tolist()


def test_a_cycle_over_three_racks_is_found() -> None:
    cluster = cluster_of({"t": 3}, 1, "abc")
    group = GroupView.of(cluster, members_of([["t"]] * 3, list("abc")))
    owner = np.array([1, 2, 0], dtype=np.int32)
    assert improve(group, cluster, owner, owner).tolist() == [0, 1, 2]


def test_members_without_a_rack_are_neutral() -> None:
    cluster = cluster_of({"t": 2}, 1, "ab")
    group = GroupView.of(cluster, members_of([["t"]] * 2, ["b", None]))
    owner = np.array([0, 1], dtype=np.int32)
    assert improve(group, cluster, owner, owner).tolist() == [1, 0]


@pytest.mark.slow
def test_a_hundred_thousand_partitions_on_six_racks() -> None:
    cluster = cluster_of({f"t{i:02}": 1000 for i in range(100)}, 2, "abcdef")
    group = GroupView.of(cluster, members_of([cluster.topics] * 600, ["abcdef"[i % 6] for i in range(600)]))
    owner = np.random.default_rng(1).permutation(np.arange(100_000, dtype=np.int32) % 600)
    after = improve(group, cluster, owner, owner)
    assert not crossing(group, cluster, after).any()
    assert np.array_equal(np.bincount(after), np.bincount(owner))


def test_a_search_for_better_racks_that_is_cut_short_leaves_a_plan_with_the_same_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, cluster = racked()
    owner = np.array([1, 2, 0] * 3 + [2, 3, 0] * 2, dtype=np.int32)
    before = np.full(15, NOBODY, dtype=np.int32)
    full = locality.improve(group, cluster, owner, before)
    monkeypatch.setattr(locality, "MAX_PASSES", 1)
    cut = locality.improve(group, cluster, owner, before)
    for improved in (full, cut):
        assert np.bincount(improved).tolist() == np.bincount(owner).tolist()
    crossing = [rack_mismatches(group, cluster, plan) for plan in (full, cut, owner)]
    assert crossing == sorted(crossing)
    assert crossing[0] < crossing[1]
