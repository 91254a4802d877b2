"""Levelling on counts: it decides how many partitions of a topic each class of members gets, not which ones.

A class is a set of interchangeable members; its load is the sum over its members. The level of a class is the load of
its least loaded member, the height that of its most loaded one. A row is a topic, or the partitions of a topic that
share their replica racks.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, LongArray


@dataclass(slots=True, eq=False)
class ClassCounts:
    """The state of the levelling, as arrays over rows and classes."""

    partitions: LongArray  # [row, class]: how many the class has, changed until they are level
    allowed: BoolArray  # [row, class]: whether the class subscribes to the topic of the row
    stuck: LongArray  # [row, class]: how many were there before; up to that number does not count as moved
    size: LongArray  # [class]: how many members it has
    supply: LongArray  # [row]: how many partitions it has
    load: LongArray  # [class]: the load of all its members, the sum of a column of `partitions`
    bounds: tuple[LongArray, LongArray] | None = None  # [row]: the fewest and the most that a class may have of it

    @property
    def level(self) -> LongArray:
        return self.load // self.size

    @property
    def height(self) -> LongArray:
        return -(-self.load // self.size)

    def passable(self, receiver: int, row: int, giver: int) -> int:
        """Returns how many partitions of a row may go from one class to another at the same price."""
        count, stuck = self.partitions[row], self.stuck[row]
        room = count[giver] - stuck[giver] if count[giver] > stuck[giver] else count[giver]
        missing = stuck[receiver] - count[receiver]
        if self.bounds is not None:
            room = min(room, count[giver] - self.bounds[0][row], self.bounds[1][row] - count[receiver])
        return int(min(room, missing) if missing > 0 else room)

    @property
    def takes(self) -> BoolArray:
        """Returns `[row, class]`: whether the class may have one more of the row."""
        return self.allowed if self.bounds is None else self.allowed & (self.partitions < self.bounds[1][:, None])

    @property
    def gives(self) -> BoolArray:
        """Returns `[row, class]`: whether the class may have one less of the row."""
        return np.asarray(self.partitions > (0 if self.bounds is None else self.bounds[0][:, None]))

    def add(self, row: int, classes: LongArray, amount: LongArray) -> None:
        self.partitions[row, classes] += amount
        self.load[classes] += amount


def shares(load: LongArray, size: LongArray, amount: int, wanted: LongArray) -> LongArray:
    """Distributes `amount` partitions over classes so that the lowest members rise together.

    The remainder after the last full pass goes one per member, first to classes that still get less than `wanted`.
    """
    order = np.argsort(load / size, kind="stable")
    weight, below = np.cumsum(size[order]), np.cumsum(load[order])
    level = (amount + below) // weight
    # The longest prefix of classes whose members are not already above the common level.
    prefix = int(np.flatnonzero(amount + below >= weight * (load[order] / size[order]))[-1])
    full = int(level[prefix])
    got: LongArray = np.maximum(0, size * full - load)
    place = np.maximum(0, size * (full + 1) - np.maximum(load, size * full))
    rest = amount - int(got.sum())
    for room in (np.maximum(wanted - got, 0), place):
        extra = _in_turn(np.minimum(room, place), rest)
        got, place, rest = got + extra, place - extra, rest - int(extra.sum())
    return got


def _in_turn(room: LongArray, amount: int) -> LongArray:
    """Gives each as much as it has room for, in order, until the amount is used up."""
    before = np.cumsum(room) - room
    given: LongArray = np.minimum(np.maximum(amount - before, 0), room)  # np.clip takes four times as long
    return given


def pour(counts: ClassCounts, wanted: LongArray) -> None:
    """Places partitions that no class holds yet, row by row, rows with the fewest subscribers first."""
    free = counts.supply - counts.partitions.sum(axis=1)
    subscribers = counts.allowed @ counts.size
    for row in np.lexsort((np.arange(len(free)), subscribers)):
        if not free[row]:
            continue
        classes = np.flatnonzero(counts.allowed[row])
        want = wanted[row, classes] - counts.partitions[row, classes]
        counts.add(row, classes, shares(counts.load[classes], counts.size[classes], int(free[row]), want))


def pour_within(counts: ClassCounts, eligible: BoolArray, target: LongArray, wanted: LongArray) -> None:
    """Places free partitions on eligible classes up to their target load: first what they want, then levelled; rows
    with the fewest eligible members come first."""
    for row in np.argsort(eligible @ counts.size, kind="stable"):
        free = int(counts.supply[row] - counts.partitions[row].sum())
        classes = np.flatnonzero(eligible[row] & (counts.load < target))
        if not free or not len(classes):
            continue
        room = target[classes] - counts.load[classes]
        want = np.clip(wanted[row, classes] - counts.partitions[row, classes], 0, room)
        got = _in_turn(want, free)
        rest = min(free, int(room.sum())) - int(got.sum())
        # The missing load serves as the (negative) load: the class that lacks most per member is the lowest.
        lack = room - got
        while rest > 0:
            more = np.minimum(shares(-lack, counts.size[classes], rest, lack), lack)
            if not more.any():
                more = _in_turn(lack, rest)
            got, lack, rest = got + more, lack - more, rest - int(more.sum())
        counts.add(row, classes, got)


def level_rows(counts: ClassCounts, passes: int) -> None:
    """Levels coarsely within rows: the loads of each row's subscribers approach each other, in at most `passes` passes.

    In the first pass no class takes its whole gain from one row, so that a new member gets a little of every topic.
    """
    for step in range(passes):
        rows = _uneven(counts)
        if not len(rows):
            return
        left = counts.allowed[rows].sum(axis=0)
        for row in rows:
            _level_row(counts, int(row), left if step == 0 else None)
            left = left - counts.allowed[row]


def _uneven(counts: ClassCounts) -> LongArray:
    """Returns the rows in which one member has at least two partitions more than another subscriber."""
    big = np.iinfo(np.int64).max
    low = np.where(counts.allowed, counts.level, big).min(axis=1)
    high = np.where(counts.partitions > 0, counts.height, 0).max(axis=1)
    return np.flatnonzero(high - 2 >= low)


def _level_row(counts: ClassCounts, row: int, rows_left: LongArray | None) -> None:
    classes = np.flatnonzero(counts.allowed[row])
    count, size = counts.partitions[row, classes], counts.size[classes]
    base = counts.load[classes] - count
    change = shares(base, size, int(counts.supply[row]), count) - count
    gain = np.maximum(change, 0)
    if rows_left is not None:
        gain = np.minimum(gain, -(-gain // np.maximum(rows_left[classes], 1)))
    loss = _drain(np.maximum(-change, 0), counts.load[classes], size, int(gain.sum()))
    counts.add(row, classes, gain - loss)


def _drain(limit: LongArray, load: LongArray, size: LongArray, amount: int) -> LongArray:
    """Takes `amount` from classes, from the most loaded members first, at most `limit` from each."""
    if amount >= limit.sum():
        return limit
    low, high = 0, int((load // size).max()) + 1
    while low < high:  # the lowest level that yields no more than the amount
        middle = (low + high) // 2
        if np.clip(load - size * middle, 0, limit).sum() <= amount:
            high = middle
        else:
            low = middle + 1
    taken: LongArray = np.clip(load - size * low, 0, limit)
    return taken + _in_turn(limit - taken, amount - int(taken.sum()))
