"""Parses many blobs at once with numpy; the other modules of `protocol.bulk` build on it.

All blobs are in one buffer. This module identifies equal lists of topics, and equal names anywhere in the buffer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

_INT8_MAX = 0x7F
_HEAD_BYTES = 64
_PREFIXES_PER_HEAD = 4
# A list of topics is searched in all members as long as the last search matched at least this share of them (one in
# ...).
_PREFIX_SHARE = 8
# Names up to this many bytes are compared by hashes; all are read to the length of the longest one.
_LONGEST_HASHED = 256
# So reads may go this far beyond the end of the last blob. Not more, because small groups would copy mostly padding.
_PADDING = bytes(_LONGEST_HASHED + 16)
_HASH_BITS_MAX = 17
# Names are compared in chunks that fit in a processor cache.
_CHUNK = 1 << 15
# Odd multipliers; each pass hashes what the previous one left unresolved. What the last pass leaves, and names longer
# than any valid topic, go to a dict one by one, so that names chosen to collide take linear time at most.
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class Packed:
    """Blobs concatenated in one buffer, readable at any (unaligned) position. `start` and `end` delimit each blob.

    Reads are unchecked but never leave the buffer for positions up to `end + 264`; callers compare with `end` before
    they use them.
    """

    __slots__ = ("_int16", "_int32", "_word", "end", "raw", "start", "uint16_at", "uint32_at")

    def __init__(self, blobs: Sequence[bytes]) -> None:
        self.raw = b"".join([*blobs, _PADDING])
        sizes = _sizes(blobs)
        self.end: LongArray = np.cumsum(sizes)
        self.start: LongArray = self.end - sizes
        size = len(self.raw)
        self._int16 = np.ndarray((size - 1,), ">i2", self.raw, strides=(1,))
        self._int32 = np.ndarray((size - 3,), ">i4", self.raw, strides=(1,))
        self.uint16_at = np.ndarray((size - 1,), ">u2", self.raw, strides=(1,))
        self.uint32_at = np.ndarray((size - 3,), ">u4", self.raw, strides=(1,))
        self._word = np.ndarray((size - 7,), ">u8", self.raw, strides=(1,))

    def int16(self, at: LongArray) -> LongArray:
        return self._int16[at].astype(np.int64)

    def int32(self, at: LongArray) -> LongArray:
        return self._int32[at].astype(np.int64)

    def words(self, at: LongArray) -> WordArray:
        """Returns eight bytes at each position."""
        words: WordArray = self._word[at].astype(np.uint64)
        return words

    def cut(self, begin: LongArray, end: LongArray) -> tuple[bytes | None, ...]:
        """Returns the parts from `begin` to `end`, None where `begin` is negative."""
        raw = self.raw
        return tuple([None if a < 0 else raw[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)])


def _sizes(blobs: Sequence[bytes]) -> LongArray:
    return np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))


@dataclass(frozen=True, slots=True, eq=False)
class TopicsRead:
    """The head of each subscription: its index into the distinct lists of topics (-1 if it does not decode) and its
    version. `tails` are the bytes after it (all bytes of a blob that does not decode)."""

    lists: list[tuple[str, ...]]
    index: IntArray
    version: LongArray
    tails: list[bytes]


def read_topics(blobs: Sequence[bytes]) -> TopicsRead:
    """Reads the heads of all subscriptions. Most members of a group send the same list, which is parsed once and then
    recognised by its bytes."""
    lists: dict[tuple[str, ...], int] = {}
    names: dict[bytes, str] = {}
    index = np.full(len(blobs), -1, dtype=np.int32)
    version = np.full(len(blobs), -1, dtype=np.int64)
    tails = list(blobs)
    rest: LongArray = np.arange(len(blobs))
    hit_count = len(rest)
    while len(rest) and hit_count * _PREFIX_SHARE >= len(rest):
        first = int(rest[0])
        topics, end = _parse_topics(blobs[first], names)
        if topics is None:
            rest = rest[1:]
            continue
        prefix = blobs[first][:end]
        others = [tails[m] for m in rest.tolist()] if len(rest) < len(tails) else tails
        shorter = [blob.removeprefix(prefix) for blob in others]
        same = _sizes(shorter) != _sizes(others)
        hits = rest[same]
        index[hits] = lists.setdefault(topics, len(lists))
        version[hits] = int.from_bytes(prefix[:2])
        if len(hits) == len(tails):
            tails = shorter
        else:
            for m, tail in zip(rest.tolist(), shorter, strict=True):
                tails[m] = tail
        rest, hit_count = rest[~same], len(hits)
    _read_rare_topics(rest.tolist(), lists, names, (index, version, tails))
    return TopicsRead(list(lists), index, version, tails)


def _read_rare_topics(
    rest: list[int],
    lists: dict[tuple[str, ...], int],
    names: dict[bytes, str],
    into: tuple[IntArray, LongArray, list[bytes]],
) -> None:
    """Does the same for members that share their lists with few others: a list is looked up by its first bytes."""
    index, version, tails = into
    by_head: dict[bytes, list[bytes]] = {}
    index_of: dict[bytes, int] = {}
    for m in rest:
        blob = tails[m]
        candidates = by_head.get(blob[:_HEAD_BYTES], ())
        prefix = next((candidate for candidate in candidates if blob.startswith(candidate)), b"")
        if not prefix:
            topics, end = _parse_topics(blob, names)
            if topics is None:
                continue
            prefix = blob[:end]
            index_of[prefix] = lists.setdefault(topics, len(lists))
            if end >= _HEAD_BYTES:
                heads = by_head.setdefault(blob[:_HEAD_BYTES], [])
                heads[:] = [prefix, *heads[: _PREFIXES_PER_HEAD - 1]]
        index[m] = index_of[prefix]
        version[m] = int.from_bytes(prefix[:2])
        tails[m] = blob[len(prefix) :]


def _parse_topics(blob: bytes, names: dict[bytes, str]) -> tuple[tuple[str, ...] | None, int]:
    """Returns (topics, where they end). Topics are None if the version is negative, or they do not fit or are not
    UTF-8."""
    at = 6
    count = int.from_bytes(blob[2:6], signed=True)
    if not 0 <= 2 * count <= len(blob) - at or blob[0] > _INT8_MAX:
        return None, 0
    raw: list[bytes] = []
    for _ in range(count):
        begin = at + 2
        at = begin + int.from_bytes(blob[at:begin], signed=True)
        if not begin <= at <= len(blob):
            return None, 0
        raw.append(blob[begin:at])
    try:
        for name in raw:
            if name not in names:
                names[name] = name.decode()
    except UnicodeDecodeError:
        return None, 0
    return tuple(map(names.__getitem__, raw)), at


def numbered(packed: Packed, at: LongArray, size: LongArray, numbers: dict[bytes, int]) -> IntArray:
    """Gives equal byte strings equal numbers: those of `numbers`, to which new strings are added."""
    ids = np.empty(len(at), dtype=np.int32)
    for begin in range(0, len(at), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        first_equal = _first_equals(packed, at[part], size[part])
        first = np.flatnonzero(first_equal == np.arange(len(first_equal)))
        number = np.empty(len(first_equal), dtype=np.int32)
        where = at[part][first]
        number[first] = [
            numbers.setdefault(packed.raw[a:b], len(numbers))
            for a, b in zip(where.tolist(), (where + size[part][first]).tolist(), strict=True)
        ]
        ids[part] = number[first_equal]
    return ids


def _first_equals(packed: Packed, at: LongArray, size: LongArray) -> LongArray:
    """Returns for each string the position of an equal one, mostly the same for all equal ones; its own if none was
    found.

    Hashing only proposes a position; the strings are then compared in full.
    """
    first_equal: LongArray = np.arange(len(at))
    rows: LongArray = np.flatnonzero(size <= _LONGEST_HASHED)
    at, size = at[rows], size[rows]
    words = [_name_word(packed, at, size, offset) for offset in range(0, int(size.max(initial=0)), 8)]
    mixed = size.astype(np.uint64)
    for word in words:
        mixed = (mixed ^ word) * np.uint64(_MULTIPLIERS[0])
        mixed ^= mixed >> np.uint64(29)

    bits = min(_HASH_BITS_MAX, len(rows).bit_length() + 2)
    table = np.empty(1 << bits, dtype=np.int64)
    pending: LongArray = np.arange(len(rows))
    for multiplier in _MULTIPLIERS:
        if not len(pending):
            continue
        bucket = ((mixed[pending] * np.uint64(multiplier)) >> np.uint64(64 - bits)).astype(np.int64)
        table[bucket] = pending
        proposed = table[bucket]
        same = size[proposed] == size[pending]
        for word in words:
            same &= word[proposed] == word[pending]
        first_equal[rows[pending[same]]] = rows[proposed[same]]
        pending = pending[~same]
    return first_equal


def _name_word(packed: Packed, at: LongArray, size: LongArray, offset: int) -> WordArray:
    """Returns eight bytes of each string from `offset` on; bytes beyond its end are shifted out."""
    word = packed.words(at + offset)
    excess = np.minimum(np.maximum(offset + 8 - size, 0), 8)
    if excess.any():
        # Two half shifts: C leaves a shift by 64 bits undefined.
        half = (4 * excess).astype(np.uint64)
        word = (word >> half) >> half
    return word
