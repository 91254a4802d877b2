"""Exchanges standbys between pairs of processes in different racks (docs/internals/streams.md#rackawaretaskassignor).

Java builds a graph of two processes and the standbys that either could take, and cancels its negative cycles. In such a
graph every cycle swaps two tasks. Which ones is computed here without a graph, exactly as Java's Bellman-Ford finds
them (see `_Pair`), because later pairs depend on it. Pairs that cannot gain are skipped by a bound on what each process
could gain in each rack, which makes thousands of processes affordable.

Rack-aware optimisation of placed tasks (KIP-925, docs/internals/streams.md#rackawaretaskassignor).

An active task costs its source partitions without a replica in the process's rack, a standby its changelog partitions;
a task that leaves the placement just made adds the non-overlap cost. Actives are placed at the minimum cost
(`assignors.shared.flow`), which equals Java's. Standbys are exchanged between pairs of processes in Java's order and
with Java's choice among equal exchanges, so that their cost is equal too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from bellwether_kafka.assignors.shared import FlowProblem, IntArray, LongArray, optimise
from bellwether_kafka.assignors.streams import application
from bellwether_kafka.assignors.streams.placing.placement import Placement, Standbys
from bellwether_kafka.assignors.streams.placing.standby import LabelRule, StandbyRule

PASSES = 4
_NEVER = -(2**40)

Movable = Callable[[int, int, int], bool]


class StandbyExchange:
    """Exchanges standbys. `cost[t, r]` is the cost of a standby of task t in rack r; `leaving` is added per task that
    moves. `standbys[t]` lists the processes that keep task t; it is updated with every swap, because `movable(source,
    destination, task)` may read it."""

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
        standbys: Standbys,
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
        for task in sorted(standbys):
            for process in standbys[task]:
                self._tasks[process].add(task)
        self._best = np.full((size, cost.shape[1]), _NEVER, dtype=np.int64)
        for process in range(size):
            self._measure(process)
        # When each process last changed and each pair was last tried. If neither changed since, the pair has nothing to
        # gain.
        self._clock = 1
        self._changed = np.ones(size, dtype=np.int64)
        self._seen: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Makes up to four passes over all pairs, until a pass swaps nothing."""
        for _ in range(PASSES):
            if not self._exchanged():
                return

    def _exchanged(self) -> bool:
        moved = False
        size = len(self._rack)
        for first in range(size):
            at = first + 1
            while at < size:
                candidates = self._candidates(first, at)
                if not len(candidates):
                    break
                for second in candidates.tolist():
                    at = second + 1
                    if self._pair(first, second):
                        moved = True
                        break
                else:
                    break
        return moved

    def _candidates(self, first: int, at: int) -> IntArray:
        """Returns processes from `at` on that might swap something with `first`."""
        rack = self._rack
        gain = self._best[first, rack[at:]] + self._best[at:, rack[first]]
        return (np.flatnonzero((gain > 0) & (rack[at:] != rack[first])) + at).astype(np.int32)

    def _measure(self, process: int) -> None:
        """Records the most that a standby of the process could gain in each rack."""
        mine = self._tasks[process]
        if not mine:
            self._best[process] = _NEVER
            return
        costs = self._cost[np.fromiter(mine, dtype=np.int64, count=len(mine))]
        self._best[process] = (costs[:, self._rack[process], None] - costs).max(axis=0) - self._leaving

    def _pair(self, first: int, second: int) -> bool:
        """Makes all swaps that gain between two processes. Returns whether anything moved."""
        if self._movable is None:
            seen = self._seen.get((first, second), 0)
            if seen >= max(self._changed[first], self._changed[second]):
                return False
            self._seen[first, second] = self._clock
        own, theirs = self._offers(first, second), self._offers(second, first)
        if not own or not theirs:
            return False
        swapped = _swapped(own, theirs)
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
        """Returns what may move from source to destination, as (task, its cost here, its cost there)."""
        taken, active, movable = self._tasks[destination], self._active, self._movable
        tasks = [t for t in self._tasks[source] if t not in taken and active[t] != destination]
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


def _swapped(own: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]]) -> list[tuple[int, bool]]:
    """Returns which tasks end on the other side, and whether they were `theirs`. Offers are (task, cost here, cost
    there)."""
    if max(a - b for _, a, b in own) + max(a - b for _, a, b in theirs) <= 0:
        return []
    pair = _Pair(own, theirs)
    while pair.cycle():
        pass
    before = {task for task, _, _ in own}
    after = {task for on_a, _ in pair.groups.values() for task in on_a}
    return [(task, False) for task in before - after] + [(task, True) for task in after - before]


class _Pair:
    """Two processes A and B and the tasks that may move between them. `groups[a, b]` are the tasks that cost a on A and
    b on B, as two heaps: those on A and those on B.

    Bellman-Ford starts with distance 0 everywhere and relaxes edges in order: tasks to the source node and to the other
    process, then processes to their tasks. So after every pass the distance of a task is that of its process minus its
    cost there, the distance of a process follows from its best swap, and its parent is the first task with the greatest
    gain. There is one pass for each of the n tasks, A, B, source and sink, and then a final one: its first relaxation
    is still carried out, and if that is from a task to a process, this task replaces the one with the greatest gain.
    """

    __slots__ = ("_passes", "groups")

    def __init__(self, own: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]]) -> None:
        self._passes = len(own) + len(theirs) + 4
        self.groups: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for task, here, there in own:
            self.groups.setdefault((here, there), ([], []))[0].append(task)
        for task, here, there in theirs:
            self.groups.setdefault((there, here), ([], []))[1].append(task)
        for on_a, on_b in self.groups.values():
            heapify(on_a)
            heapify(on_b)

    def cycle(self) -> bool:
        """Swaps the two tasks that Java swaps next, one of each side. Returns False if no swap gains."""
        best_a, gain_a, highest_a = self._best(0)
        best_b, gain_b, highest_b = self._best(1)
        if gain_a + gain_b <= 0:
            return False
        far_a, far_b = _distances(gain_a, gain_b, self._passes)
        before_a, before_b = _distances(gain_a, gain_b, self._passes - 1)
        source = min(0, before_a - highest_a, before_b - highest_b)
        # A task relaxes the source node if it costs enough, the other process if it gains enough.
        most_a, most_b, apart = far_a - source, far_b - source, far_a - far_b
        first = None
        for key, (on_a, on_b) in self.groups.items():
            a, b = key
            if on_a and (a > most_a or a - b > apart) and (first is None or on_a[0] < first):
                first, choice = on_a[0], (best_a if a > most_a else key, best_b)
            if on_b and (b > most_b or b - a > -apart) and (first is None or on_b[0] < first):
                first, choice = on_b[0], (best_a, best_b if b > most_b else key)
        if first is None:
            choice = best_a, best_b
        to_b, to_a = heappop(self.groups[choice[0]][0]), heappop(self.groups[choice[1]][1])
        heappush(self.groups[choice[0]][1], to_b)
        heappush(self.groups[choice[1]][0], to_a)
        return True

    def _best(self, on_b: int) -> tuple[tuple[int, int], int, int]:
        """Returns (the group whose first task gains most by leaving this side, the first of equals; that gain; the
        highest cost)."""
        best, gain, highest, lowest = (0, 0), _NEVER, _NEVER, -1
        for key, sides in self.groups.items():
            mine = sides[on_b]
            if not mine:
                continue
            here = key[on_b]
            gained = here - key[not on_b]
            if gained > gain or (gained == gain and mine[0] < lowest):
                best, gain, lowest = key, gained, mine[0]
            highest = max(highest, here)
        return best, gain, highest


def _distances(gain_a: int, gain_b: int, passes: int) -> tuple[int, int]:
    """Returns the distances of A and B after this many passes: every two passes lower both by the gain of the best
    swap."""
    hops, total = passes - 1, gain_a + gain_b
    if gain_a > 0 and gain_b > 0:
        half, odd = divmod(hops, 2)
        return -half * total - odd * gain_b, -half * total - odd * gain_a
    follower = -total * (hops // 2)
    if gain_a > 0:
        return follower, -gain_a - total * ((hops - 1) // 2)
    return -gain_b - total * ((hops - 1) // 2), follower


def can_use(view: application.StreamsView, with_standbys: bool) -> str | None:
    """Returns why racks cannot be taken into account, None if they can."""
    for process in view.processes:
        if not process.rack:
            return f"process {process.process_id} has no client.rack, or its threads disagree on it"
    if not view.tasks.racks_known:
        return "a source partition has no replica or one on a broker without a rack"
    if with_standbys and not view.tasks.changelog_racks_known:
        return "a changelog partition has no replica or one on a broker without a rack"
    return None


def is_pointless(view: application.StreamsView) -> bool:
    """Returns whether every task, active or standby, costs the same everywhere, so that there is nothing to
    optimise."""
    racks = np.unique(columns(view))
    tables = (remote_table(view, view.tasks.source_remote), remote_table(view, view.tasks.changelog_remote))
    return all(bool((table[:, racks] == table[:, racks[:1]]).all()) for table in tables)


def _limits(group: LongArray, holder: IntArray, groups: int, size: int) -> LongArray:
    """Returns how many tasks of a subtopology a process may get: its share, rounded up (in Java's order of
    operations)."""
    counts = np.bincount(holder, minlength=size)
    share = counts * 1.0 / len(holder) * np.bincount(group, minlength=groups)[:, None]
    return np.ceil(share).astype(np.int64)


def columns(view: application.StreamsView) -> IntArray:
    """Returns the column of each process in a table of remote partitions; racks without a broker share the last one."""
    return np.where(view.rack < 0, np.int32(len(view.tasks.racks)), view.rack).astype(np.int32)


def remote_table(view: application.StreamsView, remote: IntArray) -> LongArray:
    """Returns the remote partitions per signature and rack, with a column for racks without a broker."""
    if remote.shape[1] == len(view.tasks.racks):
        worst = remote.max(axis=1, initial=0)
        remote = np.column_stack([remote, worst])
    return remote.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RackOptimiser:
    """The rack stage of the assignors for one view. `current` are the present active owners (process per task, NOBODY:
    unknown), None if they do not matter."""

    view: application.StreamsView
    strategy: str
    current: IntArray | None = None

    @classmethod
    def of(
        cls, view: application.StreamsView, configs: application.AssignmentConfigs, current: IntArray | None = None
    ) -> "RackOptimiser | str | None":
        """Returns the stage; None if the strategy is none; a sentence part if racks cannot be used."""
        if configs.rack_aware_assignment_strategy == application.NO_STRATEGY:
            return None
        reason = can_use(view, configs.num_standby_replicas > 0)
        return reason or cls(view, configs.rack_aware_assignment_strategy, current)

    def actives(self, active: IntArray, tasks: IntArray, traffic_cost: int, non_overlap_cost: int) -> IntArray:
        """Returns the active owners of all tasks after exchanging `tasks`, which must be placed, between their
        processes. Every process keeps its number of these tasks. `current` wins among placements of equal cost."""
        view, holder = self.view, active[tasks]
        if self.strategy == application.NO_STRATEGY or not len(tasks):
            return active
        rows, group = np.unique(view.tasks.subtopology[tasks], return_inverse=True)
        limited = self.strategy == application.BALANCE_SUBTOPOLOGY
        problem = FlowProblem(
            kind=view.tasks.source_signature[tasks],
            group=group.reshape(-1).astype(np.int32),
            holder=holder,
            cost=remote_table(view, view.tasks.source_remote) * traffic_cost,
            rack=columns(view),
            leaving=non_overlap_cost,
            limit=_limits(group, holder, len(rows), view.size) if limited else None,
            owner=None if self.current is None else self.current[tasks],
        )
        owners = active.copy()
        owners[tasks] = optimise(problem)
        return owners

    def standbys(self, place: Placement, rule: StandbyRule, traffic_cost: int, non_overlap_cost: int) -> None:
        """Exchanges standbys in the placement itself, because the rule reads it. Every process keeps its number of
        standbys, and none gets a second copy of a task. Not for placements with warm-up replicas."""
        movable = None
        if isinstance(rule, LabelRule):

            def movable(source: int, destination: int, task: int) -> bool:
                return rule.may_move_task(source, destination, task, place)

        table, view = self.view.tasks, self.view
        cost = remote_table(view, table.changelog_remote)[table.changelog_signature] * traffic_cost
        StandbyExchange(cost, columns(view), non_overlap_cost, place.active, place.standbys, movable).run()
