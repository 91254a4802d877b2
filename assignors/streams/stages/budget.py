"""A budget of concurrent moves, after Elasticsearch: it limits how many active tasks may be on their way from one live
process to another at once. The rest waits for a later rebalance. A task without an owner is placed at once, whatever
the budget.

Moves are grouped into units that leave the group no less even than before: a path from a process with too many tasks to
one with too few, or an exchange in a ring. The next rebalance would undo half an exchange, in endless repetition.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray
from bellwether_kafka.assignors.streams.stages.affinity import reserved
from bellwether_kafka.assignors.streams.stages.chain import TaskProblem


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """Scored by the moves beyond the budget. `most` is the budget of one rebalance, `left` what remains of it."""

    most: int
    left: int
    name: str = "moves budget"
    delays: bool = True

    def apply(self, problem: TaskProblem, owner: IntArray) -> IntArray:
        chosen = choose(problem, owner, self.most, self.left)
        held_back = np.array([*chosen.waiting, *chosen.given_up], dtype=np.int64)
        owner[held_back] = problem.live[held_back]
        for task, process in chosen.detours.items():
            owner[task] = process
        return owner

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        return float(max(0, len(moves(problem, owner)) - self.left))


@dataclass(frozen=True, slots=True)
class ChosenMoves:
    """The tasks that move now, that wait for a later rebalance (`waiting`), and that belong to rings larger than the
    whole budget (`given_up`). `detours` are tasks that go to another process than planned."""

    now: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)
    detours: dict[int, int] = field(default_factory=dict)


def moves(problem: TaskProblem, owner: IntArray) -> LongArray:
    """Returns the tasks that would leave a live process for another."""
    live = problem.live[problem.tasks]
    moving: LongArray = problem.tasks[(live != NOBODY) & (owner[problem.tasks] != live)].astype(np.int64)
    return moving


def choose(problem: TaskProblem, owner: IntArray, most: int, left: int) -> ChosenMoves:
    """Chooses moves: first those that even out most, then those of tasks on their way home, then those with the least
    to catch up."""
    moving = moves(problem, owner)
    lag = problem.lags.at(moving.astype(np.int32), owner[moving])
    order = np.lexsort((moving, lag, ~reserved(problem, owner)[moving]))
    units = _Units(problem, owner, moving[order].tolist())
    chosen = ChosenMoves()
    live = problem.live[problem.tasks]
    load = np.bincount(live[live != NOBODY], minlength=problem.view.size) / problem.view.capacity
    for unit in sorted(units.paths(), key=lambda path: load[owner[path[-1]]] - load[problem.live[path[0]]]):
        # If a path is too long for any rebalance, its first task goes directly to the end: balance comes first.
        fitting = unit if len(unit) <= most else unit[:1]
        taken = len(chosen.now) + len(fitting) <= left
        (chosen.now if taken else chosen.waiting).extend(fitting)
        chosen.waiting.extend(unit[len(fitting) :])
        if taken and len(fitting) < len(unit):
            chosen.detours[unit[0]] = int(owner[unit[-1]])
    for unit in units.rings():
        if len(unit) > most:
            chosen.given_up.extend(unit)
        else:
            (chosen.now if len(chosen.now) + len(unit) <= left else chosen.waiting).extend(unit)
    return chosen


class _Units:
    """Splits moves into units. Each move is an edge from the process that runs a task to the one that should."""

    def __init__(self, problem: TaskProblem, owner: IntArray, ordered: list[int]) -> None:
        self._from, self._to = problem.live, owner
        self._leaving: dict[int, list[int]] = defaultdict(list)
        self._spare: dict[int, int] = defaultdict(int)
        for task in reversed(ordered):
            self._leaving[int(self._from[task])].append(task)  # the first in order is the last of its list
            self._spare[int(self._from[task])] += 1
            self._spare[int(self._to[task])] -= 1
        self._ordered = ordered
        self._used: set[int] = set()

    def paths(self) -> list[list[int]]:
        """Returns paths from processes that lose more than they get to those that get more than they lose."""
        paths: list[list[int]] = []
        for task in self._ordered:
            source = int(self._from[task])
            while self._spare[source] > 0 and task not in self._used:
                self._leaving[source].remove(task)
                path = self._follow(task, until=None)
                self._spare[source] -= 1
                self._spare[int(self._to[path[-1]])] += 1
                paths.append(path)
        return paths

    def rings(self) -> list[list[int]]:
        """Returns the moves that remain after all paths, as rings: each process gets as many as it loses."""
        rings: list[list[int]] = []
        for task in self._ordered:
            if task not in self._used:
                self._leaving[int(self._from[task])].remove(task)
                rings.append(self._follow(task, until=int(self._from[task])))
        return rings

    def _follow(self, task: int, until: int | None) -> list[int]:
        """Follows edges to a process that has room, or back to the beginning."""
        path = [task]
        self._used.add(task)
        while (at := int(self._to[path[-1]])) != until and (until is not None or self._spare[at] >= 0):
            leaving = self._leaving[at]
            back = next((t for t in leaving if until is not None and self._to[t] == until), leaving[-1])
            leaving.remove(back)
            self._used.add(back)
            path.append(back)
        return path
