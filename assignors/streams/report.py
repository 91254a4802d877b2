"""A plan of a Streams application in numbers: what each process has, what warms up, the lags of copies, and what other
processes would have to restore and read if they ran a task instead."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, Alternative, CopyLag, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, UNKNOWN_OFFSET_SUM
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId

if TYPE_CHECKING:
    from bellwether_kafka.assignors.streams.task_plan import TaskPlan

ID_CHARS = 8


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """One instance after this rebalance, in numbers of tasks. `pending` of its active tasks are not sent yet."""

    process_id: ProcessId
    members: tuple[str, ...]
    rack: str | None
    endpoint: HostInfo | None
    active_stateful: int
    active_stateless: int
    standby: int
    warmup: int
    pending: int

    def __str__(self) -> str:
        return f"{self.active_stateful}+{self.active_stateless}, {self.standby} standby, {self.warmup} warming up"


@dataclass(frozen=True, slots=True)
class WorstLag:
    """The copy of a subtopology with the largest lag, among its standbys or among its warm-ups. `age_ms` is None if its
    process reported nothing; then it restores everything."""

    subtopology: int
    warmup: bool
    lag: int
    age_ms: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of one rebalance. `standby_lag` is the largest lag of standbys that are not warm-ups, in records, and
    `standby_lag_age_ms` the age of its report; both None if unknown. `cross_rack` counts source partitions of active
    tasks without a replica in the rack of their process."""

    processes: tuple[ProcessSummary, ...]
    threads: int
    tasks: int
    warmups: tuple[CopyLag, ...]
    standbys: int
    lags: tuple[WorstLag, ...]
    standby_lag: int | None
    standby_lag_age_ms: int | None
    pending: int
    cross_rack: int


def report(plan: "TaskPlan") -> Report:
    """Returns the numbers of one rebalance."""
    copies = plan.copies
    lags = worst_lags(copies)
    worst = max((entry for entry in lags if not entry.warmup), key=lambda entry: entry.lag, default=None)
    return Report(
        processes=process_summaries(plan),
        threads=int(plan.view.capacity.sum()),
        tasks=plan.view.tasks.size,
        warmups=tuple(copy for copy in copies if copy.warmup),
        standbys=sum(not copy.warmup for copy in copies),
        lags=lags,
        standby_lag=None if worst is None else worst.lag,
        standby_lag_age_ms=None if worst is None else worst.age_ms,
        pending=int(plan.pending.sum()),
        cross_rack=plan.cost(plan.owner).cross_rack,
    )


def process_summaries(plan: "TaskPlan") -> tuple[ProcessSummary, ...]:
    """Returns what each process has by the plan."""
    view, target = plan.view, plan.target
    placed, stateful = target.active >= 0, view.tasks.stateful

    def count(process: IntArray) -> list[int]:
        return [int(n) for n in np.bincount(process, minlength=view.size)]

    numbers = zip(
        view.processes,
        count(target.active[placed & stateful]),
        count(target.active[placed & ~stateful]),
        count(target.standby_process[~target.warmup]),
        count(target.standby_process[target.warmup]),
        count(target.active[placed & plan.pending]),
        strict=True,
    )
    return tuple(
        ProcessSummary(
            process_id=process.process_id,
            members=process.members,
            rack=process.rack,
            endpoint=process.endpoint,
            active_stateful=stateful_count,
            active_stateless=stateless_count,
            standby=standby_count,
            warmup=warmup_count,
            pending=pending_count,
        )
        for process, stateful_count, stateless_count, standby_count, warmup_count, pending_count in numbers
    )


def worst_lags(copies: Iterable[CopyLag]) -> tuple[WorstLag, ...]:
    """Returns one entry per subtopology with standbys, and one per subtopology with warm-ups, if a lag is known."""
    worst: dict[tuple[int, bool], CopyLag] = {}
    for copy in copies:
        key = copy.task.subtopology, copy.warmup
        if copy.lag >= 0 and (key not in worst or copy.lag > worst[key].lag):
            worst[key] = copy
    return tuple(
        WorstLag(subtopology=subtopology, warmup=warmup, lag=copy.lag, age_ms=copy.age_ms)
        for (subtopology, warmup), copy in sorted(worst.items(), key=lambda entry: entry[0])
    )


def short(process_id: object) -> str:
    """Returns the beginning of a process id, which suffices for people to distinguish processes."""
    return str(process_id)[:ID_CHARS]


def alternatives(plan: "TaskPlan", task: int, most: int) -> tuple[Alternative, ...]:
    """Returns one alternative per process, up to `most`."""
    view, active = plan.view, plan.owner
    order = sorted(range(view.size), key=lambda p: (p != active[task], p != plan.before[task], p))[:most]
    counts = np.bincount(active[active != NOBODY], minlength=view.size)
    now = _remote(plan, task, int(active[task]))
    return tuple(_alternative(plan, task, process, counts, now) for process in order)


def _alternative(plan: "TaskPlan", task: int, process: int, counts: LongArray, now: int) -> Alternative:
    candidate, owner = plan.view.processes[process], int(plan.owner[task])
    chosen = process == owner
    cross = _remote(plan, task, process) - now
    then = counts.copy()
    if not chosen:
        then[process] += 1
        if owner != NOBODY:
            then[owner] -= 1
    spread = int(then.max() - then.min())
    verdict = "The plan chose it." if chosen else _verdict(plan, task, process, cross)
    return Alternative(
        str(candidate.process_id), candidate.rack, int(counts[process]), True, chosen, cross, spread, verdict
    )


def _verdict(plan: "TaskPlan", task: int, process: int, cross: int) -> str:
    lag = plan.view.lag_of(task, process)  # hidden state that is only remembered counts as minimal
    parts = []
    if not plan.view.tasks.stateful[task]:
        parts.append("has no state to restore")
    elif _hides(plan, task, process):
        parts.append("had it before its restart, and has not reported yet how much of it is left")
    elif lag == LATEST_OFFSET:
        parts.append("runs it now, so nothing would be restored")
    elif lag == UNKNOWN_OFFSET_SUM:
        parts.append("has a lag that is not known")
    elif lag <= plan.configs.acceptable_recovery_lag:
        parts.append(f"is caught up ({lag} records behind)")
    else:
        parts.append(f"would restore {lag} records first")
    if cross > 0:
        parts.append(f"{cross} more partitions would be read from another rack")
    elif cross < 0:
        parts.append(f"{-cross} fewer partitions would be read from another rack")
    return f"It {', '.join(parts)}."


def _hides(plan: "TaskPlan", task: int, process: int) -> bool:
    """Returns whether this process's report on the task is remembered and was not sent."""
    hidden, report = plan.view.report_hidden, plan.view.report
    return len(hidden) > 0 and bool((hidden[report.span(process)] & (report[process] == task)).any())


def _remote(plan: "TaskPlan", task: int, process: int) -> int:
    view, table = plan.view, plan.view.tasks
    if process == NOBODY or view.rack[process] < 0:
        return 0  # no rack, or one without a broker: nothing to compare
    return int(table.source_remote[table.source_signature[task], view.rack[process]])
