"""Sets of codes as sorted arrays. (numpy's own `unique` hashes, which is many times slower on large integers.)"""

import numpy as np

from bellwether_kafka.assignors.shared.model import BoolArray, IntArray, LongArray


def distinct(codes: LongArray) -> LongArray:
    """The distinct values, ascending. Most codes ascend in a few runs already, of which the stable sort makes use."""
    ordered = np.sort(codes, kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def among(codes: LongArray, known: LongArray) -> BoolArray:
    """Which codes are in `known` (ascending)."""
    if not len(known) or not len(codes):
        return np.zeros(len(codes), dtype=np.bool_)
    at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    found: BoolArray = known[at] == codes
    return found


def starts(row: LongArray | IntArray, rows: int) -> LongArray:
    """Where the entries of each row begin, for entries that are ordered by row: the `_first` of a CSR layout."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
