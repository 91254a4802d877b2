"""Idioms on integer arrays: sets of codes as sorted arrays, pairs as one code, rows of different lengths.

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
# The largest table for numbering: 4 MiB of flags, and four times that of numbers.
_DIRECT = 1 << 22


def distinct(codes: LongArray) -> LongArray:
    """The distinct values, ascending. Most codes ascend in a few runs already, of which the stable sort makes use."""
    ordered = np.sort(codes, kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def numbered(codes: LongArray, limit: int) -> tuple[LongArray, IntArray]:
    """(the distinct codes ascending, the number of each code among them); codes are from 0 to `limit` - 1. Where
    that is small enough for a table nothing is sorted."""
    if limit > _DIRECT:
        found, inverse = np.unique(codes, return_inverse=True)
        return found, inverse.reshape(-1).astype(np.int32)
    present = np.zeros(limit, dtype=np.bool_)
    present[codes] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), number[codes]


def among(codes: LongArray, known: LongArray) -> BoolArray:
    """Which codes are in `known` (ascending)."""
    if not len(known) or not len(codes):
        return np.zeros(len(codes), dtype=np.bool_)
    at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    found: BoolArray = known[at] == codes
    return found


def starts(row: _Integers, rows: int) -> LongArray:
    """Where the entries of each row begin, for entries that are ordered by row: the `_first` of a CSR layout."""
    return offsets(np.bincount(row, minlength=rows))


def offsets(sizes: _Integers | Sequence[int]) -> LongArray:
    """Where runs of these sizes begin when they are laid one behind the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def ordinals(sizes: _Integers) -> LongArray:
    """The positions 0, 1, ... of all entries within runs of these sizes."""
    first = offsets(sizes)
    return np.arange(first[-1]) - np.repeat(first[:-1], sizes)


def run_ordinals(ordered: _Integers) -> LongArray:
    """The position of each element among its equals; equals stand together."""
    first = np.flatnonzero(np.diff(ordered)) + 1
    return ordinals(np.diff(first, prepend=0, append=len(ordered)))


def task_code(process: _Integers | int, task: _Integers, tasks: int) -> LongArray:
    """One number for each (process, task) pair, of `tasks` tasks in all: `np.divmod(code, tasks)` takes it apart.

    Codes ascend by process, then task. `tasks` may be 0, when there are no pairs.
    """
    codes: LongArray = np.asarray(process, dtype=np.int64) * tasks + task
    return codes


def lookup(values: npt.NDArray[_Scalar], index: _Integers, missing: object) -> npt.NDArray[_Scalar]:
    """`values[index]`, and `missing` where the index is NOBODY."""
    return np.append(values, values.dtype.type(missing))[index]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of different lengths, one behind the other: row r is `values[first[r]:first[r + 1]]`."""

    values: IntArray
    first: LongArray

    @classmethod
    def of(cls, row: _Integers, values: _Integers, rows: int) -> "Ragged":
        """From values in the order of their rows; `row` has the row of each, in any order."""
        return cls(values.astype(np.int32), starts(row, rows))

    @classmethod
    def of_codes(cls, codes: LongArray, tasks: int, rows: int) -> "Ragged":
        """The tasks of each process, from ascending codes (`task_code`)."""
        return cls.of(codes // max(1, tasks), codes % max(1, tasks), rows)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        sizes = [len(row) for row in rows]
        return cls.of(np.repeat(np.arange(len(rows)), sizes), np.array([v for row in rows for v in row]), len(rows))

    def __getitem__(self, row: int) -> IntArray:
        return self.values[self.first[row] : self.first[row + 1]]

    def span(self, row: int) -> slice:
        """Where the values of a row are, also in arrays that are parallel to `values`."""
        return slice(int(self.first[row]), int(self.first[row + 1]))

    @property
    def row(self) -> IntArray:
        """The row of each value."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))

    def codes(self, tasks: int) -> LongArray:
        """The `task_code` of each (row, value)."""
        return task_code(self.row, self.values, tasks)
