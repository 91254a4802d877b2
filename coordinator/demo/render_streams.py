"""A round of a Streams application as a table for people: which process has which tasks, what warms up and how far it
is behind, what waits and why. It only draws."""

import time

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bellwether_kafka.assignors.shared import CopyLag, Decision, IntArray, LongArray
from bellwether_kafka.assignors.streams import Report, TaskPlan, report, short
from bellwether_kafka.coordinator.cli import NOTHING, RACK_WIDTH, ROWS_MAX, Caption, ranges
from bellwether_kafka.coordinator.planning import cause
from bellwether_kafka.protocol.primitives import ProcessId


def streams_panel(
    previous: Decision[TaskPlan] | None,
    decision: Decision[TaskPlan],
    caption: Caption,
    next_probe_at_ms: int | None = None,
) -> RenderableType:
    """One round. `next_probe_at_ms` (epoch) is when we mean to probe, which may be earlier than Kafka's tick.

    `caption.name` turns a process id into what people call it.
    """
    found = report(decision.plan)
    lines: list[RenderableType] = [
        Text.assemble(("why   ", "dim"), cause(previous, decision).sentence),
        _table(decision, found, caption),
        _summary(decision, found, caption.took_ms),
    ]
    if found.withheld:
        text = f"{ranges_of(decision, np.flatnonzero(decision.plan.withheld))} wait for their former owner to let go"
        lines.append(Text.assemble(("later ", "dim"), (text, "yellow")))
    at_ms = next_probe_at_ms if next_probe_at_ms is not None else decision.probing_at_ms
    if found.warmups and at_ms is not None:
        moment = time.strftime("%H:%M:%S", time.localtime(at_ms / 1000))
        lines.append(Text.assemble(("probe ", "dim"), f"at {moment}, for {len(found.warmups)} warm-ups"))
    lines += [Text.assemble(("note  ", "dim"), (warning, "yellow")) for warning in decision.warnings]
    return Panel(Group(*lines), title=caption.title, title_align="left", border_style="cyan", padding=(0, 1))


def ranges_of(decision: Decision[TaskPlan], tasks: IntArray | LongArray) -> str:
    """Tasks in short: "0_0-3, 1_2"."""
    table = decision.plan.view.tasks
    by_subtopology: dict[int, list[int]] = {}
    for task in tasks.tolist():
        by_subtopology.setdefault(int(table.subtopology[task]), []).append(int(table.partition[task]))
    return ", ".join(f"{s}_{ranges(sorted(partitions))}" for s, partitions in sorted(by_subtopology.items()))


def _table(decision: Decision[TaskPlan], found: Report, caption: Caption) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, show_edge=False)
    table.add_column("process", overflow="fold")
    table.add_column("rack", max_width=RACK_WIDTH, overflow="fold")
    table.add_column("threads", justify="right", no_wrap=True)
    for heading in ("active", "change", "standby", "warming up"):
        table.add_column(heading, ratio=1, overflow="fold")
    lags = {(lag.process_id, lag.task): lag for lag in decision.plan.copies}
    plan = decision.plan
    for row, process in enumerate(found.processes[:ROWS_MAX]):
        mine, had = plan.target.active == row, decision.plan.before == row
        kept = plan.target.standby_process == row
        warming = [
            lags[process.process_id, decision.plan.view.tasks.task_id(t)]
            for t in plan.target.standby_task[kept & plan.target.warmup]
        ]
        table.add_row(
            _name(process.process_id, caption),
            process.rack or NOTHING,
            str(len(process.members)),
            ranges_of(decision, np.flatnonzero(mine)) or NOTHING,
            _change(ranges_of(decision, np.flatnonzero(mine & ~had)), ranges_of(decision, np.flatnonzero(had & ~mine))),
            ranges_of(decision, np.sort(plan.target.standby_task[kept & ~plan.target.warmup])) or NOTHING,
            "\n".join(map(_behind, warming)) or NOTHING,
        )
    if len(found.processes) > ROWS_MAX:
        table.add_row(f"... {len(found.processes) - ROWS_MAX} more", *[""] * 6)
    return table


def _name(process_id: ProcessId, caption: Caption) -> str:
    called = caption.name(str(process_id))
    return short(process_id) if called == str(process_id) else called


def _change(gained: str, lost: str) -> Text:
    text = Text()
    if gained:
        text.append(f"+ {gained}\n", style="green")
    if lost:
        text.append(f"- {lost}\n", style="red")
    text.rstrip()
    return text if text.plain else Text("=", style="dim")


def _behind(copy: CopyLag) -> str:
    lag = f"{copy.lag} behind" if copy.lag >= 0 else "lag unknown"
    age = "not reported yet" if copy.age_ms is None else f"{copy.age_ms / 1000:.0f} s ago"
    return f"{copy.task}: {lag}, {age}"


def _summary(decision: Decision[TaskPlan], found: Report, took_ms: float | None) -> Text:
    moved = decision.moves
    parts = [
        f"kept {moved.kept}, moved {moved.moved}, new {moved.new}",
        f"tasks per process {found.tasks_min}-{found.tasks_max}",
        f"standbys {found.standbys}",
        f"out of rack {found.cross_rack}",
    ]
    if found.standby_lag is not None:
        age = "" if found.standby_lag_age_ms is None else f" ({found.standby_lag_age_ms / 1000:.0f} s ago)"
        parts.append(f"standby lag {found.standby_lag}{age}")
    if not decision.plan.lags_known:
        parts.append("lags unknown")
    if took_ms is not None:
        parts.append(f"{took_ms:.0f} ms")
    return Text.assemble(("plan  ", "dim"), " | ".join(parts))
