"""Numbers for codes, and the codes themselves: sorted, found again, and where the entries of each row begin."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import among, arrays, distinct, numbered, starts


def random_codes(seed: int) -> list[int]:
    random = Random(seed)
    return [random.randrange(30) for _ in range(random.choice([0, 1, 2, 20, 100]))]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("table", [True, False], ids=["with a table", "by sorting"])
def test_equal_codes_have_equal_numbers_in_ascending_order(
    seed: int, table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not table:
        monkeypatch.setattr(arrays, "_DIRECT", 0)
    codes = random_codes(seed)
    ids, number = numbered(np.array(codes, dtype=np.int64), 30)
    assert ids.tolist() == sorted(set(codes))
    assert number.tolist() == [sorted(set(codes)).index(code) for code in codes]


@pytest.mark.parametrize("seed", range(20))
def test_distinct_codes_ascend(seed: int) -> None:
    codes = random_codes(seed)
    assert distinct(np.array(codes, dtype=np.int64)).tolist() == sorted(set(codes))


@pytest.mark.parametrize("seed", range(20))
def test_which_codes_are_known(seed: int) -> None:
    codes, listed = random_codes(seed), sorted(set(random_codes(seed + 100)))
    positions = among(np.array(codes, dtype=np.int64), np.array(listed, dtype=np.int64))
    assert positions.tolist() == [code in listed for code in codes]


@pytest.mark.parametrize("seed", range(20))
def test_where_the_entries_of_each_row_begin(seed: int) -> None:
    rows = sorted(random_codes(seed))
    first = starts(np.array(rows, dtype=np.int64), 30)
    assert [rows[a:b] for a, b in pairwise(first.tolist())] == [[row] * rows.count(row) for row in range(30)]
