"""Numbers for codes: which there are, and the place of each among them. Where their range is small enough for a table
nothing is sorted."""

import numpy as np

from bellwether_kafka.assignors.shared.model import IntArray, LongArray

# The largest table: 4 MiB of flags, and four times that of numbers.
_DIRECT = 1 << 22


def numbered(codes: LongArray, limit: int) -> tuple[LongArray, IntArray]:
    """(the distinct codes ascending, the number of each code among them); codes are from 0 to `limit` - 1."""
    if limit > _DIRECT:
        distinct, inverse = np.unique(codes, return_inverse=True)
        return distinct, inverse.reshape(-1).astype(np.int32)
    present = np.zeros(limit, dtype=np.bool_)
    present[codes] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), number[codes]
