"""Host affinity, after Samza: a process that comes back in time gets back its former tasks, if it still has their state
(`homes` has them). Its warm-ups come before those of others (`reserved`), because they have the least to catch up.

This is only a preference: meanwhile others run these tasks, and they return by exchange, so that the balance does not
change.
"""

from dataclasses import dataclass

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray
from bellwether_kafka.assignors.streams.stages.chain import Exchange, TaskProblem


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
