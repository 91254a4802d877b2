"""Laying out the assignments of a whole group in one buffer: the writing half of `protocol.bulk`."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from protocol.columns import LongArray
from protocol.primitives import Writer

_NULL = -1
# int16 version and int32 count before the entries, int32 userData length after them.
_HEAD_BYTES = 6
_BLOB_BYTES = 10


def lay_out(
    headers: list[bytes],
    member: LongArray,
    topic: LongArray,
    items: LongArray,
    partition: LongArray,
    members: int,
    version: int,
    user_data: Mapping[int, bytes],
) -> list[bytes]:
    """Writes all entries (member, topic, items; sorted) into one buffer and cuts it into the members' blobs.

    Names are stored eight bytes at a time; what the last eight bytes have too much is overwritten by the count and the
    first partition of the same entry.
    """
    header_size = np.array([len(h) for h in headers], dtype=np.int64)[topic]
    entry_end = np.cumsum(header_size + 4 + 4 * items)
    body = np.bincount(member, weights=header_size + 4 + 4 * items, minlength=members).astype(np.int64)
    blob_end = np.cumsum(body + _BLOB_BYTES)
    blob_at = blob_end - body - _BLOB_BYTES
    out = bytearray(int(blob_end[-1]))
    int16 = np.ndarray((len(out) - 1,), ">i2", out, strides=(1,))
    int32 = np.ndarray((len(out) - 3,), ">i4", out, strides=(1,))
    word = np.ndarray((len(out) - 7,), ">u8", out, strides=(1,))

    int16[blob_at] = version
    int32[blob_at + 2] = np.bincount(member, minlength=members)
    int32[blob_end - 4] = _NULL
    count_at = entry_end - 4 - 4 * items + _BLOB_BYTES * member + 6
    width = -(-max(map(len, headers), default=0) // 8)
    names = np.frombuffer(b"".join(h.ljust(8 * width) for h in headers), ">u8").reshape(len(headers), width)
    shortest = min(map(len, headers), default=0)
    for w in range(width):
        if shortest > 8 * w:
            word[count_at - header_size + 8 * w] = names[topic, w]
            continue
        long: LongArray = np.flatnonzero(header_size > 8 * w)
        word[count_at[long] - header_size[long] + 8 * w] = names[topic[long], w]
    int32[count_at] = items
    item_at = count_at + 4
    if len(items) < len(partition):
        item_at = np.repeat(item_at - 4 * (np.cumsum(items) - items), items) + 4 * np.arange(len(partition))
    int32[item_at] = partition

    raw = bytes(out)
    blobs = [raw[a:b] for a, b in zip(blob_at.tolist(), blob_end.tolist(), strict=True)]
    for m, data in user_data.items():
        blobs[m] = blobs[m][:-4] + len(data).to_bytes(4) + data
    return blobs


@lru_cache(maxsize=1 << 16)
def header(name: str) -> bytes:
    writer = Writer()
    writer.string(name)
    return writer.getvalue()
