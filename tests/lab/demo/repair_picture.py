"""Before and after in one picture: what each member reads, how much of the load that is, and what crosses racks. It
only draws."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bellwether_kafka.assignors.consumer import PartitionPlan, crossing
from bellwether_kafka.assignors.shared import Decision, FloatArray, Weights
from tests.lab.demo.decision_panel import NOTHING, Flats, partitions

BAR_WIDTH = 16  # of a member with twice the mean
UNEVEN = 1.2  # times the mean; `load-aware` may leave as much
HOT = 3.0  # times the mean, from which on a partition is named
SIDES = "before", "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One group before and after its repair. Without `weights` all partitions weigh the same. `name` returns what
    people call a member."""

    title: str
    before: Decision[PartitionPlan]
    after: Decision[PartitionPlan]
    weights: Weights = field(default_factory=Weights)
    name: Callable[[str], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one member reads. `times_mean` is its load relative to the mean of all members; `hot` is its heaviest
    partition if that is hot, "" if not; `across` counts the partitions whose leader is in another rack."""

    rack: str
    times_mean: float
    amount: str
    flats: Flats
    hot: str
    across: int


def repair_picture(repairs: Sequence[Repair]) -> RenderableType:
    """Returns the repairs of several groups as one picture."""
    parts: list[RenderableType] = []
    for repair in repairs:
        before, after = readings(repair, repair.before), readings(repair, repair.after)
        parts += [_table(repair, before, after), _sentence(repair, before, after), Text()]
    return Panel(Group(*parts[:-1]), title="[bold]before and after", title_align="left", border_style="green")


def svg(picture: RenderableType, width: int) -> str:
    """Returns the picture as an SVG document that refers to no other document."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(picture)
    drawn = console.export_svg(title="make demo", unique_id="repaired")
    return re.sub(r"@font-face\s*\{[^}]*\}\s*", "", drawn)


def readings(repair: Repair, decision: Decision[PartitionPlan]) -> dict[str, Reading]:
    """Returns what each member reads by this decision, by the member's name."""
    plan, cluster = decision.plan, decision.cluster
    sent, weight = plan.target.sent, _weight(repair, decision)
    across = crossing(plan.group, cluster, sent)
    mean = float(weight.sum()) / plan.group.size
    members = {}
    for m, member in enumerate(plan.group.members):
        own = np.flatnonzero(sent == m)
        load = float(weight[own].sum())
        by_load = f"{load / weight.sum():.0%} of the load" if repair.weights.of else f"{len(own)} partitions"
        heaviest = own[weight[own].argmax()] if len(own) else None
        topic, partition = cluster.name(int(heaviest)) if heaviest is not None else ("", 0)
        hot = heaviest is not None and weight[heaviest] > HOT * weight.mean()
        members[repair.name(member.member_id)] = Reading(
            rack=member.rack or NOTHING,
            times_mean=load / mean,
            amount=by_load,
            flats=own,
            hot=f"{topic}-{partition}" if hot else "",
            across=int(across[own].sum()),
        )
    return members


def _weight(repair: Repair, decision: Decision[PartitionPlan]) -> FloatArray:
    every = np.ones(decision.cluster.partition_total, dtype=np.bool_)
    return repair.weights.dense(decision.cluster, every)[0]


def _table(repair: Repair, before: dict[str, Reading], after: dict[str, Reading]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, expand=True, pad_edge=False, show_edge=False, title=repair.title, title_justify="left"
    )
    for heading in ("member", "rack"):
        table.add_column(heading, no_wrap=True)
    for heading in SIDES:
        table.add_column(heading, ratio=1)
    for member in sorted(before | after):
        rack = (after.get(member) or before[member]).rack
        cells = _cell(repair.before, before.get(member)), _cell(repair.after, after.get(member))
        table.add_row(member, rack, *cells)
    return table


def _cell(decision: Decision[PartitionPlan], reading: Reading | None) -> Text:
    if reading is None:
        return Text(NOTHING, style="dim")
    bar = "█" * max(1, min(BAR_WIDTH, round(reading.times_mean * BAR_WIDTH / 2)))
    text = Text.assemble((bar, "red" if reading.times_mean > UNEVEN else "green"), f" {reading.amount}")
    if reading.across:
        text.append(f", {reading.across} across racks", style="yellow")
    text.append("\n" + partitions(decision.cluster, reading.flats).replace("\n", "  "), style="dim")
    if reading.hot:
        text.append(f"  {reading.hot} is hot", style="bold red")
    return text


def _sentence(repair: Repair, before: dict[str, Reading], after: dict[str, Reading]) -> Text:
    sides = before.values(), after.values()
    if repair.weights.of:
        fullest = " -> ".join(f"{max(reading.times_mean for reading in side):.2f}" for side in sides)
        return Text(f"fullest member {fullest} times the mean")
    across = " -> ".join(str(sum(reading.across for reading in side)) for side in sides)
    return Text(f"read across racks {across} of {repair.after.cluster.partition_total} partitions")
