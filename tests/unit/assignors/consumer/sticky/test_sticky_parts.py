"""The parts that sticky plans are made of: components, claims, pouring."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.derived import compare, components, current_owner, rack_matters
from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts, level_rows, shares
from bellwether_kafka.assignors.shared import NOBODY
from tests.kit.consumers import cluster_of, racked
from tests.unit.assignors.consumer.sticky.sticky_scenes import Who, group_of

UNCLAIMED = -2


def split(wanted: dict[str, str]) -> list[tuple[set[str], set[str], bool]]:
    topics = sorted({t for words in wanted.values() for t in words.split()} | {"nobody"})
    cluster = cluster_of(dict.fromkeys(topics, 1))
    group = group_of(cluster, {name: Who(words) for name, words in wanted.items()})
    return [
        ({group.members[m].member_id for m in c.members}, {cluster.topics[t] for t in c.topics}, c.uniform)
        for c in components(group, len(cluster.topics))
    ]


def test_components() -> None:
    assert split({}) == []
    assert split({"a": ""}) == []
    assert split({"a": "t u", "b": "t u"}) == [({"a", "b"}, {"t", "u"}, True)]
    assert split({"a": "t", "b": "u", "c": "", "d": "u"}) == [({"a"}, {"t"}, True), ({"b", "d"}, {"u"}, True)]


def test_a_long_chain_is_one_component() -> None:
    order = np.random.default_rng(3).permutation(200)
    wanted = {f"m{i}": f"t{order[i]} t{order[i + 1]}" for i in range(199)}
    (part,) = split(wanted)
    assert part == (set(wanted), {f"t{i}" for i in range(200)}, False)


def test_members_of_a_component_are_in_member_id_order() -> None:
    cluster = cluster_of({"t": 1})
    group = group_of(cluster, {name: Who("t") for name in ("c", "a", "b")})
    (component,) = components(group, 1)
    assert component.members.tolist() == [1, 2, 0]


def test_compare_claims() -> None:
    claimant = np.array([0, 0, 1, 1, 2, 2], dtype=np.int32)
    claims = np.array([0, 1, 1, 2, 2, 3], dtype=np.int32)
    generation = np.array([5, 5, 4, 4, 4, 4], dtype=np.int32)
    winner, best = compare(claimant, claims, generation, 5)
    assert winner.tolist() == [0, 0, NOBODY, 2, NOBODY]
    assert best.tolist() == [5, 5, 4, 4, UNCLAIMED]


def test_current_owner_of_a_contested_partition_is_nobody() -> None:
    cluster = cluster_of({"t": 2})
    group = group_of(cluster, {"a": Who("t", "t-0"), "b": Who("t", "t-0 t-1")})
    assert current_owner(group, cluster).tolist() == [NOBODY, 1]


@pytest.mark.parametrize(
    ("load", "size", "amount", "wanted", "expected"),
    [
        ([0, 0], [1, 1], 3, [0, 0], [2, 1]),
        ([0, 0], [1, 1], 3, [0, 2], [1, 2]),
        ([5, 0, 1], [1, 1, 1], 3, [0, 0, 0], [0, 2, 1]),
        ([0, 0], [3, 1], 8, [0, 0], [6, 2]),
        ([4, 0], [2, 1], 1, [0, 0], [0, 1]),
        ([7], [2], 1, [0], [1]),
        ([3, 3, 3], [1, 1, 1], 2, [0, 0, 1], [1, 0, 1]),
    ],
)
def test_shares(load: list[int], size: list[int], amount: int, wanted: list[int], expected: list[int]) -> None:
    got = shares(np.array(load), np.array(size), amount, np.array(wanted))
    assert got.tolist() == expected


def test_levelling_in_passes_stops_at_the_last_one() -> None:
    before = np.array([[9, 0, 0]], dtype=np.int64)
    ones = np.ones(3, dtype=np.int64)
    counts = ClassCounts(
        before, np.ones((1, 3), dtype=np.bool_), before.copy(), ones, np.array([9]), before.sum(axis=0)
    )
    level_rows(counts, 0)
    assert counts.partitions.tolist() == [[9, 0, 0]]


@pytest.mark.parametrize(("before", "levelled"), [([2, 1], [2, 1]), ([2, 0], [1, 1]), ([3, 1], [2, 2])])
def test_two_members_that_differ_by_two_partitions_are_levelled(before: list[int], levelled: list[int]) -> None:
    rows = np.array([before], dtype=np.int64)
    ones = np.ones(2, dtype=np.int64)
    counts = ClassCounts(rows, np.ones((1, 2), dtype=np.bool_), rows.copy(), ones, rows.sum(axis=1), rows.sum(axis=0))
    level_rows(counts, 2)
    assert counts.partitions.tolist() == [levelled]


def test_racks_of_no_partitions_do_not_matter() -> None:
    _, cluster = racked()
    assert not rack_matters(cluster, np.array([0, 1], dtype=np.int32), np.zeros(0, dtype=np.int64))
