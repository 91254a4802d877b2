"""The search for negative cycles, by which a flow is improved until it costs least.

It is Bellman and Ford's, from all nodes at once. How a graph finds the cheapest arc into each node is its own business:
dense, or through rows that many arcs share.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bellwether_kafka.assignors.shared.model import NOBODY, IntArray, LongArray

Relax = Callable[[IntArray | LongArray], tuple[IntArray | LongArray, LongArray]]
"""From the distances of all nodes to (the least distance of each through one more arc, what names that arc)."""


def relaxations(relax: Relax, distance: IntArray | LongArray) -> Iterator[tuple[LongArray, LongArray]]:
    """After each pass (what names the last arc of the cheapest way to each node, NOBODY for none; the nodes that have
    become cheaper). Ends when none has: then there is no negative cycle. Else it goes on for ever."""
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
    """The loops of a map from nodes to nodes (NOBODY: to nothing)."""
    after = following.tolist()
    seen = [NOBODY] * len(after)
    found = []
    for start in range(len(after)):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = after[node]
        if node >= 0 and seen[node] == start:
            loop = [node]
            while after[loop[-1]] != node:
                loop.append(after[loop[-1]])
            found.append(loop)
    return found
