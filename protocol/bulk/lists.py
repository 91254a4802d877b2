"""Reads lists of (topic, partitions) of many members at once: what they own, or what they are given.

Members of a settled group mostly have equal numbers of partitions of each topic, so that their lists differ only in
partition numbers. So one list is parsed and compared with all others as a stencil. Lists that fit no stencil are read
in lock step: in each step every list advances by one entry. Errors are not interpreted here: bad rows are marked.
"""

import struct
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.protocol.bulk.columns import BoolArray, IntArray, LongArray, Packed, WordArray, numbered

_ENTRY_BYTES = 6
_MAX_STRING_BYTES = 0x7FFF
_WORD_BYTES = 8
# With fewer lists than this in lock step, plain Python is faster per entry than a handful of numpy calls.
_NARROW = 32
# The most stencils to try, as long as the last one fitted this share of the lists (one in ...), and the fewest lists to
# use one for.
_STENCILS = 4
_STENCIL_SHARE = 8
_LEAST_ALIKE = 12
# Lists are compared with a stencil in parts that fit in a processor cache.
_COMPARED_BYTES = 1 << 18
_ENTRY_NAME = struct.Struct(">H")
_ENTRY_COUNT = struct.Struct(">I")


@dataclass(frozen=True, slots=True, eq=False)
class TopicLists:
    """The (topic, partitions) entries of many lists, list by list, entries in wire order.

    Per entry: `row` is its list, `topic` is an index into the distinct `names`, and `items_at` is where its `items`
    partitions begin. Per list: `after` is where it ends; `bad` marks lists that do not fit in their blob or have a name
    that is not UTF-8. The other fields are meaningless for bad lists.
    """

    row: LongArray
    topic: IntArray
    names: tuple[str, ...]
    items_at: LongArray
    items: LongArray
    after: LongArray
    bad: BoolArray

    def select(self, packed: Packed, usable: BoolArray) -> tuple[LongArray, LongArray, IntArray]:
        """Returns (row, index into names, partition) of every partition in the usable lists."""
        row, topic, at, items = self.row, self.topic, self.items_at, self.items
        if not usable.all():
            kept = usable[row]
            row, topic, at, items = row[kept], topic[kept], at[kept], items[kept]
        if (items == 1).all():
            return row, topic.astype(np.int64), packed.int32(at).astype(np.int32)
        begin = np.cumsum(items) - items
        spread = np.repeat(at - 4 * begin, items)
        spread += 4 * np.arange(len(spread))
        return np.repeat(row, items), np.repeat(topic, items).astype(np.int64), packed.int32(spread).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Stencil:
    """A list whose partition numbers are masked. For ("t": 5 and 9, "u": 3) it is:

        count      "t"       items      partitions           "u"       items      partition   padding
        00000002   0001 74   00000002   00000005 00000009    0001 75   00000001   00000003    ????     words
        ffffffff   ffff ff   ffffffff   00000000 00000000    ffff ff   ffffffff   00000000    0000     mask
        at byte:                        11                                        26

    It fits every list that has room for its `size` (30) and whose bytes equal `words` where `mask` is set. One
    comparison then yields where the partitions of each entry begin (`items_at`: 11 and 26) and how many there are
    (`items`: 2 and 1). `topic` is as in TopicLists.
    """

    words: WordArray
    mask: WordArray
    size: int
    topic: IntArray
    items_at: LongArray
    items: LongArray


class _Reader:
    """Lists while they are read: one slot per entry, those of a list adjacent.

    Lists that fit a stencil are filled in at once (`_alike`); other lists are read in lock step, or one by one if they
    are few.
    """

    def __init__(self, packed: Packed, at: LongArray, end: LongArray) -> None:
        self.packed, self.at, self.end = packed, at, end
        self.count = packed.int32(at)
        # Counts that cannot fit in their blob are marked bad before anything of that size is allocated.
        self.bad: BoolArray = (self.count < 0) | (at + 4 + self.count * _ENTRY_BYTES > end)
        self.count[self.bad] = 0
        self.after = at + 4
        self.topic_numbers: dict[bytes, int] = {}

    def read(self) -> TopicLists:
        rows = self.count.nonzero()[0]
        if not len(rows):
            nothing = np.zeros(0, dtype=np.int64)
            return TopicLists(nothing, nothing.astype(np.int32), (), nothing, nothing, self.after, self.bad)
        alike, rest = self._alike(rows)
        if len(alike) == 1 and not len(rest):
            return self._all_alike(rows, alike[0][1])
        self.first = np.cumsum(self.count) - self.count
        total = int(self.count.sum())
        self.items_at, self.items = np.empty((2, total), dtype=np.int64)
        self.topic = np.full(total, -1, dtype=np.int32)
        for mine, stencil in alike:
            slots = self.first[mine][:, None] + np.arange(len(stencil.items))
            self.items_at[slots] = self.at[mine][:, None] + stencil.items_at
            self.items[slots] = stencil.items
            self.topic[slots] = stencil.topic
            self.after[mine] += stencil.size - 4
        if len(rest) > _NARROW:
            self._walk_together(rest)
        else:
            self._walk_each(rest, self.at[rest] + 4, self.first[rest], self.count[rest])
        row: LongArray = np.arange(len(self.at)).repeat(self.count)
        topic, items_at, items = self.topic, self.items_at, self.items
        if self.bad.any():
            kept = ~self.bad[row]
            row, topic, items_at, items = row[kept], topic[kept], items_at[kept], items[kept]
        return self._lists(row, topic, items_at, items)

    def _all_alike(self, rows: LongArray, stencil: _Stencil) -> TopicLists:
        self.after[rows] += stencil.size - 4
        items_at = (self.at[rows][:, None] + stencil.items_at).ravel()
        topic: IntArray = np.tile(stencil.topic, len(rows))
        items: LongArray = np.tile(stencil.items, len(rows))
        return self._lists(rows.repeat(len(stencil.items)), topic, items_at, items)

    def _lists(self, row: LongArray, topic: IntArray, items_at: LongArray, items: LongArray) -> TopicLists:
        names = [_text(raw) for raw in self.topic_numbers]
        if None in names:
            no_text = np.array([name is None for name in names])
            self.bad[row[no_text[topic]]] = True
        return TopicLists(row, topic, tuple([n or "" for n in names]), items_at, items, self.after, self.bad)

    def _alike(self, rest: LongArray) -> tuple[list[tuple[LongArray, _Stencil]], LongArray]:
        """Returns (lists that fit stencils, all others)."""
        by_stencil: list[tuple[LongArray, _Stencil]] = []
        while len(rest) >= _LEAST_ALIKE and len(by_stencil) < _STENCILS:
            size = self.end[rest] - self.at[rest]
            middle = len(rest) // 2
            stencil = self._stencil(int(rest[(size == np.partition(size, middle)[middle]).argmax()]))
            if stencil is None:
                break
            fits = self._fits(stencil, self.at[rest], self.end[rest])
            by_stencil.append((rest[fits], stencil))
            rest = rest[~fits]
            if len(by_stencil[-1][0]) * _STENCIL_SHARE < len(rest):
                break
        return by_stencil, rest

    def _stencil(self, row: int) -> _Stencil | None:
        begin, stop, count = int(self.at[row]), int(self.end[row]), int(self.count[row])
        read = self._walk_one(begin + 4, stop, count)
        if read is None:
            return None
        topic, items_at, items, after = read
        size = after - begin
        words = -(-size // _WORD_BYTES)
        mask = np.zeros(words * _WORD_BYTES, dtype=np.uint8)
        mask[:size] = 0xFF
        for a, many in zip(items_at, items, strict=True):
            mask[a - begin : a - begin + 4 * many] = 0
        raw = self.packed.raw[begin : begin + len(mask)]
        return _Stencil(
            np.frombuffer(raw, dtype=np.uint64),
            mask.view(np.uint64),
            size,
            np.array(topic, dtype=np.int32),
            np.array(items_at, dtype=np.int64) - begin,
            np.array(items, dtype=np.int64),
        )

    def _fits(self, stencil: _Stencil, at: LongArray, end: LongArray) -> BoolArray:
        width = len(stencil.words) * _WORD_BYTES
        fits: BoolArray = at + stencil.size <= end
        # The padding of the buffer is longer than what a stencil reads after a list that is long enough.
        rows = np.arange(len(at)) if fits.all() else fits.nonzero()[0]
        text = np.ndarray((len(self.packed.raw) - width + 1,), f"V{width}", self.packed.raw, strides=(1,))
        step = max(1, _COMPARED_BYTES // width)
        for begin in range(0, len(rows), step):
            part = rows[begin : begin + step]
            words = text[at[part]].view(np.uint64).reshape(len(part), -1)
            words ^= stencil.words
            words &= stencil.mask
            fits[part] = ~words.any(axis=1)
        return fits

    def _walk_together(self, row: LongArray) -> None:
        """Reads these lists in lock step, and the last few of them one by one."""
        name_at, name_size = np.empty((2, len(self.topic)), dtype=np.int64)
        here, stop, slot, left = self.at[row] + 4, self.end[row], self.first[row].copy(), self.count[row]
        walked = []
        while len(row) > _NARROW:
            steps = int(left.min())
            begins, sizes, thens = self._steps(here, stop, steps)
            slots = slot + np.arange(steps)[:, None]
            walked.append(slots.ravel())
            items_at = begins + sizes + 6  # beyond the end in a broken list
            name_at[slots], name_size[slots] = begins + 2, sizes
            self.items_at[slots] = items_at
            self.items[slots] = (thens - items_at) >> 2
            broken = ((thens > stop) | (items_at > stop) | (sizes > _MAX_STRING_BYTES)).any(axis=0)
            self.bad[row[broken]] = True
            here = thens[-1]
            slot += steps
            left -= steps
            left[broken] = 0
            done = left == 0
            self.after[row[done]] = here[done]
            row, here, stop, slot, left = row[~done], here[~done], stop[~done], slot[~done], left[~done]
        self._walk_each(row, here, slot, left)
        slots = np.concatenate(walked)
        if self.bad.any():
            slots = slots[~self.bad.repeat(self.count)[slots]]
        self.topic[slots] = numbered(self.packed, name_at[slots], name_size[slots], self.topic_numbers)

    def _steps(self, here: LongArray, stop: LongArray, steps: int) -> tuple[LongArray, LongArray, LongArray]:
        """Reads `steps` entries of every list. Returns arrays [step, list]: where they begin, the sizes of their names,
        where they end.

        The caller checks them: a list that leaves its blob stops there, so that no read leaves the buffer.
        """
        packed = self.packed
        begins, sizes, thens = np.empty((3, steps, len(here)), dtype=np.int64)
        for begin, size, then in zip(begins, sizes, thens, strict=True):
            begin[:] = here
            size[:] = packed.uint16_at[here]
            items = np.minimum(here + size, stop)
            items += 6
            then[:] = items + 4 * packed.uint32_at[items - 4].astype(np.int64)
            here = np.minimum(then, stop)
        return begins, sizes, thens

    def _walk_each(self, row: LongArray, here: LongArray, slot: LongArray, left: LongArray) -> None:
        """Reads the rest of these lists one by one."""
        stop = self.end[row].tolist()
        for r, position, end, begin, entries in zip(
            row.tolist(), here.tolist(), stop, slot.tolist(), left.tolist(), strict=True
        ):
            columns = self._walk_one(position, end, entries)
            if columns is None:
                self.bad[r] = True
                continue
            mine = slice(begin, begin + entries)
            self.topic[mine], self.items_at[mine], self.items[mine], self.after[r] = columns

    def _walk_one(self, here: int, end: int, count: int) -> tuple[list[int], list[int], list[int], int] | None:
        """Returns (topics, where their partitions begin, the number of these, end) of one list; None if it does not
        fit."""
        raw, topic_numbers = self.packed.raw, self.topic_numbers
        topic, items_at, items = [], [], []
        for _ in range(count):
            (size,) = _ENTRY_NAME.unpack_from(raw, here)
            at = here + size + 6
            if at > end or size > _MAX_STRING_BYTES:
                return None
            (many,) = _ENTRY_COUNT.unpack_from(raw, at - 4)
            name = raw[here + 2 : at - 4]
            here = at + 4 * many
            if here > end:
                return None
            topic.append(topic_numbers.setdefault(name, len(topic_numbers)))
            items_at.append(at)
            items.append(many)
        return topic, items_at, items, here


def read_lists(packed: Packed, at: LongArray, end: LongArray) -> TopicLists:
    """Reads one list per row: int32 count, then {int16-string topic, int32 count, partitions}."""
    return _Reader(packed, at, end).read()


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
