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
    sizes = [*map(len, headers)]
    header_size = np.array(sizes, dtype=np.int64)[topic]
    entry_size = 4 * items + (header_size + 4)
    entry_end = entry_size.cumsum()
    blob_size = np.bincount(member, weights=entry_size, minlength=members).astype(np.int64) + _BLOB_BYTES
    blob_end = blob_size.cumsum()
    blob_at = blob_end - blob_size
    out = bytearray(int(blob_end[-1]))
    int16 = np.ndarray((len(out) - 1,), ">i2", out, strides=(1,))
    int32 = np.ndarray((len(out) - 3,), ">i4", out, strides=(1,))
    word = np.ndarray((len(out) - 7,), ">u8", out, strides=(1,))

    int16[blob_at] = version
    int32[blob_at + 2] = np.bincount(member, minlength=members)
    int32[blob_end - 4] = _NULL
    name_at = entry_end - entry_size + (_BLOB_BYTES * member + _HEAD_BYTES)
    count_at = name_at + header_size
    width = -(-max(sizes, default=0) // 8)
    names = np.frombuffer(b"".join([h.ljust(8 * width) for h in headers]), ">u8").reshape(len(headers), width)
    shortest = min(sizes, default=0)
    for w, words in enumerate(names.T):
        if shortest > 8 * w:
            word[name_at + 8 * w] = words[topic]
            continue
        long: LongArray = (header_size > 8 * w).nonzero()[0]
        word[name_at[long] + 8 * w] = words[topic[long]]
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
