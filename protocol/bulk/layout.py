"""Lays out the assignments of a whole group in one buffer: the writing half of `protocol.bulk`."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from bellwether_kafka.protocol.bulk.columns import LongArray
from bellwether_kafka.protocol.primitives import Writer

_NULL = -1
# int16 version and int32 count before the entries, int32 userData length after them.
_HEAD_BYTES = 6
_BLOB_BYTES = 10
# How many names are stored at once: a name may have 249 bytes.
_CHUNK = 1 << 15


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

    Names are stored first, all as wide as the widest and in buffer order, so that the excess of each is overwritten by
    the next name and by the other fields stored later.
    """
    sizes = [*map(len, headers)]
    header_size = np.array(sizes, dtype=np.int64)[topic]
    entry_size = 4 * items + (header_size + 4)
    entry_end = entry_size.cumsum()
    blob_size = np.bincount(member, weights=entry_size, minlength=members).astype(np.int64) + _BLOB_BYTES
    blob_end = blob_size.cumsum()
    blob_at = blob_end - blob_size
    width = max(sizes, default=1)
    out = bytearray(int(blob_end[-1]) + width)
    int16 = np.ndarray((len(out) - 1,), ">i2", out, strides=(1,))
    int32 = np.ndarray((len(out) - 3,), ">i4", out, strides=(1,))
    text = np.ndarray((len(out) - width + 1,), f"V{width}", out, strides=(1,))

    name_at = entry_end - entry_size + (_BLOB_BYTES * member + _HEAD_BYTES)
    names = np.frombuffer(b"".join([h.ljust(width) for h in headers]), text.dtype)
    for begin in range(0, len(topic), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        text[name_at[part]] = names[topic[part]]
    int16[blob_at] = version
    int32[blob_at + 2] = np.bincount(member, minlength=members)
    int32[blob_end - 4] = _NULL
    count_at = name_at + header_size
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
