"""The processes that could run a task instead, and what each of them would have to restore and to read."""

from typing import TYPE_CHECKING

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, Alternative, LongArray
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

if TYPE_CHECKING:
    from bellwether_kafka.assignors.streams.plan import TaskPlan


def alternatives(plan: "TaskPlan", task: int, most: int) -> tuple[Alternative, ...]:
    """One for each process, up to `most` of them."""
    view, active = plan.view, plan.owner
    order = sorted(range(view.size), key=lambda p: (p != active[task], p != plan.before[task], p))[:most]
    held = np.bincount(active[active != NOBODY], minlength=view.size)
    now = _remote(plan, task, int(active[task]))
    return tuple(_alternative(plan, task, process, held, now) for process in order)


def _alternative(plan: "TaskPlan", task: int, process: int, held: LongArray, now: int) -> Alternative:
    who, owner = plan.view.processes[process], int(plan.owner[task])
    chosen = process == owner
    cross = _remote(plan, task, process) - now
    counts = held.copy()
    if not chosen:
        counts[process] += 1
        if owner != NOBODY:
            counts[owner] -= 1
    spread = int(counts.max() - counts.min())
    verdict = "It is the plan's answer." if chosen else _verdict(plan, task, process, cross)
    return Alternative(str(who.process_id), who.rack, int(held[process]), True, chosen, cross, spread, verdict)


def _verdict(plan: "TaskPlan", task: int, process: int, cross: int) -> str:
    lag = plan.view.lag_of(task, process)  # what is only remembered counts as almost nothing
    parts = []
    if not plan.view.tasks.stateful[task]:
        parts.append("has no state to restore")
    elif _hides(plan, task, process):
        parts.append("had it before its restart, and has not said yet how much of it is left")
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
    """Whether the report of this process is remembered and not made."""
    hidden, report = plan.view.report_hidden, plan.view.report
    return len(hidden) > 0 and bool((hidden[report.span(process)] & (report[process] == task)).any())


def _remote(plan: "TaskPlan", task: int, process: int) -> int:
    view, table = plan.view, plan.view.tasks
    if process == NOBODY or view.rack[process] < 0:
        return 0  # no rack, or one without a broker: nothing to compare
    return int(table.source_remote[table.source_signature[task], view.rack[process]])
