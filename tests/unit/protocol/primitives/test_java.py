"""The orders of Java's strings and hash tables."""

import pytest

from bellwether_kafka.protocol.primitives import (
    ProcessId,
    hash_map_order,
    hash_order,
    java_sorted,
    spread,
    string_code,
    task_hash,
    task_set_order,
    uuid_hash,
)

# Recorded from java.util.HashSet<TaskId> (Java 17, kafka-streams 4.3.0): tasks 0_p, ascending.
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


def test_hashes_are_java_s() -> None:
    assert task_hash(0, 0) == 29791
    assert uuid_hash(ProcessId(0, 1)) == 1
    # 80000000-0000-0000-0000-000000000000: the halves fold to 0x80000000, which is spread over both halves of the int.
    assert uuid_hash(ProcessId(-(2**63), 0)) == 0x80008000
    assert hash_order([0, 1, 2], [17, 16, 1]) == [1, 0, 2]


def test_java_orders_strings_by_utf16_unit() -> None:
    assert java_sorted(["b", "a", "B"]) == ["B", "a", "b"]
    above_surrogates = "\ufb01"
    assert java_sorted([above_surrogates, "😀"]) == ["😀", above_surrogates]
    assert sorted([above_surrogates, "😀"]) == [above_surrogates, "😀"]


def test_java_hashes() -> None:
    assert string_code("") == 0
    assert string_code("orders") == _by_hand("orders")
    assert string_code("polygenelubricants") == 1 << 31  # well known: Integer.MIN_VALUE
    # In a table of 16 the three collide in one bucket and keep their order; one of 32 separates them.
    assert hash_map_order([33, 17, 1, 0]) == [3, 0, 1, 2]
    assert hash_map_order([33, 17, 1, *range(2, 12)]) == [0, *range(2, 13), 1]
    assert hash_map_order([spread(1 << 16), 0]) == [1, 0]


def _by_hand(text: str) -> int:
    return sum(ord(c) * int(31 ** (len(text) - 1 - i)) for i, c in enumerate(text)) % (1 << 32)
