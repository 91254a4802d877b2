"""The steal graph: moves partitions along chains of members until no member can be better off.

From the least loaded class, the search goes to the owners of partitions of topics that it subscribes to, from these
through their own topics to further owners, and so on, until it finds a class whose members have at least two more. Then
every link of the chain passes on a partition. If there is no such chain, the class and all that it reached are final.
The result is max-min optimal even where that takes chains of several members, which a sweep that moves single
partitions misses (docs/internals/assignors.md#steal-graph). Cheap chains are searched first: it costs nothing to move a
partition back to its origin, or one that has already moved.
"""

import numpy as np

from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.shared import BoolArray, IntArray, LongArray

FAR = 1 << 28
UNSEEN = -1


class StealGraph:
    """Levels `counts` in place.

    `taking[class, row]` is the cost for a class to receive a partition of the row, `giving[row, class]` the cost to
    give one; FAR if it cannot.
    """

    def __init__(self, counts: ClassCounts, foreign: BoolArray) -> None:
        self.counts = counts
        self.foreign = foreign
        self.giving = np.where(counts.partitions > counts.stuck, 0, 1).astype(np.int32)
        self.giving[counts.partitions == 0] = FAR
        taking = np.where(counts.partitions < counts.stuck, 0, 1) + self.foreign
        taking[~counts.allowed] = FAR
        self.taking: IntArray = np.ascontiguousarray(taking.T).astype(np.int32)

    def settle(self) -> None:
        active = np.ones(len(self.counts.size), dtype=np.bool_)
        while True:
            level = np.where(active, self.counts.level, FAR)  # FAR also makes the loop end once no class is active
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
        """Passes partitions along (receiver, row, giver) links, several at once where the price stays the same."""
        counts = self.counts
        low, high = path[-1][0], path[0][2]
        size, load = counts.size, counts.load
        amount = max(1, int((load[high] * size[low] - load[low] * size[high]) // (size[low] + size[high])))
        amount = min(amount, *(counts.passable(*link) for link in path))
        for receiver, row, giver in path:
            counts.partitions[row, receiver] += amount
            counts.partitions[row, giver] -= amount
            for class_index in (receiver, giver):
                self._reprice(row, class_index)
        load[low] += amount
        load[high] -= amount

    def _reprice(self, row: int, class_index: int) -> None:
        count, stuck = self.counts.partitions[row, class_index], self.counts.stuck[row, class_index]
        self.giving[row, class_index] = FAR if not count else int(count <= stuck)
        self.taking[class_index, row] = int(count >= stuck) + int(self.foreign[row, class_index])


class _Search:
    """A shortest-path search from one class, in layers of equal cost."""

    def __init__(self, graph: StealGraph, start: int) -> None:
        rows, classes = graph.counts.partitions.shape
        self.graph, self.start = graph, start
        self.class_cost = np.full(classes, FAR, dtype=np.int32)  # of the cheapest chain from the start to this class
        self.row_cost = np.full(rows, FAR, dtype=np.int32)
        self.class_turn = np.full(classes, UNSEEN, dtype=np.int32)  # when it was reached; paths go back in this order
        self.row_turn = np.full(rows, UNSEEN, dtype=np.int32)
        self.class_cost[start] = 0
        self.turn = 0

    @property
    def reached(self) -> BoolArray:
        return np.asarray(self.class_turn != UNSEEN)

    def run(self, goal: int) -> int | None:
        """Returns the cheapest class of at least the height `goal`, the highest of equally cheap ones; None if none can
        be reached."""
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
        """Reaches everything at exactly this cost, and returns the classes among it."""
        reached = []
        while True:
            classes = np.flatnonzero((self.class_cost == cost) & (self.class_turn == UNSEEN))
            if len(classes):
                reached.append(classes)
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
                return np.concatenate(reached) if reached else np.zeros(0, dtype=np.int64)

    def path(self, end: int) -> list[tuple[int, int, int]]:
        """Returns the links (receiver, row, giver) from the end back to the start."""
        links = []
        giver = end
        while giver != self.start:
            row = self._row_before(giver)
            receiver = self._class_before(row)
            links.append((receiver, row, giver))
            giver = receiver
        return links

    def _row_before(self, giver: int) -> int:
        """Returns a row through which the giver was reached at its cost: the one of which it holds most, compared to
        the start."""
        graph = self.graph
        earlier = (self.row_turn != UNSEEN) & (self.row_turn < self.class_turn[giver])
        fits = np.flatnonzero(earlier & (self.row_cost + graph.giving[:, giver] == self.class_cost[giver]))
        # Far from the start all classes fit; next to it, this prefers a topic of which the start has little.
        spread = graph.counts.partitions[fits, giver] - graph.counts.partitions[fits, self.start]
        return int(fits[spread.argmax()])

    def _class_before(self, row: int) -> int:
        earlier = (self.class_turn != UNSEEN) & (self.class_turn < self.row_turn[row])
        fits = earlier & (self.class_cost + self.graph.taking[:, row] == self.row_cost[row])
        return int(np.flatnonzero(fits)[0])
