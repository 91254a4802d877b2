"""Exchanges that keep the balance and save something: first foreign racks, then moves.

A balanced plan can often be had with fewer partitions outside their members' racks, or with fewer that move. Every such
improvement is a ring of classes in which each hands one partition to the next, and no ring being left that saves
anything proves the plan cheapest among all equally balanced ones (negative cycle cancelling on counts).
"""

import numpy as np

from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, loops, relaxations

FAR = 1 << 28
RACK = 1 << 14
# Array cells that may be looked at before the plan is taken as it is: keeps the time bounded, without a clock.
BUDGET = 60_000_000


def cheapen(counts: ClassCounts, foreign: BoolArray) -> None:
    """Cancels rings in place until none saves anything or the budget is spent. Loads may swap by one, never change
    as a multiset."""
    budget = BUDGET
    while budget > 0:
        rings = _Rings(counts, foreign)
        found = rings.find(budget)
        budget -= rings.visited
        if not sum(rings.cancel(ring) for ring in found):
            return


class _Rings:
    """One search. Nodes are classes; a step from a class to another one says: the first receives, through some row,
    one partition that the second gives.

    Two classes next to each other in load may also swap that difference. It is written as a row per level that holds
    nothing: a class of height level + 1 takes it (and is one down), a class of that level gives it (and is one up).
    """

    def __init__(self, counts: ClassCounts, foreign: BoolArray) -> None:
        self.counts = counts
        self.rows = len(counts.supply)
        taking = RACK * foreign - (counts.held < counts.stuck)
        taking[~counts.allowed] = FAR
        giving = (counts.held <= counts.stuck) - RACK * foreign
        giving[counts.held == 0] = FAR
        levels = np.unique(counts.level)[:, None]
        self.taking = np.concatenate([taking, np.where(counts.height == levels + 1, 0, FAR)]).astype(np.int32)
        self.giving = np.concatenate([giving, np.where(counts.level == levels, 0, FAR)]).astype(np.int32)
        self.visited = 0

    def find(self, budget: int) -> list[list[tuple[int, int, int]]]:
        """Rings of (receiver, row, giver) that save something, no class in two of them."""
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
        """To each giver through the row and from the receiver that cost least; the arc is row * classes + receiver."""
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
        """Passes partitions around the ring, as many as save the same."""
        counts = self.counts
        amount = min(counts.passable(*link) if link[1] < self.rows else 1 for link in ring)
        if amount < 1:
            return False
        for receiver, row, giver in ring:
            if row < self.rows:
                counts.held[row, receiver] += amount
                counts.held[row, giver] -= amount
            else:
                counts.load[receiver] -= amount
                counts.load[giver] += amount
        return True
