"""The configured stages in the course of one assignment: their inputs, and what they have done so far."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, StageReport
from bellwether_kafka.assignors.streams.application import StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing import Evener, TaskLimits
from bellwether_kafka.assignors.streams.stages.affinity import HostAffinity, reserved
from bellwether_kafka.assignors.streams.stages.budget import MoveBudget, choose
from bellwether_kafka.assignors.streams.stages.capacity import QuotaEvener, deviation, weights
from bellwether_kafka.assignors.streams.stages.chain import TaskProblem, TaskStage, run
from bellwether_kafka.assignors.streams.stages.colocation import CoLocation, unknown_subtopologies
from bellwether_kafka.assignors.streams.stages.configs import StageConfigs
from bellwether_kafka.assignors.streams.stages.rules import (
    allowed_by,
    evacuated_by,
    last_copies,
    moved_by_rules,
    narrow,
)


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
