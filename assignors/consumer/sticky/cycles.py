"""Exchanges that keep the balance and save foreign racks first, then moves.

A balanced plan can often be changed so that fewer partitions are outside their members' racks, or fewer move. Every
such improvement is a ring of classes in which each hands one partition to the next. If no ring saves anything, the plan
is the cheapest of all equally balanced plans: negative cycles are cancelled on counts, and found by the Bellman-Ford
algorithm from all classes at once.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray

Relax = Callable[[IntArray | LongArray], tuple[IntArray | LongArray, LongArray]]
"""From the distances of all nodes to (the least distance of each through one more arc, what names that arc)."""


def relaxations(relax: Relax, distance: IntArray | LongArray) -> Iterator[tuple[LongArray, LongArray]]:
    """Yields after each pass (per node what identifies the last arc of its cheapest path, NOBODY for none; the nodes
    that became cheaper). Ends if none did, which means that there is no negative cycle; otherwise it never ends."""
    last = np.full(len(distance), NOBODY, dtype=np.int64)
    while True:
        reached, arc = relax(distance)
        cheaper: LongArray = np.flatnonzero(reached < distance)
        if not len(cheaper):
            return
        distance[cheaper] = reached[cheaper]
        last[cheaper] = arc[cheaper]
        yield last, cheaper


def loops(following: IntArray | LongArray) -> list[list[int]]:
    """Returns the cycles of a map from nodes to nodes (NOBODY: no successor)."""
    if not _cyclic(following):
        return []
    after = following.tolist()
    seen = [NOBODY] * len(after)
    cycles = []
    for start in range(len(after)):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = after[node]
        if node >= 0 and seen[node] == start:
            loop = [node]
            while after[loop[-1]] != node:
                loop.append(after[loop[-1]])
            cycles.append(loop)
    return cycles


def _cyclic(following: IntArray | LongArray) -> bool:
    """Returns whether a walk of any length leads somewhere, by doubling its length: most maps have no cycle."""
    size = len(following)
    jump = np.append(np.where(following == NOBODY, size, following), size)
    for _ in range(size.bit_length()):
        jump = jump[jump]
    return bool((jump != size).any())


FAR = 1 << 28
RACK = 1 << 14
# The most array cells to visit before the plan is accepted as it is, which bounds the time without a clock.
BUDGET = 60_000_000


def reduce_cost(counts: ClassCounts, foreign: BoolArray) -> None:
    """Cancels rings in place until none saves anything or the budget is spent. Two classes may swap loads that differ
    by one, but the multiset of loads stays the same."""
    rings = _Rings(counts, foreign)
    while rings.visited < BUDGET:
        if not sum(rings.cancel(ring) for ring in rings.find()):
            return


class _Rings:
    """The searches. Nodes are classes; a step from one class to another means that the first receives, in some row, one
    partition that the second gives.

    Two classes whose loads differ by one may also swap that difference. This is modelled as an extra row per level that
    holds no partitions: a class of height level + 1 takes from it (and loses one), a class of that level gives (and
    gains one).
    """

    def __init__(self, counts: ClassCounts, foreign: BoolArray) -> None:
        self.counts, self.foreign = counts, foreign
        self.rows = len(counts.supply)
        self.levels = np.unique([counts.level, counts.height])
        taking = np.where(counts.takes, RACK * foreign - (counts.partitions < counts.stuck), FAR)
        giving = np.where(counts.gives, (counts.partitions <= counts.stuck) - RACK * foreign, FAR)
        taking_level, giving_level = self._level_prices(np.arange(len(counts.size)))
        self.taking = np.concatenate([taking, taking_level]).astype(np.int32)
        self.giving = np.concatenate([giving, giving_level]).astype(np.int32)
        self.visited = 0

    def _level_prices(self, classes: LongArray) -> tuple[LongArray, LongArray]:
        level, height = self.counts.level[classes], self.counts.height[classes]
        return (
            np.where(height == self.levels[:, None] + 1, 0, FAR),
            np.where(level == self.levels[:, None], 0, FAR),
        )

    def find(self) -> list[list[tuple[int, int, int]]]:
        """Returns rings of (receiver, row, giver) that save something. No class is in two of them."""
        rows, classes = self.taking.shape
        self.seen = np.full(classes, FAR, dtype=np.int32)
        self.row_cost = np.full(rows, FAR, dtype=np.int32)
        self.receiver = np.zeros(rows, dtype=np.int64)
        for last, _ in relaxations(self._relax, np.zeros(classes, dtype=np.int32)):
            row_of, receiver_of = np.divmod(last, classes)
            receiver_of[last == NOBODY] = NOBODY
            rings = [[(int(receiver_of[g]), int(row_of[g]), g) for g in ring] for ring in loops(receiver_of)]
            saving = [ring for ring in rings if self._cost(ring) < 0]
            if saving or self.visited >= BUDGET:
                return saving
        return []

    def _relax(self, cost: IntArray | LongArray) -> tuple[IntArray | LongArray, LongArray]:
        """Reaches each giver through the cheapest row and receiver, of the receivers that became cheaper and the rows
        that therefore did. The arc is encoded as row * classes + receiver."""
        rows, classes = self.taking.shape
        fresh = np.flatnonzero(cost < self.seen)
        self.seen[fresh] = cost[fresh]
        through = self.taking[:, fresh] + cost[fresh]
        at = through.argmin(axis=1)
        arrival = through[np.arange(rows), at]
        better = np.flatnonzero(arrival < self.row_cost)
        self.visited += rows * len(fresh) + len(better) * classes
        if not len(better):
            return cost, np.full(classes, NOBODY)
        self.row_cost[better], self.receiver[better] = arrival[better], fresh[at[better]]
        arrival = self.giving[better] + self.row_cost[better, None]
        row = arrival.argmin(axis=0)
        return arrival[row, np.arange(classes)], better[row] * classes + self.receiver[better[row]]

    def _cost(self, ring: list[tuple[int, int, int]]) -> int:
        return sum(int(self.taking[row, receiver]) + int(self.giving[row, giver]) for receiver, row, giver in ring)

    def cancel(self, ring: list[tuple[int, int, int]]) -> bool:
        """Passes partitions around the ring, as many as have the same saving. Returns False if none can be passed."""
        counts = self.counts
        amount = min(counts.passable(*link) if link[1] < self.rows else 1 for link in ring)
        if amount < 1:
            return False
        for receiver, row, giver in ring:
            if row < self.rows:
                counts.partitions[row, receiver] += amount
                counts.partitions[row, giver] -= amount
                self._reprice(row, receiver)
                self._reprice(row, giver)
            else:
                counts.load[receiver] -= amount
                counts.load[giver] += amount
                both = np.array([receiver, giver])
                self.taking[self.rows :, both], self.giving[self.rows :, both] = self._level_prices(both)
        return True

    def _reprice(self, row: int, index: int) -> None:
        counts = self.counts
        count, stuck, rack = counts.partitions[row, index], counts.stuck[row, index], self.foreign[row, index]
        least, most = (0, FAR) if counts.bounds is None else (counts.bounds[0][row], counts.bounds[1][row])
        self.taking[row, index] = RACK * rack - (count < stuck) if count < most else FAR
        self.giving[row, index] = (count <= stuck) - RACK * rack if count > least else FAR
