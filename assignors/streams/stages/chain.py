"""Runs stages over the owners of active tasks. Each stage may only improve its own score, and may not worsen that of an
earlier stage. (`assignors/consumer/chain.py` does the same for consumers' partitions.)

The input is a placement in which every task has a process, and stages can only exchange and delay, so they cannot leave
a task without one. They decide where tasks should end up: tasks continue to run where their state is, and movements
with warm-ups take them there.

Host affinity, after Samza: a process that comes back in time gets back its former tasks, if it still has their state
(`homes` has them). Its warm-ups come before those of others (`reserved`), because they have the least to catch up.

This is only a preference: meanwhile others run these tasks, and they return by exchange, so that the balance does not
change.

Co-location groups, after Flink: tasks with the same partition number in a group of subtopologies share a process.

The first stateful subtopology of a group is its anchor, because its tasks are the most expensive to move; the tasks of
the others follow it, by exchange within their own subtopology.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Clock, IntArray, LongArray, StageReport, no_clock
from bellwether_kafka.assignors.streams.application import StreamsView, TaskLags, TaskTable


@dataclass(frozen=True, slots=True, eq=False)
class TaskProblem:
    """The input of a stage. `tasks` are those that it may move, all stateful or all stateless; the owners of other
    tasks are only information. `live[t]` is the process that runs task t and could continue it, NOBODY if there is
    none. `home[t]` is the process that should get it back, NOBODY for none. `racks`: the rack optimisation is on."""

    view: StreamsView
    lags: TaskLags
    tasks: IntArray
    live: IntArray
    home: IntArray
    racks: bool

    def remote(self, task: IntArray | int, process: IntArray | int) -> LongArray:
        """Returns how many source partitions of the task have no replica in the rack of the process."""
        table = self.view.tasks
        counts: LongArray = table.source_remote[table.source_signature[task], self.view.rack[process]]
        return counts


class Guard(Protocol):
    """A score that no stage may worsen; it is lower for better owners."""

    @property
    def name(self) -> str: ...
    def score(self, problem: TaskProblem, owner: IntArray) -> float: ...


class TaskStage(Guard, Protocol):
    """A stage. One that `delays` holds gains of earlier stages back for later rebalances, and so may worsen their
    scores for now."""

    @property
    def delays(self) -> bool: ...
    def apply(self, problem: TaskProblem, owner: IntArray) -> IntArray: ...


def run(
    stages: Sequence[TaskStage], problem: TaskProblem, owner: IntArray, clock: Clock = no_clock
) -> tuple[IntArray, tuple[StageReport, ...]]:
    """Returns the owners after all stages, and a report of each. The given array is not changed."""
    reports: list[StageReport] = []
    guards: list[Guard] = [SubtopologyCounts(owner), *([RackTraffic()] if problem.racks else [])]
    for stage in stages:
        began = clock()
        owner, report = _step(stage, guards, problem, owner)
        reports.append(replace(report, owner=owner, took_s=clock() - began))
        guards.append(stage)
    return owner, tuple(reports)


def _step(
    stage: TaskStage, guards: Sequence[Guard], problem: TaskProblem, owner: IntArray
) -> tuple[IntArray, StageReport]:
    before = stage.score(problem, owner)
    proposal = stage.apply(problem, owner.copy())
    after = stage.score(problem, proposal)
    if np.array_equal(proposal, owner):
        reason = "It holds." if before == 0 else "It found nothing to improve."
        return owner, StageReport(stage.name, False, before, before, True, reason)
    if not after < before:
        reason = f"Its plan was no better: {before:g} to {after:g}."
        return owner, StageReport(stage.name, False, before, after, False, reason)
    refused = _refused(problem, owner, proposal) or _worsened(stage, guards, problem, owner, proposal)
    if refused:
        return owner, StageReport(stage.name, False, before, after, False, refused)
    moved = int((proposal != owner).sum())
    return proposal, StageReport(
        stage.name, False, before, after, True, f"It went from {before:g} to {after:g} with {moved} tasks placed anew."
    )


def _refused(problem: TaskProblem, owner: IntArray, proposal: IntArray) -> str:
    """Returns why the proposal breaks the placement, "" if it does not: every task must keep a process, and only the
    given tasks may move."""
    touched: BoolArray = proposal != owner
    touched[problem.tasks] = False
    mine = proposal[problem.tasks]
    if touched.any() or (mine <= NOBODY).any() or (mine >= problem.view.size).any():
        return "Its plan would break the placement."
    return ""


def _worsened(
    stage: TaskStage, guards: Sequence[Guard], problem: TaskProblem, owner: IntArray, proposal: IntArray
) -> str:
    if stage.delays:
        return ""
    for guard in guards:
        was, would_be = guard.score(problem, owner), guard.score(problem, proposal)
        if would_be > was:
            return f"Its plan would worsen {guard.name} from {was:g} to {would_be:g}."
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class SubtopologyCounts:
    """The counts per process and subtopology, on which balance and capacity depend. They must stay as they were before
    the stages."""

    began: IntArray
    name: str = "balance"

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        table, size = problem.view.tasks, problem.view.size
        row = np.unique(table.subtopology, return_inverse=True)[1].reshape(-1)
        cells = [np.bincount(row[problem.tasks] * size + o[problem.tasks]) for o in (self.began, owner)]
        width = max(map(len, cells))
        then, now = (np.pad(cell, (0, width - len(cell))) for cell in cells)
        return float(np.abs(then - now).sum())


@dataclass(frozen=True, slots=True)
class RackTraffic:
    """The number of source partitions read across racks."""

    name: str = "rack traffic"

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        return float(problem.remote(problem.tasks, owner[problem.tasks]).sum())


class Exchange:
    """Exchanges tasks of one subtopology between processes, in place, so that all counts stay the same."""

    def __init__(self, problem: TaskProblem, owner: IntArray) -> None:
        self.owner = owner
        self._problem = problem
        self._subtopology = problem.view.tasks.subtopology.tolist()
        self._mine: dict[tuple[int, int], set[int]] = {}
        for task in problem.tasks.tolist():
            self._at(task, int(owner[task])).add(task)

    def _at(self, task: int, process: int) -> set[int]:
        return self._mine.setdefault((self._subtopology[task], process), set())

    def offers(self, task: int, process: int) -> list[int]:
        """Returns what `process` could give for `task` without more rack traffic, first the tasks of which the task's
        owner has state."""
        here = int(self.owner[task])
        state = self._problem.lags.state_of(here)
        mine = [other for other in self._at(task, process) if self._no_worse(task, here, other, process)]
        return sorted(mine, key=lambda other: (other not in state, other))

    def swap(self, task: int, other: int) -> None:
        here, there = int(self.owner[task]), int(self.owner[other])
        for moved, source, destination in ((task, here, there), (other, there, here)):
            self._at(moved, source).remove(moved)
            self._at(moved, destination).add(moved)
            self.owner[moved] = destination

    def _no_worse(self, task: int, here: int, other: int, there: int) -> bool:
        if not self._problem.racks:
            return True
        cost = self._problem.remote
        return bool(cost(task, there) + cost(other, here) <= cost(task, here) + cost(other, there))


@dataclass(frozen=True, slots=True)
class HostAffinity:
    """Scored by the tasks that are not at home although their process is back and has their state."""

    name: str = "host affinity"
    delays: bool = False

    def apply(self, problem: TaskProblem, owner: IntArray) -> IntArray:
        exchange = Exchange(problem, owner)
        home = problem.home
        for task in problem.tasks[_misplaced(problem, owner)].tolist():
            there = int(home[task])
            other = next((t for t in exchange.offers(task, there) if home[t] != there), None)
            if other is not None:
                exchange.swap(task, other)
        return exchange.owner

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        return float(_misplaced(problem, owner).sum())


def _misplaced(problem: TaskProblem, owner: IntArray) -> BoolArray:
    home = problem.home[problem.tasks]
    misplaced: BoolArray = (home != NOBODY) & (owner[problem.tasks] != home)
    return misplaced


def reserved(problem: TaskProblem, owner: IntArray) -> BoolArray:
    """Marks tasks of the application that are on their way home, so that their warm-ups come before others."""
    result: BoolArray = (problem.home != NOBODY) & (owner == problem.home) & (problem.live != problem.home)
    return result


@dataclass(frozen=True, slots=True)
class CoLocation:
    """Scored by the tasks that are not with their anchor."""

    groups: tuple[tuple[int, ...], ...]
    name: str = "co-location"
    delays: bool = False

    def apply(self, problem: TaskProblem, owner: IntArray) -> IntArray:
        exchange = Exchange(problem, owner)
        anchor = anchors(problem.view.tasks, self.groups)
        while self._pass(problem, exchange, anchor):
            pass
        return exchange.owner

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        return float(len(_apart(problem, owner, anchors(problem.view.tasks, self.groups))))

    def _pass(self, problem: TaskProblem, exchange: Exchange, anchor: IntArray) -> bool:
        """Brings tasks to their anchors by exchanges that take no task from its own anchor. Returns whether there was
        any."""
        owner, moved = exchange.owner, False
        for task in _apart(problem, owner, anchor):
            there, here = int(owner[anchor[task]]), int(owner[task])
            if here == there or _at_home(problem, owner, task):
                continue
            offers = [t for t in exchange.offers(task, there) if not _settled(problem, owner, anchor, t)]
            other = min(offers, key=lambda t: int(owner[anchor[t]]) != here, default=None)
            if other is not None:
                exchange.swap(task, other)
                moved = True
        return moved


def anchors(table: TaskTable, groups: Sequence[Sequence[int]]) -> IntArray:
    """Returns the task that each task follows, NOBODY for anchors, tasks outside the groups, and tasks whose number the
    anchor lacks."""
    followed = np.full(table.size, NOBODY, dtype=np.int32)
    for group in groups:
        rows = {s: np.flatnonzero(table.subtopology == s) for s in group}
        there = [s for s in group if len(rows[s])]
        if not there:
            continue
        leading = next((s for s in there if table.stateful[rows[s][0]]), there[0])
        for follower in there:
            if follower != leading:
                both = min(len(rows[follower]), len(rows[leading]))
                followed[rows[follower][:both]] = rows[leading][:both]
    return followed


def unknown_subtopologies(view: StreamsView, groups: Sequence[Sequence[int]]) -> str | None:
    """Returns a note on ids that the application does not have, None if there are none."""
    existing = set(view.tasks.subtopology.tolist())
    missing = sorted({s for group in groups for s in group} - existing)
    if not missing:
        return None
    return f"colocate names subtopologies that the application does not have: {', '.join(map(str, missing))}"


def _apart(problem: TaskProblem, owner: IntArray, anchor: IntArray) -> list[int]:
    following = problem.tasks[anchor[problem.tasks] != NOBODY]
    apart: list[int] = following[owner[following] != owner[anchor[following]]].tolist()
    return apart


def _settled(problem: TaskProblem, owner: IntArray, anchor: IntArray, task: int) -> bool:
    beside = anchor[task] == NOBODY or owner[task] == owner[anchor[task]]
    return bool(beside) or _at_home(problem, owner, task)


def _at_home(problem: TaskProblem, owner: IntArray, task: int) -> bool:
    """Returns whether host affinity has brought the task home, where it stays."""
    return bool(problem.home[task] != NOBODY and problem.home[task] == owner[task])
