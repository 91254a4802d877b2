"""`load-aware` on any group: valid, never worse than counts by its own score, bounded, and deaf to noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer import Load, LoadAware
from bellwether_kafka.assignors.consumer.validate import misplaced
from bellwether_kafka.assignors.shared import (
    NOBODY,
    ClusterView,
    GroupView,
    IntArray,
    MemberView,
    Rules,
    Weights,
    moves,
)

RACKS = (None, "a", "b", "c")
TOPICS = ("t", "u", "v")


@st.composite
def problems(draw: st.DrawFn) -> tuple[GroupView, ClusterView, LoadAware]:
    racks = st.sampled_from(RACKS if draw(st.booleans()) else RACKS[:1])
    layout = {t: [[draw(racks)] for _ in range(draw(st.integers(0, 8)))] for t in TOPICS}
    cluster = ClusterView.of(layout)
    members = [
        MemberView(f"m{i}", None, tuple(draw(st.lists(st.sampled_from(TOPICS), unique=True, min_size=1))), draw(racks))
        for i in range(draw(st.integers(1, 5)))
    ]
    total = cluster.partition_total
    owner = np.array(draw(st.lists(st.integers(NOBODY, len(members) - 1), min_size=total, max_size=total)), np.int32)
    loads = draw(st.lists(st.floats(0, 1e12), min_size=total, max_size=total))
    weights = Weights({cluster.name(flat): load for flat, load in enumerate(loads)})
    capacity = {f"m{i}": draw(st.sampled_from([1.0, 2.0, 4.0])) for i in range(len(members))}
    rules = Rules(moves_max=draw(st.sampled_from([None, 0, 1, 3])))
    group = GroupView.of(cluster, members, remembered=owner, remembered_generation=0)
    return group, cluster, LoadAware(weights, capacity, rules)


@settings(max_examples=300)
@given(problems())
def test_it_is_valid_bounded_and_no_worse_than_counts(problem: tuple[GroupView, ClusterView, LoadAware]) -> None:
    group, cluster, policy = problem
    owner = policy.assign(group, cluster)
    unowned, foreign = misplaced(group, cluster, owner)
    assert not unowned.any()
    assert not foreign.any()
    load = Load.of(group, cluster, policy)
    before, counted = load.before, LoadAware().assign(group, cluster)
    if load.reason:
        assert owner.tolist() == counted.tolist()
        return
    assert load.score(before, owner)[0] <= load.score(before, counted)[0] + 1e-9
    limit = policy.rules.limit(int((before != NOBODY).sum()))
    assert moves(before, owner).moved <= moves(before, counted).moved + limit
    assert policy.assign(group, cluster).tolist() == owner.tolist()


@pytest.mark.parametrize("racked", [False, True])
def test_ten_rebalances_under_noise_move_nothing(racked: bool) -> None:
    """A settled group whose partitions' loads each wander by up to a tenth either way, anew every rebalance. The groups
    are always the same ones: about one in 900 is so near to a threshold that the noise crosses it
    (docs/evidence/README.md#assigns)."""
    assert [seed for seed in range(100) if moved_by_noise(seed, racked=racked)] == []


def moved_by_noise(seed: int, *, racked: bool) -> bool:
    rng = np.random.default_rng(seed)
    members = int(rng.integers(2, 8))
    partitions = int(rng.integers(8 * members, 16 * members))
    racks = ("a", "b", "c") if racked else (None,)
    cluster = ClusterView.of({"t": [[racks[p % len(racks)]] for p in range(partitions)]})
    views = [MemberView(f"m{i}", None, ("t",), racks[i % len(racks)]) for i in range(members)]
    loads = np.exp(rng.normal(0, rng.uniform(0, 1.5), partitions))

    def plan(owner: IntArray, noise: float) -> IntArray:
        seen = loads * (1 + rng.uniform(-noise, noise, partitions))
        weights = Weights({cluster.name(flat): float(seen[flat]) for flat in range(partitions)})
        group = GroupView.of(cluster, views, remembered=owner, remembered_generation=0)
        return LoadAware(weights).assign(group, cluster)

    owner = plan(np.full(partitions, NOBODY, dtype=np.int32), 0.0)
    for _ in range(6):
        owner = plan(owner, 0.0)
    settled = owner
    for _ in range(10):
        owner = plan(owner, 0.1)
    return not np.array_equal(owner, settled)
