"""The steal graph: moves partitions along chains of members until nobody can be better off.

The least loaded class asks who owns a partition of a topic that it subscribes to, and so on through the owners'
topics, until it finds a class whose members have at least two more; then every link of the chain passes on a
partition. If there is no such chain, the class and everything it reached are final. The result is max-min optimal,
chains of several members included, which a sweep that moves one partition at a time misses
(docs/reference/assignors.md#steal-graph). Chains are searched cheapest first: a partition that moves back home or has
moved already is free.
"""

import numpy as np

from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.shared import BoolArray, IntArray, LongArray

FAR = 1 << 28
UNSEEN = -1


class StealGraph:
    """Levels `counts` in place.

    `taking[class, row]` is what it costs a class to receive a partition of the row, `giving[row, class]` what it costs
    to hand one over; FAR where it cannot.
    """

    def __init__(self, counts: ClassCounts, foreign: BoolArray) -> None:
        self.counts = counts
        self.foreign = foreign
        self.giving = np.where(counts.held > counts.stuck, 0, 1).astype(np.int32)
        self.giving[counts.held == 0] = FAR
        taking = np.where(counts.held < counts.stuck, 0, 1) + self.foreign
        taking[~counts.allowed] = FAR
        self.taking: IntArray = np.ascontiguousarray(taking.T).astype(np.int32)

    def settle(self) -> None:
        active = np.ones(len(self.counts.size), dtype=np.bool_)
        while True:
            level = np.where(active, self.counts.level, FAR)  # nobody active is nobody high enough
            low = int(level.argmin())
            goal = int(level[low]) + 2
            if int(np.where(active, self.counts.height, 0).max()) < goal:
                return
            search = _Search(self, low)
            end = search.run(goal)
            if end is None:
                active &= ~search.reached
            else:
                self._flip(search.path(end))

    def _flip(self, path: list[tuple[int, int, int]]) -> None:
        """Passes partitions along (receiver, row, giver) links, several at once where that is no dearer."""
        counts = self.counts
        low, high = path[-1][0], path[0][2]
        size, load = counts.size, counts.load
        amount = max(1, int((load[high] * size[low] - load[low] * size[high]) // (size[low] + size[high])))
        amount = min(amount, *(counts.passable(*link) for link in path))
        for receiver, row, giver in path:
            counts.held[row, receiver] += amount
            counts.held[row, giver] -= amount
            for one in (receiver, giver):
                self._reprice(row, one)
        load[low] += amount
        load[high] -= amount

    def _reprice(self, row: int, one: int) -> None:
        held, stuck = self.counts.held[row, one], self.counts.stuck[row, one]
        self.giving[row, one] = FAR if not held else int(held <= stuck)
        self.taking[one, row] = int(held >= stuck) + int(self.foreign[row, one])


class _Search:
    """One shortest-path search from a class, in whole layers of equal cost."""

    def __init__(self, graph: StealGraph, start: int) -> None:
        rows, classes = graph.counts.held.shape
        self.graph, self.start = graph, start
        self.class_cost = np.full(classes, FAR, dtype=np.int32)  # of the cheapest chain from the start to it
        self.row_cost = np.full(rows, FAR, dtype=np.int32)
        self.class_turn = np.full(classes, UNSEEN, dtype=np.int32)  # when it was reached: a chain goes back in turns
        self.row_turn = np.full(rows, UNSEEN, dtype=np.int32)
        self.class_cost[start] = 0
        self.turn = 0

    @property
    def reached(self) -> BoolArray:
        return np.asarray(self.class_turn != UNSEEN)

    def run(self, goal: int) -> int | None:
        """The cheapest class of at least that height, the highest among equals; None if it cannot be reached."""
        height = self.graph.counts.height
        while (cost := self._next_cost()) < FAR:
            fresh = self._layer(cost)
            worth = fresh[height[fresh] >= goal]
            if len(worth):
                return int(worth[height[worth].argmax()])
        return None

    def _next_cost(self) -> int:
        classes = np.where(self.class_turn == UNSEEN, self.class_cost, FAR).min()
        rows = np.where(self.row_turn == UNSEEN, self.row_cost, FAR).min()
        return int(min(classes, rows))

    def _layer(self, cost: int) -> LongArray:
        """Everything that can be reached at exactly this cost; the classes among it."""
        found = []
        while True:
            classes = np.flatnonzero((self.class_cost == cost) & (self.class_turn == UNSEEN))
            if len(classes):
                found.append(classes)
                self.turn += 1
                self.class_turn[classes] = self.turn
                near = self.graph.taking[classes].min(axis=0) + cost
                self.row_cost = np.where(self.row_turn == UNSEEN, np.minimum(self.row_cost, near), self.row_cost)
            rows = np.flatnonzero((self.row_cost == cost) & (self.row_turn == UNSEEN))
            if len(rows):
                self.turn += 1
                self.row_turn[rows] = self.turn
                near = self.graph.giving[rows].min(axis=0) + cost
                unseen = self.class_turn == UNSEEN
                self.class_cost = np.where(unseen, np.minimum(self.class_cost, near), self.class_cost)
            elif not len(classes):
                return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def path(self, end: int) -> list[tuple[int, int, int]]:
        """The links (receiver, row, giver) from the end back to the start."""
        links = []
        giver = end
        while giver != self.start:
            row = self._row_before(giver)
            receiver = self._class_before(row)
            links.append((receiver, row, giver))
            giver = receiver
        return links

    def _row_before(self, giver: int) -> int:
        """Of the rows through which the giver was found at its cost, the one that most of it is held of."""
        graph = self.graph
        earlier = (self.row_turn != UNSEEN) & (self.row_turn < self.class_turn[giver])
        fits = np.flatnonzero(earlier & (self.row_cost + graph.giving[:, giver] == self.class_cost[giver]))
        # Away from the start every class can follow; next to it, prefer a topic it has little of.
        spread = graph.counts.held[fits, giver] - graph.counts.held[fits, self.start]
        return int(fits[spread.argmax()])

    def _class_before(self, row: int) -> int:
        earlier = (self.class_turn != UNSEEN) & (self.class_turn < self.row_turn[row])
        fits = earlier & (self.class_cost + self.graph.taking[:, row] == self.row_cost[row])
        return int(np.flatnonzero(fits)[0])
