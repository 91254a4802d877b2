"""Exchanging standbys between pairs of processes in different racks (KIP-925, streams-protocol reference §4.6).

Java builds a graph of two processes and the standbys that either could take from the other, and cancels negative
cycles. In such a graph every cycle swaps two tasks, and the one that its Bellman-Ford finds swaps the two that gain
most, lowest task first among equals. So a pair is two heaps here. Pairs that cannot gain by any swap are left out by a
bound on what each process could gain in each rack, which is what makes thousands of processes affordable.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from assignors.model import IntArray, LongArray

ROUNDS = 4
_NEVER = -(2**40)

Movable = Callable[[int, int, int], bool]


class StandbyExchange:
    """`cost[t, r]` is what a standby of task t costs in rack r, `leaving` what a swap adds per task that moves.

    `standbys[t]` lists the processes that keep task t and is changed in place, swap by swap, because `movable` (source,
    destination, task) may look at it.
    """

    __slots__ = (
        *("_active", "_best", "_changed", "_clock", "_cost", "_leaving", "_movable"),
        *("_rack", "_seen", "_standbys", "_tasks"),
    )

    def __init__(
        self,
        cost: LongArray,
        rack: IntArray,
        leaving: int,
        active: list[int],
        standbys: list[list[int]],
        movable: Movable | None = None,
    ) -> None:
        size = len(rack)
        self._cost = cost
        self._rack = rack
        self._leaving = leaving
        self._active = active
        self._standbys = standbys
        self._movable = movable
        self._tasks: list[set[int]] = [set() for _ in range(size)]
        for task, holders in enumerate(standbys):
            for process in holders:
                self._tasks[process].add(task)
        self._best = np.full((size, cost.shape[1]), _NEVER, dtype=np.int64)
        for process in range(size):
            self._measure(process)
        # When a process last changed, and when a pair was last looked at: neither changed since, nothing to gain.
        self._clock = 1
        self._changed = np.ones(size, dtype=np.int64)
        self._seen: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Up to four rounds over all pairs, until a round swaps nothing."""
        for _ in range(ROUNDS):
            if not self._round():
                return

    def _round(self) -> bool:
        moved = False
        size = len(self._rack)
        for first in range(size):
            at = first + 1
            while at < size:
                promising = self._promising(first, at)
                if not len(promising):
                    break
                for second in promising.tolist():
                    at = second + 1
                    if self._pair(first, second):
                        moved = True
                        break
                else:
                    break
        return moved

    def _promising(self, first: int, at: int) -> IntArray:
        """Processes from `at` on that might swap something with `first`."""
        rack = self._rack
        gain = self._best[first, rack[at:]] + self._best[at:, rack[first]]
        return (np.flatnonzero((gain > 0) & (rack[at:] != rack[first])) + at).astype(np.int32)

    def _measure(self, process: int) -> None:
        """The most that a standby of the process gains in each rack."""
        mine = self._tasks[process]
        if not mine:
            self._best[process] = _NEVER
            return
        costs = self._cost[np.fromiter(mine, dtype=np.int64, count=len(mine))]
        self._best[process] = (costs[:, self._rack[process], None] - costs).max(axis=0) - self._leaving

    def _pair(self, first: int, second: int) -> bool:
        """Swaps what gains between two processes; returns whether anything moved."""
        if self._movable is None:
            seen = self._seen.get((first, second), 0)
            if seen >= max(self._changed[first], self._changed[second]):
                return False
            self._seen[first, second] = self._clock
        ours, theirs = self._offers(first, second), self._offers(second, first)
        if not ours or not theirs or ours[0][0] + theirs[0][0] >= 0:
            return False
        before = {task for _, task in ours}
        while ours[0][0] + theirs[0][0] < 0:
            (loss, task), (other_loss, other) = heappop(ours), heappop(theirs)
            heappush(theirs, (-loss, task))
            heappush(ours, (-other_loss, other))
        kept = {task for _, task in ours}
        for task in before - kept:
            self._move(task, first, second)
        for task in kept - before:
            self._move(task, second, first)
        for process in (first, second):
            self._measure(process)
        self._clock += 1
        self._changed[[first, second]] = self._clock
        self._seen[first, second] = self._clock
        return before != kept

    def _offers(self, source: int, destination: int) -> list[tuple[int, int]]:
        """A heap of (loss, task): what may move from source to destination."""
        held, active, movable = self._tasks[destination], self._active, self._movable
        tasks = [t for t in self._tasks[source] if t not in held and active[t] != destination]
        if movable is not None:
            tasks = [t for t in tasks if movable(source, destination, t)]
        if not tasks:
            return []
        costs = self._cost[tasks]
        loss = costs[:, self._rack[destination]] - costs[:, self._rack[source]] + self._leaving
        offers = list(zip(loss.tolist(), tasks, strict=True))
        heapify(offers)
        return offers

    def _move(self, task: int, source: int, destination: int) -> None:
        self._tasks[source].remove(task)
        self._tasks[destination].add(task)
        holders = self._standbys[task]
        holders[holders.index(source)] = destination
