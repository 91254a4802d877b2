"""Exchanges that keep the balance and save foreign racks first, then moves.

A balanced plan can often be changed so that fewer partitions are outside their members' racks, or fewer move. Every
such improvement is a ring of classes in which each hands one partition to the next. If no ring saves anything, the plan
is the cheapest of all equally balanced plans (negative cycle cancelling on counts).
"""

import numpy as np

from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, loops, relaxations

FAR = 1 << 28
RACK = 1 << 14
# The most array cells to visit before the plan is accepted as it is, which bounds the time without a clock.
BUDGET = 60_000_000


def reduce_cost(counts: ClassCounts, foreign: BoolArray) -> None:
    """Cancels rings in place until none saves anything or the budget is spent. Two classes may swap loads that differ
    by one, but the multiset of loads stays the same."""
    budget = BUDGET
    while budget > 0:
        rings = _Rings(counts, foreign)
        saving = rings.find(budget)
        budget -= rings.visited
        if not sum(rings.cancel(ring) for ring in saving):
            return


class _Rings:
    """One search. Nodes are classes; a step from one class to another means that the first receives, in some row, one
    partition that the second gives.

    Two classes whose loads differ by one may also swap that difference. This is modelled as an extra row per level that
    holds no partitions: a class of height level + 1 takes from it (and loses one), a class of that level gives (and
    gains one).
    """

    def __init__(self, counts: ClassCounts, foreign: BoolArray) -> None:
        self.counts = counts
        self.rows = len(counts.supply)
        taking = RACK * foreign - (counts.partitions < counts.stuck)
        taking[~counts.allowed] = FAR
        giving = (counts.partitions <= counts.stuck) - RACK * foreign
        giving[counts.partitions == 0] = FAR
        levels = np.unique(counts.level)[:, None]
        self.taking = np.concatenate([taking, np.where(counts.height == levels + 1, 0, FAR)]).astype(np.int32)
        self.giving = np.concatenate([giving, np.where(counts.level == levels, 0, FAR)]).astype(np.int32)
        self.visited = 0

    def find(self, budget: int) -> list[list[tuple[int, int, int]]]:
        """Returns rings of (receiver, row, giver) that save something. No class is in two of them."""
        classes = self.taking.shape[1]
        for last, _ in relaxations(self._relax, np.zeros(classes, dtype=np.int32)):
            row_of, receiver_of = np.divmod(last, classes)
            receiver_of[last == NOBODY] = NOBODY
            rings = [[(int(receiver_of[g]), int(row_of[g]), g) for g in ring] for ring in loops(receiver_of)]
            saving = [ring for ring in rings if self._cost(ring) < 0]
            if saving or self.visited >= budget:
                return saving
        return []

    def _relax(self, cost: IntArray | LongArray) -> tuple[IntArray | LongArray, LongArray]:
        """Reaches each giver through the cheapest row and receiver. The arc is encoded as row * classes + receiver."""
        rows, classes = self.taking.shape
        self.visited += 2 * rows * classes
        through = self.taking + cost
        receiver = through.argmin(axis=1)
        arrival = self.giving + through[np.arange(rows), receiver][:, None]
        row = arrival.argmin(axis=0)
        return arrival[row, np.arange(classes)], row * classes + receiver[row]

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
            else:
                counts.load[receiver] -= amount
                counts.load[giver] += amount
        return True
