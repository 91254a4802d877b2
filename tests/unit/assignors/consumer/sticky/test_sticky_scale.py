"""Large groups, at which other clients' sticky assignors take seconds or minutes, or loop.

Bounds are generous, an order of magnitude above what is measured; they catch a wrong complexity, not a slow machine.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.derived import subscriptions
from bellwether_kafka.assignors.consumer.follow_up import pending_partitions
from bellwether_kafka.assignors.consumer.sticky import place
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, GroupView, IntArray, MemberView

pytestmark = pytest.mark.slow


def wide_cluster(topics: int, partitions: Sequence[int] | int, racks: int = 0) -> ClusterView:
    """Topics with that many partitions; partition i (running number) is in rack i mod racks."""
    counts = np.broadcast_to(np.asarray(partitions, dtype=np.int32), (topics,)).copy()
    names = tuple(f"topic-{i:05}" for i in range(topics))
    first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    total = int(first[-1])
    return ClusterView(
        topics=names,
        counts=counts,
        first=first,
        racks=tuple(f"rack-{i}" for i in range(racks)),
        signature=(np.arange(total) % max(1, racks)).astype(np.int32),
        signature_racks=np.eye(max(1, racks), racks, dtype=np.bool_),
        leader_rack=np.full(total, NO_RACK, dtype=np.int32),
        index={name: i for i, name in enumerate(names)},
    )


def wide_group(
    cluster: ClusterView, sets: Sequence[Sequence[int]], topic_set: Sequence[int], owner: IntArray | None = None
) -> GroupView:
    size = len(topic_set)
    if owner is None:
        owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    order = np.argsort(owner, kind="stable")
    owned = order[owner[order] >= 0]
    first = np.concatenate([[0], np.cumsum(np.bincount(owner[owned], minlength=size), dtype=np.int64)])
    racks = len(cluster.racks)
    return GroupView(
        group_id="wide",
        generation=2,
        protocol="cooperative-sticky",
        members=tuple(MemberView(f"member-{i:06}") for i in range(size)),
        topic_sets=tuple(np.array(s, dtype=np.int32) for s in sets),
        topic_set=np.array(topic_set, dtype=np.int32),
        rack=(np.arange(size) % racks if racks else np.full(size, NO_RACK)).astype(np.int32),
        claims=owned.astype(np.int32),
        claims_first=first,
        claim_generation=np.ones(size, dtype=np.int32),
        remembered=np.full(cluster.partition_total, NOBODY, dtype=np.int32),
        by_id=np.arange(size, dtype=np.int32),
    )


def is_balanced(cluster: ClusterView, group: GroupView, owner: IntArray) -> None:
    """The oracle of the small groups on arrays: every subscribed partition once, at a subscriber, and nobody with two
    more than another holds a topic of this one."""
    table = subscriptions(group, len(cluster.topics))
    topic = cluster.topic_of()
    anybody = table[np.unique(group.topic_set)].any(axis=0)
    assert np.array_equal(owner >= 0, anybody[topic])
    placed = owner >= 0
    assert table[group.topic_set[owner[placed]], topic[placed]].all()
    load = np.bincount(owner[placed], minlength=group.size)
    richest = np.zeros(len(cluster.topics), dtype=np.int64)
    np.maximum.at(richest, topic[placed], load[owner[placed]])
    for row in np.unique(group.topic_set):
        poorest = load[group.topic_set == row].min()
        assert (richest[group.topic_sets[row]] <= poorest + 1).all()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("racks", [0, 3])
def test_a_million_partitions_and_one_newcomer(racks: int) -> None:
    cluster = wide_cluster(500, 2000, racks)
    everything = [range(500)]
    before = place(wide_group(cluster, everything, [0] * 1999), cluster)
    group = wide_group(cluster, everything, [0] * 2000, before)
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    assert np.bincount(owner).tolist() == [500] * 2000
    if not racks:
        assert int((owner != before).sum()) == 500
    assert np.array_equal(pending_partitions(group, owner), owner != before)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("odd", [range(499), range(1)])
def test_a_million_partitions_and_one_odd_member(odd: Sequence[int]) -> None:
    cluster = wide_cluster(500, 2000)
    sets = [range(500), odd]
    before = place(wide_group(cluster, sets, [0] * 1999), cluster)
    group = wide_group(cluster, sets, [0] * 1999 + [1], before)
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    assert int((owner == 1999).sum()) == 500
    assert int((owner != before).sum()) <= 1000


@pytest.mark.timeout(30)
def test_as_many_members_as_partitions() -> None:
    cluster = wide_cluster(1, 2100)
    before = place(wide_group(cluster, [[0]], [0] * 2099), cluster)
    group = wide_group(cluster, [[0]], [0] * 2100, before)
    owner = place(group, cluster)
    assert np.bincount(owner).tolist() == [1] * 2100
    assert int((owner != before).sum()) == 1


@pytest.mark.timeout(30)
def test_disjoint_halves_cost_nothing() -> None:
    cluster = wide_cluster(10, 2000)
    group = wide_group(cluster, [range(5), range(5, 10)], [i % 2 for i in range(500)])
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    assert np.bincount(owner).tolist() == [40] * 500


@pytest.mark.timeout(30)
def test_a_quarter_reads_half_of_the_topics() -> None:
    cluster = wide_cluster(100, 200)
    group = wide_group(cluster, [range(100), range(50)], [int(i % 4 == 0) for i in range(500)])
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    again = wide_group(cluster, group.topic_sets, group.topic_set.tolist(), owner)
    assert np.array_equal(place(again, cluster), owner)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("racks", [0, 3])
def test_random_halves_of_a_hundred_topics(racks: int) -> None:
    draw = np.random.default_rng(11)
    cluster = wide_cluster(100, 1000, racks)
    sets = [np.sort(draw.permutation(100)[:50]).tolist() for _ in range(1000)]
    before = place(wide_group(cluster, sets, range(999)), cluster)
    group = wide_group(cluster, sets, range(1000), before)
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    if not racks:
        assert int((owner != before).sum()) == 100


@pytest.mark.timeout(60)
def test_random_lists_and_fifty_of_two_hundred_leave() -> None:
    draw = np.random.default_rng(5)
    cluster = wide_cluster(40, draw.integers(1, 11, 40).tolist())
    sets = [np.sort(draw.permutation(40)[: draw.integers(1, 20)]).tolist() for _ in range(200)]
    group = wide_group(cluster, sets, range(200))
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    remain = owner >= 50
    left = np.where(remain, owner - 50, NOBODY).astype(np.int32)
    group = wide_group(cluster, sets[50:], range(150), left)
    after = place(group, cluster)
    is_balanced(cluster, group, after)


@pytest.mark.timeout(60)
def test_a_hundred_rebalances_of_changing_lists() -> None:
    draw = np.random.default_rng(23)
    for _ in range(100):
        topics, size = int(draw.integers(10, 21)), int(draw.integers(20, 41))
        cluster = wide_cluster(topics, draw.integers(1, topics + 1, topics).tolist())
        owner = None
        for _ in range(2):
            sets = [np.sort(draw.permutation(topics)[: draw.integers(1, topics + 1)]).tolist() for _ in range(size)]
            group = wide_group(cluster, sets, range(size), owner)
            owner = place(group, cluster)
            is_balanced(cluster, group, owner)


@pytest.mark.timeout(60)
def test_doubling_the_group_moves_half() -> None:
    draw = np.random.default_rng(2)
    cluster = wide_cluster(100, 1000)
    sets = [np.sort(draw.permutation(100)[:50]).tolist() for _ in range(1000)]
    before = place(wide_group(cluster, sets[:500], range(500)), cluster)
    group = wide_group(cluster, sets, range(1000), before)
    owner = place(group, cluster)
    is_balanced(cluster, group, owner)
    assert 50_000 <= int((owner != before).sum()) <= 52_000
