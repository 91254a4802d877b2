"""A decision as a table for people: who had what, who gets what, in which rack, what moves and why. It only draws."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bellwether_kafka.assignors.consumer import PartitionPlan, crossing
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, Decision
from bellwether_kafka.coordinator.cli.output import ranges
from bellwether_kafka.coordinator.planning import cause

Flats = npt.NDArray[np.integer[Any]]

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Caption:
    """What is around the table. `name` turns a member id into what people call it."""

    title: str
    took_ms: float
    name: Callable[[str], str] = field(default=str)


def decision_panel(
    previous: Decision[PartitionPlan] | None, decision: Decision[PartitionPlan], caption: Caption
) -> RenderableType:
    """One rebalance, before and after. `previous` is the group's decision before, for members that are gone and the
    why."""
    why = cause(previous, decision, caption.name).sentence
    lines: list[RenderableType] = [Text.assemble(("why   ", "dim"), why), _table(previous, decision, caption.name)]
    lines.append(_summary(decision, caption.took_ms))
    lines += [Text.assemble(("stage ", "dim"), line) for line in _soft_stages(decision)]
    if decision.followup:
        lines.append(Text.assemble(("later ", "dim"), (_waiting(decision, caption.name), "yellow")))
    lines += [Text.assemble(("note  ", "dim"), (warning, "yellow")) for warning in decision.warnings]
    return Panel(Group(*lines), title=caption.title, title_align="left", border_style="cyan", padding=(0, 1))


def partitions(cluster: ClusterView, flats: Flats) -> str:
    """Flat partitions as one line per topic: "orders 0-3,7"."""
    by_topic: dict[str, list[int]] = {}
    for flat in sorted(flats.tolist()):
        topic, partition = cluster.name(flat)
        by_topic.setdefault(topic, []).append(partition)
    return "\n".join(f"{topic} {ranges(numbers)}" for topic, numbers in by_topic.items())


def _table(
    previous: Decision[PartitionPlan] | None, decision: Decision[PartitionPlan], name: Callable[[str], str]
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, show_edge=False)
    table.add_column("member", max_width=28, overflow="fold")
    table.add_column("rack", max_width=12, overflow="fold")
    for heading in ("before", "after", "change"):
        table.add_column(heading, ratio=1, overflow="fold")
    table.add_column("in rack", justify="right", no_wrap=True)
    group, cluster = decision.plan.group, decision.cluster
    sent = decision.plan.target.sent
    crosses = crossing(group, cluster, sent)
    order = sorted(range(group.size), key=lambda m: name(group.members[m].member_id))
    for m in order:
        had, has = decision.plan.before == m, sent == m
        rack = group.members[m].rack
        local = f"{int((has & ~crosses).sum())}/{int(has.sum())}" if group.rack[m] != NO_RACK else NOTHING
        table.add_row(
            name(group.members[m].member_id),
            rack or NOTHING,
            _cell(cluster, np.flatnonzero(had)),
            _cell(cluster, np.flatnonzero(has)),
            _change(cluster, np.flatnonzero(has & ~had), np.flatnonzero(had & ~has)),
            local,
        )
    _add_gone(table, previous, decision, name)
    return table


def _add_gone(
    table: Table,
    previous: Decision[PartitionPlan] | None,
    decision: Decision[PartitionPlan],
    name: Callable[[str], str],
) -> None:
    """Members that are no longer there, with what they had."""
    if previous is None:
        return
    here = {member.key for member in decision.plan.group.members}
    gone = [m for m, member in enumerate(previous.plan.group.members) if member.key not in here]
    for m in gone:
        member = previous.plan.group.members[m]
        had = np.flatnonzero(previous.plan.target.sent == m)
        change = _change(previous.cluster, np.zeros(0, dtype=np.int64), had)
        cells = _cell(previous.cluster, had), "gone", change, NOTHING
        table.add_row(name(member.member_id), member.rack or NOTHING, *cells, style="dim")


def _cell(cluster: ClusterView, flats: Flats) -> str:
    return partitions(cluster, flats) or NOTHING


def _change(cluster: ClusterView, gained: Flats, lost: Flats) -> Text:
    text = Text()
    for sign, flats, style in (("+", gained, "green"), ("-", lost, "red")):
        for line in partitions(cluster, flats).splitlines():
            text.append(f"{sign} {line}\n", style=style)
    text.rstrip()
    return text if text.plain else Text("=", style="dim")


def _summary(decision: Decision[PartitionPlan], took_ms: float) -> Text:
    was, now, moved = decision.plan.cost(decision.plan.before), decision.cost, decision.moves
    parts = [
        f"kept {moved.kept}, moved {moved.moved}, new {moved.new}",
        f"out of rack {was.cross_rack} -> {now.cross_rack}",
        f"spread {was.spread} -> {now.spread}",
        f"no owner {was.unowned} -> {now.unowned}",
        f"{took_ms:.0f} ms",
    ]
    return Text.assemble(("plan  ", "dim"), " | ".join(parts))


def _soft_stages(decision: Decision[PartitionPlan]) -> list[str]:
    return [
        f"{report.stage}: {report.reason}"
        for report in decision.stages
        if not report.hard and report.after != report.before
    ]


def _waiting(decision: Decision[PartitionPlan], name: Callable[[str], str]) -> str:
    """Partitions that their new owner gets one rebalance later."""
    group, cluster, owner = decision.plan.group, decision.cluster, decision.plan.owner
    waiting = np.flatnonzero(decision.plan.pending & (owner != NOBODY))
    by_owner: dict[int, list[int]] = {}
    for flat in waiting.tolist():
        by_owner.setdefault(int(owner[flat]), []).append(flat)
    message = [
        f"{name(group.members[m].member_id)} gets {', '.join(partitions(cluster, np.array(f)).splitlines())}"
        for m, f in by_owner.items()
    ]
    return f"{'; '.join(message)} in the next rebalance, once the former owner has let go"
