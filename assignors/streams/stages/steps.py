"""The configured stages in the course of one assignment: their inputs, and what they have done so far."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, StageReport
from bellwether_kafka.assignors.streams.application import StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing import Evener
from bellwether_kafka.assignors.streams.stages.affinity import HostAffinity, reserved
from bellwether_kafka.assignors.streams.stages.budget import MoveBudget, choose
from bellwether_kafka.assignors.streams.stages.capacity import QuotaEvener, deviation, weights
from bellwether_kafka.assignors.streams.stages.chain import TaskProblem, TaskStage, run
from bellwether_kafka.assignors.streams.stages.colocation import CoLocation, unknown_subtopologies
from bellwether_kafka.assignors.streams.stages.configs import StageConfigs
from bellwether_kafka.assignors.streams.stages.rules import evacuated_by, last_copies, moved_by_rules


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

    def last_copies(self, acceptable_lag: int) -> IntArray:
        """Returns tasks on which only evacuated processes have caught up."""
        return last_copies(self.view, self._configs.rules, acceptable_lag)

    @property
    def evener(self) -> type[Evener]:
        return QuotaEvener if self.weighs else Evener

    def refine(self, tasks: IntArray, owner: IntArray, live: IntArray, lags: TaskLags) -> tuple[IntArray, IntArray]:
        """Returns two versions of the whole array `owner`: where these tasks should end up, and where they go in this
        rebalance."""
        if not len(tasks):
            return owner, owner
        problem = TaskProblem(self.view, lags, tasks, live, self._home, self._racks)
        kind = "stateful" if self.view.tasks.stateful[tasks[0]] else "stateless"
        placed = StageReport(f"placement, {kind} tasks", True, 0.0, 0.0, True, "Every task has a process.", owner)
        self.reports.append(_capacity_report(problem, owner, kind) if self.weighs else placed)
        wanted, reports = run(self._stages(), problem, owner, self._configs.clock)
        self._add_reports(reports, kind)
        if self._configs.rules:
            wanted, rules_report = moved_by_rules(problem, self._configs.rules, wanted)
            self._add_reports((rules_report,), kind)
        if kind == "stateful":
            self.reserved = reserved(problem, wanted)
        return wanted, self._within_budget(problem, wanted, kind)

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
        self.deferred += len(chosen.waiting)
        self._moves_left -= len(chosen.now)
        if chosen.given_up:
            self.notes.append(
                f"{len(chosen.given_up)} {kind} tasks stay where they are: to exchange them takes more moves at once"
                f" than max_concurrent_moves ({most})"
            )
        return owner

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
