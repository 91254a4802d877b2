"""Helpers for integer arrays: sets as sorted arrays of codes, pairs as single codes, and rows of different lengths.

(numpy's own `unique` hashes, which is many times slower on large integers.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Integers = npt.NDArray[np.integer]
# The largest range of codes that `numbered` handles with a table: 4 MiB of flags, and four times that for the numbers.
_DIRECT = 1 << 22


def distinct(codes: LongArray) -> LongArray:
    """Returns the distinct values, ascending. Callers' codes mostly consist of a few ascending runs, which a stable
    sort exploits."""
    ordered = np.sort(codes, kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def numbered(codes: LongArray, limit: int) -> tuple[LongArray, IntArray]:
    """Returns (the distinct codes in ascending order, the index of each code among them). Codes lie between 0 and
    `limit` - 1. A table is used instead of sorting if `limit` is small enough."""
    if limit > _DIRECT:
        distinct_codes, inverse = np.unique(codes, return_inverse=True)
        return distinct_codes, inverse.reshape(-1).astype(np.int32)
    present = np.zeros(limit, dtype=np.bool_)
    present[codes] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), number[codes]


def among(codes: LongArray, sorted_codes: LongArray) -> BoolArray:
    """Marks the codes that are in `sorted_codes` (ascending)."""
    if not len(sorted_codes) or not len(codes):
        return np.zeros(len(codes), dtype=np.bool_)
    at = np.minimum(np.searchsorted(sorted_codes, codes), len(sorted_codes) - 1)
    is_among: BoolArray = sorted_codes[at] == codes
    return is_among


def starts(row: _Integers, rows: int) -> LongArray:
    """Returns where the entries of each row begin, if entries are ordered by row: the `first` array of a CSR layout."""
    return offsets(np.bincount(row, minlength=rows))


def offsets(sizes: _Integers | Sequence[int]) -> LongArray:
    """Returns where each run begins if runs of these sizes are concatenated, and, as the last element, where the last
    run ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def ordinals(sizes: _Integers) -> LongArray:
    """Returns the position (0, 1, ...) of every entry within its run, for runs of these sizes."""
    first = offsets(sizes)
    return np.arange(first[-1]) - np.repeat(first[:-1], sizes)


def run_ordinals(ordered: _Integers) -> LongArray:
    """Returns the position of each element among the elements equal to it. Equal elements must be adjacent."""
    first = np.flatnonzero(np.diff(ordered)) + 1
    return ordinals(np.diff(first, prepend=0, append=len(ordered)))


def task_code(process: _Integers | int, task: _Integers, tasks: int) -> LongArray:
    """Encodes each (process, task) pair as one number; `tasks` is the number of tasks. `np.divmod(code, tasks)` decodes
    it.

    Codes ascend by process, then by task. `tasks` may be 0 if there are no pairs.
    """
    codes: LongArray = np.asarray(process, dtype=np.int64) * tasks + task
    return codes


def lookup(values: npt.NDArray[_Scalar], index: _Integers, missing: object) -> npt.NDArray[_Scalar]:
    """Returns `values[index]`, with `missing` where the index is NOBODY."""
    return np.append(values, values.dtype.type(missing))[index]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of different lengths in one array: row r is `values[first[r]:first[r + 1]]`."""

    values: IntArray
    first: LongArray

    @classmethod
    def of(cls, row: _Integers, values: _Integers, rows: int) -> "Ragged":
        """Builds rows from values that are ordered by row; `row` holds the row of each value, in any order."""
        return cls(values.astype(np.int32), starts(row, rows))

    @classmethod
    def of_codes(cls, codes: LongArray, tasks: int, rows: int) -> "Ragged":
        """Builds one row of tasks per process from ascending `task_code`s."""
        return cls.of(codes // max(1, tasks), codes % max(1, tasks), rows)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        sizes = [len(row) for row in rows]
        return cls.of(np.repeat(np.arange(len(rows)), sizes), np.array([v for row in rows for v in row]), len(rows))

    def __getitem__(self, row: int) -> IntArray:
        return self.values[self.first[row] : self.first[row + 1]]

    def span(self, row: int) -> slice:
        """Returns the slice of a row, which also applies to arrays parallel to `values`."""
        return slice(int(self.first[row]), int(self.first[row + 1]))

    @property
    def row(self) -> IntArray:
        """The row of each value."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))

    def codes(self, tasks: int) -> LongArray:
        """The `task_code` of each (row, value)."""
        return task_code(self.row, self.values, tasks)
