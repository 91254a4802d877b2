"""Exchanging standbys between pairs of processes in different racks (KIP-925, streams-protocol reference §4.6).

Java builds a graph of two processes and the standbys that either could take, and cancels its negative cycles.
In such a graph every cycle swaps two tasks; which ones is worked out here without a graph, exactly as Java's
Bellman-Ford finds them (see `_cycle`), because later pairs depend on it. Pairs that cannot gain by any swap are left
out by a bound on what each process could gain in each rack, which is what makes thousands of processes affordable.
"""

from collections.abc import Callable

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
        if not ours or not theirs:
            return False
        swapped = _swapped(ours, theirs)
        if not swapped:
            return False
        for task, there in swapped:
            self._move(task, *((second, first) if there else (first, second)))
        for process in (first, second):
            self._measure(process)
        self._clock += 1
        self._changed[[first, second]] = self._clock
        self._seen[first, second] = self._clock
        return True

    def _offers(self, source: int, destination: int) -> list[tuple[int, int, int]]:
        """What may move from source to destination: (task, its cost here, its cost there)."""
        held, active, movable = self._tasks[destination], self._active, self._movable
        tasks = [t for t in self._tasks[source] if t not in held and active[t] != destination]
        if movable is not None:
            tasks = [t for t in tasks if movable(source, destination, t)]
        if not tasks:
            return []
        costs = self._cost[tasks]
        here, there = costs[:, self._rack[source]], costs[:, self._rack[destination]] + self._leaving
        return list(zip(tasks, here.tolist(), there.tolist(), strict=True))

    def _move(self, task: int, source: int, destination: int) -> None:
        self._tasks[source].remove(task)
        self._tasks[destination].add(task)
        holders = self._standbys[task]
        holders[holders.index(source)] = destination


def _swapped(ours: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]]) -> list[tuple[int, bool]]:
    """Which tasks end on the other side, and whether they were `theirs`; offers are (task, cost here, cost there)."""
    if max(a - b for _, a, b in ours) + max(a - b for _, a, b in theirs) <= 0:
        return []
    rows = sorted(
        [(task, here, there, False) for task, here, there in ours]
        + [(task, there, here, True) for task, here, there in theirs]
    )
    side = [there for *_, there in rows]
    costs = [(a, b) for _, a, b, _ in rows]
    while (cycle := _cycle(costs, side)) is not None:
        for row in cycle:
            side[row] = not side[row]
    return [(row[0], row[3]) for row, now in zip(rows, side, strict=True) if now != row[3]]


def _cycle(costs: list[tuple[int, int]], side: list[bool]) -> tuple[int, int] | None:
    """The two rows that Java swaps next, one of each side; None if no swap gains.

    Rows are in task order and cost (on A, on B); `side` is True on B. Bellman-Ford starts with distance 0 everywhere
    and goes over the edges in order: tasks to the source node and to the other process, then processes to their tasks.
    So after every pass a task is as far as its process less its cost there, a process as far as its best swap makes
    it, and its parent is the first task with the greatest gain. After one pass for each of the n tasks, A, B, source
    and sink, one more decides: its first relaxation is still carried out, and if that is a task to a process, the task
    takes the place of the one with the greatest gain.
    """
    gain, best, dearest = [_NEVER, _NEVER], [0, 0], [_NEVER, _NEVER]
    for row, (cost, on_b) in enumerate(zip(costs, side, strict=True)):
        here = cost[on_b]
        gained = here - cost[not on_b]
        if gained > gain[on_b]:
            gain[on_b], best[on_b] = gained, row
        if here > dearest[on_b]:
            dearest[on_b] = here
    total = gain[0] + gain[1]
    if total <= 0:
        return None
    passes = len(costs) + 4
    distance = _distances(gain, total, passes)
    before = _distances(gain, total, passes - 1)
    source = min(0, before[0] - dearest[0], before[1] - dearest[1])
    for row, (cost, on_b) in enumerate(zip(costs, side, strict=True)):
        far = distance[on_b] - cost[on_b]
        if far < source:
            break
        if far + cost[not on_b] < distance[not on_b]:
            best[on_b] = row
            break
    return best[0], best[1]


def _distances(gain: list[int], total: int, passes: int) -> tuple[int, int]:
    """How far A and B are after so many passes: a swap's gain nearer per pass, and not before it pays."""
    hops = passes - 1
    if gain[0] > 0 and gain[1] > 0:
        half, odd = divmod(hops, 2)
        return -half * total - odd * gain[1], -half * total - odd * gain[0]
    leader, follower = -gain[gain[0] <= 0] - total * ((hops - 1) // 2), -total * (hops // 2)
    return (follower, leader) if gain[0] > 0 else (leader, follower)
