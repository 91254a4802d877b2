"""Searches for negative cycles, with which a flow is improved until it is cheapest.

This is the Bellman-Ford algorithm, started from all nodes at once. Each graph provides its own way to find the cheapest
arc into each node: dense, or through rows that many arcs share.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bellwether_kafka.assignors.shared.dense_views import NOBODY, IntArray, LongArray

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
