"""An exact solver for small minimum-cost flows: successive shortest paths with potentials, many paths per search.

It is meant for the collapsed networks of `assignors.shared.flow`, with tens to some thousands of nodes. It can also
complete a nearly optimal flow: given that flow and the potentials for which it is cheapest, it only searches for the
rest.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

Numbers = Sequence[int] | npt.NDArray[np.integer]


class Network:
    """A flow network with nodes 0, 1, …; arc 2i has the reverse arc 2i + 1.

    `excess[v] > 0` is flow that has to leave node v, `< 0` is flow that v can still take. Costs may be any integers for
    which every arc with room has `cost + potential[tail] - potential[head] >= 0`.
    """

    __slots__ = ("_arcs", "_cost", "_head", "_room", "excess", "potential")

    def __init__(self, nodes: int) -> None:
        self._arcs: list[list[int]] = [[] for _ in range(nodes)]
        self._head: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []
        self.excess = [0] * nodes
        self.potential = [0] * nodes

    def add(self, tail: Numbers, head: Numbers, capacity: Numbers, cost: Numbers) -> range:
        """Adds arcs without flow and returns their numbers, as arguments for `flow`."""
        first = len(self._head)
        arcs, heads, rooms, costs = self._arcs, self._head, self._room, self._cost
        number = first
        columns = (np.asarray(column).tolist() for column in (tail, head, capacity, cost))
        for u, v, room, price in zip(*columns, strict=True):
            arcs[u].append(number)
            arcs[v].append(number + 1)
            heads += (v, u)
            rooms += (room, 0)
            costs += (price, -price)
            number += 2
        return range(first, number, 2)

    def flow(self, arcs: range) -> list[int]:
        """Returns the flow on each of these arcs."""
        return self._room[arcs.start + 1 : arcs.stop : 2]

    def preset(self, arcs: range, flow: Sequence[int]) -> None:
        """Puts flow on empty arcs as far as the potentials allow: arcs that must be full are filled, arcs that must be
        empty stay empty. The excess of both ends is adjusted, so that the solver corrects the difference."""
        head, room, cost, excess, potential = self._head, self._room, self._cost, self.excess, self.potential
        for arc, wanted in zip(arcs, flow, strict=True):
            u, v = head[arc + 1], head[arc]
            reduced = cost[arc] + potential[u] - potential[v]
            amount = wanted if reduced == 0 else room[arc] if reduced < 0 else 0
            room[arc] -= amount
            room[arc + 1] += amount
            excess[u] -= amount
            excess[v] += amount

    def solve(self) -> bool:
        """Routes all excess at minimum cost. Returns False if some of it cannot be routed."""
        while any(e > 0 for e in self.excess):
            if not self._search():
                return False
            self._push()
        return True

    def saturate(self) -> None:
        """Routes as much excess as possible regardless of cost, along paths with the fewest arcs, using reverse arcs
        too (Dinic)."""
        self._cost = [1] * len(self._head)
        while True:
            self.potential = [0] * len(self.excess)
            if not self._search():
                return
            self._push()

    def _search(self) -> bool:
        """Runs Dijkstra's algorithm from all nodes with excess to the nearest node that takes flow, and sets potentials
        so that shortest paths cost 0. Returns False if there is no such node."""
        arcs, head, room, cost, excess, potential = (
            self._arcs, self._head, self._room, self._cost, self.excess, self.potential
        )  # fmt: skip
        distance = {v: 0 for v, e in enumerate(excess) if e > 0}
        queue = [(0, v) for v in distance]
        heapify(queue)
        settled: list[tuple[int, int]] = []
        while queue:
            so_far, u = heappop(queue)
            if so_far > distance[u]:
                continue
            if excess[u] < 0:
                for passed, v in settled:
                    potential[v] += passed - so_far
                return True
            settled.append((so_far, u))
            base = so_far + potential[u]
            for arc in arcs[u]:
                if room[arc]:
                    v = head[arc]
                    through = base + cost[arc] - potential[v]
                    if through < distance.get(v, through + 1):
                        distance[v] = through
                        heappush(queue, (through, v))
        return False

    def _push(self) -> None:
        """Sends flow along paths of reduced cost 0 until no more such paths are found."""
        size = len(self.excess)
        pointer = [0] * size
        closed = bytearray(size)
        for source in [v for v, e in enumerate(self.excess) if e > 0]:
            while self.excess[source] > 0:
                path = self._walk(source, pointer, closed)
                if not path:
                    break
                self._send(source, path)

    def _send(self, source: int, path: Sequence[int]) -> None:
        excess, room = self.excess, self._room
        sink = self._head[path[-1]]
        amount = min(excess[source], -excess[sink], *(room[arc] for arc in path))
        for arc in path:
            room[arc] -= amount
            room[arc ^ 1] += amount
        excess[source] -= amount
        excess[sink] += amount

    def _walk(self, source: int, pointer: list[int], closed: bytearray) -> list[int]:
        """Returns a path of reduced cost 0 to a node that takes flow, [] if none. Dead ends stay closed; nodes on the
        path are reopened."""
        arcs, head, room, cost, potential = self._arcs, self._head, self._room, self._cost, self.potential
        path: list[int] = []
        u = source
        closed[u] = 1
        while self.excess[u] >= 0:
            mine = arcs[u]
            at, end, here = pointer[u], len(mine), potential[u]
            while at < end:
                arc = mine[at]
                v = head[arc]
                if room[arc] and not closed[v] and here + cost[arc] == potential[v]:
                    break
                at += 1
            pointer[u] = at
            if at < end:
                path.append(arc)
                u = v
                closed[u] = 1
                continue
            if not path:
                return []
            u = head[path.pop() ^ 1]
            pointer[u] += 1
        closed[source] = 0
        for arc in path:
            closed[head[arc]] = 0
        return path
