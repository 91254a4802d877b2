"""A small maximum flow: how many partitions of each rack signature can go to each rack.

Partitions are grouped by the racks that hold them and members by their rack, so the network has a handful of nodes
whatever the size of the group. The result is the best number of local partitions, which KIP-881's greedy pass may miss.
"""

from collections import deque

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, LongArray


def rack_quotas(supply: LongArray, held: BoolArray, room: LongArray, extra: LongArray, spare: int) -> LongArray:
    """How many partitions of each signature (row) go to each rack (column), in total as many as possible.

    `supply` counts partitions per signature, `held` says which racks hold it, `room` counts places up to the lower
    quota per rack, `extra` members per rack that may take one more, of which the whole group has only `spare`.
    """
    rows, racks = len(supply), len(room)
    source, sink, extras = rows + racks, rows + racks + 1, rows + racks + 2
    net = _Network(rows + racks + 3)
    for row in np.flatnonzero(supply):
        net.edge(source, int(row), int(supply[row]))
    arcs = {
        (int(row), int(rack)): net.edge(int(row), rows + int(rack), int(supply[row]))
        for row, rack in zip(*np.nonzero(held & (supply > 0)[:, None]), strict=True)
    }
    for rack in range(racks):
        net.edge(rows + rack, sink, int(room[rack]))
        net.edge(rows + rack, extras, int(extra[rack]))
    net.edge(extras, sink, spare)
    net.fill(source, sink)
    flow = np.zeros((rows, racks), dtype=np.int64)
    for place, arc in arcs.items():
        flow[place] = net.left[arc ^ 1]
    return flow


class _Network:
    """Dinic's algorithm on edge lists; edge e and e ^ 1 are each other's reverse."""

    def __init__(self, nodes: int) -> None:
        self.out: list[list[int]] = [[] for _ in range(nodes)]
        self.head: list[int] = []
        self.left: list[int] = []

    def edge(self, tail: int, head: int, capacity: int) -> int:
        self.out[tail].append(len(self.head))
        self.out[head].append(len(self.head) + 1)
        self.head += [head, tail]
        self.left += [capacity, 0]
        return len(self.head) - 2

    def fill(self, source: int, sink: int) -> None:
        while (level := self._levels(source))[sink] >= 0:
            position = [0] * len(self.out)
            while path := self._path(source, sink, level, position):
                amount = min(self.left[e] for e in path)
                for e in path:
                    self.left[e] -= amount
                    self.left[e ^ 1] += amount

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self.out)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for e in self.out[node]:
                if self.left[e] and level[self.head[e]] < 0:
                    level[self.head[e]] = level[node] + 1
                    queue.append(self.head[e])
        return level

    def _path(self, source: int, sink: int, level: list[int], position: list[int]) -> list[int]:
        """One path of edges along rising levels, or nothing; dead ends are passed by for the rest of the phase."""
        path: list[int] = []
        node = source
        while node != sink:
            out = self.out[node]
            while position[node] < len(out):
                e = out[position[node]]
                if self.left[e] and level[self.head[e]] == level[node] + 1:
                    break
                position[node] += 1
            else:
                if not path:
                    return []
                node = self.head[path.pop() ^ 1]
                position[node] += 1
                continue
            path.append(e)
            node = self.head[e]
        return path
