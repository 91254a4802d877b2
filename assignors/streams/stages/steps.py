"""The configured stages in the course of one assignment: their settings, the budget of moves, and what they have done.

For stateful and then for stateless tasks:

1. host affinity and co-location exchange tasks (`chain.py`); neither changes how many a process has;
2. operators' rules, which are hard, come last (`rules.py`);
3. the budget of concurrent moves, after Elasticsearch, limits how many active tasks may be on their way from one live
   process to another at once; the rest waits for a later rebalance. A task without an owner is placed at once.

Moves are grouped into units that leave the group no less even than before: a path from a process with too many tasks to
one with too few, or an exchange in a ring. The next rebalance would undo half an exchange, in endless repetition.

Example: with a budget of 2, tasks 0_0 to 0_2 should go from process 1 to a new process 2. Two of them go now, the third
counts as deferred, and the plan asks for a probing rebalance.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Clock, IntArray, LongArray, Rule, StageReport, no_clock
from bellwether_kafka.assignors.streams.application import TAG_CHARS_MAX, AssignmentConfigError, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing import Evener, QuotaEvener, TaskLimits, deviation, weights
from bellwether_kafka.assignors.streams.stages.chain import (
    CoLocation,
    HostAffinity,
    TaskProblem,
    TaskStage,
    reserved,
    run,
    unknown_subtopologies,
)
from bellwether_kafka.assignors.streams.stages.rules import (
    allowed_by,
    evacuated_by,
    last_copies,
    moved_by_rules,
    narrow,
)

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StageConfigs:
    """The settings of the stages; a zero or an empty value turns a stage off. Raises AssignmentConfigError.

    `host_affinity_ms`: how long a process that left is expected back, and then preferred for its tasks. `colocate`:
    groups of subtopology ids whose tasks with the same partition number should share a process. `capacity_tag`: the
    client tag with the weight of a process, a whole number; "" weighs by threads. `max_concurrent_moves`: active tasks
    that may be on their way from one live process to another at once. `rules`: the operator's, which change at run
    time. `clock` measures the stages.
    """

    host_affinity_ms: int = 0
    colocate: tuple[tuple[int, ...], ...] = ()
    capacity_tag: str = ""
    max_concurrent_moves: int = 0
    rules: tuple[Rule, ...] = ()
    clock: Clock = field(default=no_clock, compare=False)

    def __post_init__(self) -> None:
        for name in ("host_affinity_ms", "max_concurrent_moves"):
            value = getattr(self, name)
            if not 0 <= value <= _INT_MAX:
                raise AssignmentConfigError(f"{name} must be 0 to {_INT_MAX}, but it is {value}.")
        if len(self.capacity_tag) > TAG_CHARS_MAX:
            raise AssignmentConfigError(
                f"capacity_tag must be a client tag key of at most {TAG_CHARS_MAX} characters, but it is"
                f" {self.capacity_tag!r}."
            )
        _check_groups(self.colocate)

    @property
    def any(self) -> bool:
        return self != NO_STAGES


def _check_groups(groups: tuple[tuple[int, ...], ...]) -> None:
    seen: set[int] = set()
    for group in groups:
        if len(group) < 2:
            raise AssignmentConfigError(
                f"colocate must hold groups of two or more subtopology ids, but it holds {list(group)}."
            )
        for subtopology in group:
            if subtopology < 0 or subtopology in seen:
                raise AssignmentConfigError(
                    f"colocate must name each subtopology once and none below 0, but it holds {subtopology}"
                    f"{' twice' if subtopology in seen else ''}."
                )
            seen.add(subtopology)


NO_STAGES = StageConfigs()


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


class Steps:
    """The stages of one assignment. `view` is the view to use: with the stage "capacity" its capacities are weights.
    `reserved[t]`: a warm-up of task t comes first. `deferred` counts the tasks that wait for the moves budget."""

    def __init__(self, view: StreamsView, configs: StageConfigs, *, racks: bool) -> None:
        self.view = view
        self.notes: list[str] = []
        self.reports: list[StageReport] = []
        self.reserved: BoolArray | None = None
        self.deferred = 0
        self._configs = configs
        self._racks = racks
        self._moves_left = configs.max_concurrent_moves
        self._released: BoolArray = np.zeros(view.tasks.size, dtype=np.bool_)
        self._home: IntArray = np.full(view.tasks.size, NOBODY, dtype=np.int32)
        if configs.host_affinity_ms and len(view.home):
            self._home = view.home
        self.weighs = False
        if configs.capacity_tag:
            self._weigh(configs.capacity_tag)
        unknown = unknown_subtopologies(view, configs.colocate) if configs.colocate else None
        self.notes += [unknown] if unknown else []

    @property
    def any(self) -> bool:
        """Whether any stage is configured."""
        return self._configs.any

    @cached_property
    def evacuated(self) -> BoolArray:
        """The processes that orders evacuate."""
        return evacuated_by(self.view, self._configs.rules)

    @cached_property
    def _allowed(self) -> BoolArray:
        """Task x process: whether orders allow it. Members and rules may be many, so this is computed once."""
        return allowed_by(self.view, self._configs.rules)

    @cached_property
    def limits(self) -> TaskLimits | None:
        """What orders leave to the placement, None without orders."""
        return TaskLimits.of(self._allowed, self.evacuated) if self._configs.rules else None

    def last_copies(self, acceptable_lag: int) -> IntArray:
        """Returns tasks on which only evacuated processes have caught up."""
        return last_copies(self.view, self._configs.rules, acceptable_lag)

    @property
    def evener(self) -> type[Evener]:
        return QuotaEvener if self.weighs else Evener

    def narrow(self, tasks: IntArray, owner: IntArray, live: IntArray, lags: TaskLags, others: LongArray) -> IntArray:
        """Returns these owners without those of `tasks` that orders do not allow."""
        if not self._configs.rules:
            return owner
        narrowed = narrow(self._problem(tasks, live, lags), self._configs.rules, self._allowed, owner, others)
        self._released |= narrowed != owner
        return narrowed

    def refine(self, tasks: IntArray, owner: IntArray, live: IntArray, lags: TaskLags) -> tuple[IntArray, IntArray]:
        """Returns two versions of the whole array `owner`: where these tasks should end up, and where they go in this
        rebalance."""
        if not len(tasks):
            return owner, owner
        problem = self._problem(tasks, live, lags)
        kind = "stateful" if self.view.tasks.stateful[tasks[0]] else "stateless"
        placed = StageReport(f"placement, {kind} tasks", True, 0.0, 0.0, True, "Every task has a process.", owner)
        self.reports.append(_capacity_report(problem, owner, kind) if self.weighs else placed)
        movable = problem if self.limits is None else replace(problem, tasks=tasks[self.limits.free[tasks]])
        wanted, reports = run(self._stages(), movable, owner, self._configs.clock)
        self._add_reports(reports, kind)
        if self._configs.rules:
            wanted, rules_report = moved_by_rules(problem, self._configs.rules, self._allowed, wanted, self._released)
            self._add_reports((rules_report,), kind)
        if kind == "stateful":
            self.reserved = reserved(problem, wanted)
        return wanted, self._within_budget(problem, wanted, kind)

    def _problem(self, tasks: IntArray, live: IntArray, lags: TaskLags) -> TaskProblem:
        return TaskProblem(self.view, lags, tasks, live, self._home, self._racks)

    def _weigh(self, tag: str) -> None:
        weighed = weights(self.view, tag)
        if isinstance(weighed, str):
            self.notes.append(weighed)
            self.reports.append(StageReport("capacity", False, 0.0, 0.0, False, f"{weighed[0].upper()}{weighed[1:]}."))
            return
        self.weighs = True
        self.view = replace(self.view, capacity=weighed)

    def _stages(self) -> list[TaskStage]:
        stages: list[TaskStage] = []
        if self._configs.host_affinity_ms:
            stages.append(HostAffinity())
        if self._configs.colocate:
            stages.append(CoLocation(self._configs.colocate))
        return stages

    def _within_budget(self, problem: TaskProblem, wanted: IntArray, kind: str) -> IntArray:
        most = self._configs.max_concurrent_moves
        if not most:
            return wanted
        chosen = choose(problem, wanted, most, self._moves_left)
        owner, reports = run([MoveBudget(most, self._moves_left)], problem, wanted, self._configs.clock)
        self._add_reports(reports, kind)
        # What orders do not allow is taken out of a ring that is too large, which a later rebalance evens out.
        misplaced = [t for t in chosen.given_up if not self._may(t, int(problem.live[t]))]
        forced = misplaced[: max(0, self._moves_left - len(chosen.now))]
        straight = forced + [t for t, process in chosen.detours.items() if not self._may(t, process)]
        owner = owner.copy()
        owner[straight] = wanted[straight]
        given_up = len(chosen.given_up) - len(misplaced)
        self.deferred += len(chosen.waiting) + len(misplaced)
        self._moves_left -= len(chosen.now) + len(forced)
        if given_up:
            self.notes.append(
                f"{given_up} {kind} tasks stay where they are: to exchange them takes more moves at once"
                f" than max_concurrent_moves ({most})"
            )
        return owner

    def _may(self, task: int, process: int) -> bool:
        """Returns whether orders let the process have the task."""
        return self.limits is None or bool(self.limits.may[self.limits.kind[task], process])

    def _add_reports(self, reports: tuple[StageReport, ...], kind: str) -> None:
        self.reports += [replace(report, stage=f"{report.stage}, {kind} tasks") for report in reports]


def _capacity_report(problem: TaskProblem, owner: IntArray, kind: str) -> StageReport:
    """Reports how far processes are from their weighted share, with what runs now and with what was placed."""
    view = problem.view
    before, after = (deviation(view, _counts(o[problem.tasks], view.size)) for o in (problem.live, owner))
    reason = f"The furthest process is {after:.2f} tasks from its weighted share, it was {before:.2f}."
    return StageReport(f"capacity, {kind} tasks", False, before, after, True, reason, owner)


def _counts(owner: IntArray, size: int) -> LongArray:
    return np.bincount(owner[owner != NOBODY], minlength=size).astype(np.int64)
