"""Co-location groups, after Flink: tasks with the same partition number in a group of subtopologies share a process.

The first stateful subtopology of a group is its anchor, because its tasks are the most expensive to move; the tasks of
the others follow it, by exchange within their own subtopology.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import StreamsView, TaskTable
from bellwether_kafka.assignors.streams.stages.chain import Exchange, TaskProblem


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
