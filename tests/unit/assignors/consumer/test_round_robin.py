"""Round robin: exact small cases, static members, and a slow second opinion."""

import random
from collections.abc import Sequence

import pytest

from bellwether_kafka.assignors.consumer import BUILT_IN
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray, MemberView
from tests.kit.consumers import cluster_of, members_of, plan_of
from tests.seeds import seeds


def assign(cluster: ClusterView, members: Sequence[MemberView]) -> tuple[GroupView, IntArray]:
    group = GroupView.of(cluster, members, protocol="roundrobin")
    return group, BUILT_IN["roundrobin"].assign(group, cluster)


@pytest.mark.parametrize(
    ("counts", "topics", "expected"),
    [
        pytest.param(
            {"t1": 3, "t2": 2},
            [["t1"], ["t1", "t2"], ["t1"]],
            ["t1-0", "t1-1 t2-0 t2-1", "t1-2"],
            id="mixed subscriptions",
        ),
        pytest.param(
            {"t1": 3, "t2": 3},
            [["t1", "t2"], ["t1", "t2"]],
            ["t1-0 t1-2 t2-1", "t1-1 t2-0 t2-2"],
            id="the cursor goes on over topics",
        ),
        pytest.param(
            {"t1": 1, "t2": 1, "t3": 2},
            [["t1", "t3"], ["t2"], ["t1", "t3"]],
            ["t1-0 t3-1", "t2-0", "t3-0"],
            id="the cursor skips and stays behind the last owner",
        ),
    ],
)
def test_exact_plans(counts: dict[str, int], topics: Sequence[Sequence[str]], expected: list[str]) -> None:
    cluster = cluster_of(counts)
    group, owner = assign(cluster, members_of(topics))
    assert list(plan_of(group, cluster, owner).values()) == expected


def test_static_members_keep_their_partitions_when_their_ids_change() -> None:
    cluster = cluster_of({"t1": 5, "t2": 4})
    before = [MemberView("x", "instance1", ("t1", "t2")), MemberView("y", "instance2", ("t1", "t2"))]
    after = [MemberView("z", "instance1", ("t1", "t2")), MemberView("a", "instance2", ("t1", "t2"))]
    assert assign(cluster, before)[1].tolist() == assign(cluster, after)[1].tolist()


@pytest.mark.parametrize("seed", seeds(100))
def test_agrees_with_a_cursor_moved_one_step_at_a_time(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(rng.randint(1, 8))]
    cluster = cluster_of({t: rng.randint(0, 5) for t in names})
    lists = [tuple(rng.sample(names, rng.randint(0, len(names)))) for _ in range(3)]
    members = [
        MemberView(f"m{rng.random()}", rng.choice([None, f"i{m}"]), rng.choice(lists)) for m in range(rng.randint(1, 7))
    ]
    group, owner = assign(cluster, members)

    order = sorted(range(group.size), key=lambda m: members[m].order)
    expected: list[int] = []
    cursor = 0
    for topic, count in zip(cluster.topics, cluster.counts, strict=True):
        if not any(topic in m.topics for m in members):
            expected += [-1] * int(count)
            continue
        for _ in range(count):
            while topic not in members[order[cursor % group.size]].topics:
                cursor += 1
            expected.append(order[cursor % group.size])
            cursor += 1
    assert owner.tolist() == expected
