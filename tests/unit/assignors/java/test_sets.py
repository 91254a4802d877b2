"""Iteration orders recorded from java.util.HashSet<TaskId> (Java 17, kafka-streams 4.3.0): tasks 0_p, ascending."""

import pytest

from bellwether_kafka.assignors.java import task_set_order

GROWS_EARLY = [19, 51, 83, 115, 147, 3, 35, 67, 99, 131]
ONE_TREE = [
    3,
    131,
    259,
    387,
    515,
    643,
    771,
    899,
    1027,
    1539,
    1155,
    1283,
    1411,
    1667,
    1795,
    1923,
    2051,
    2179,
    2307,
    2435,
]
TREES_SPLIT = [
    *(387, 3, 131, 259, 515, 643, 771, 899, 1027, 1539, 1155, 1283, 1411, 1667, 1795, 1923, 2051, 2179, 2307, 2435),
    *(2563, 2691, 2819, 2947, 3075, 3203, 3331, 3459, 3587, 3715, 451, 195, 67, 323, 579, 707, 835, 963, 1091, 1603),
    *(1347, 1219, 1475, 1731, 1859, 1987, 2115, 2243, 2371, 2499, 2627, 2755, 2883, 3011, 3139, 3267, 3395, 3523),
    *(3651, 3779),
]


@pytest.mark.parametrize(
    ("stride", "expected"),
    [
        pytest.param(1, list(range(16, 2, -1)), id="every bucket once"),
        pytest.param(16, GROWS_EARLY, id="nine in a bucket of a small table make it grow"),
        pytest.param(128, ONE_TREE, id="nine in a bucket make a tree"),
        pytest.param(64, TREES_SPLIT, id="growing splits trees"),
    ],
)
def test_order_is_that_of_java(stride: int, expected: list[int]) -> None:
    partitions = [3 + n * stride for n in range(len(expected))]
    order = task_set_order([0] * len(partitions), partitions)
    assert [partitions[position] for position in order] == expected


def test_nothing_has_no_order() -> None:
    assert task_set_order([], []) == []
