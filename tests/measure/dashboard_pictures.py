"""A picture of each dashboard as Grafana lays it out, with the data of a real Prometheus:
`make prove-dashboards PICTURES=docs/evidence/dashboards`. Grafana does not draw them: its look is another one.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
from matplotlib.figure import Figure

COLUMNS = 24  # of Grafana's grid
INCHES_PER_COLUMN, INCHES_PER_ROW = 0.62, 0.36
LINES_MAX = 6
UNITS = {"percentunit": (100.0, "%"), "s": (1.0, "s"), "Bps": (1.0, "bytes a second")}
# Wong's colours, which colour-blind people tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time, in seconds since the run began."""

    name: str
    times_s: Sequence[float]
    values: Sequence[float]


Ask = Callable[[str], Sequence[tuple[Mapping[str, str], Sequence[float], Sequence[float]]]]


def draw(board: Path, ask: Ask, into: Path) -> None:
    """`ask` answers a query as it stands in the dashboard: labels, times and values of each series."""
    dashboard = json.loads(board.read_text(encoding="utf-8"))
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    figure = Figure(figsize=(COLUMNS * INCHES_PER_COLUMN, rows * INCHES_PER_ROW), layout="constrained")
    grid = figure.add_gridspec(rows, COLUMNS)
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        axes = figure.add_subplot(grid[at["y"] : at["y"] + at["h"], at["x"] : at["x"] + at["w"]])
        axes.set_title(panel["title"], loc="left", fontsize=9, fontweight="bold")
        scale, unit = UNITS.get(panel["fieldConfig"]["defaults"].get("unit", ""), (1.0, ""))
        DRAWN[panel["type"]](axes, found(panel, ask, scale), unit)
    figure.suptitle(dashboard["title"], x=0.01, ha="left", fontsize=12)
    figure.savefig(into, dpi=80)


def found(panel: Mapping[str, Any], ask: Ask, scale: float) -> list[Series]:
    return [
        Series(legend(target.get("legendFormat", ""), labels), times_s, [value * scale for value in values])
        for target in panel["targets"]
        for labels, times_s, values in ask(target["expr"])
    ]


def legend(template: str, labels: Mapping[str, str]) -> str:
    """As Grafana fills in `{{label}}`."""
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda hit: labels.get(hit[1], ""), template).strip()


def _lines(axes: Any, drawn: Sequence[Series], unit: str) -> None:
    most = sorted(drawn, key=lambda one: -max(one.values))[:LINES_MAX]
    for colour, one in zip(COLOURS, most, strict=False):
        axes.plot(one.times_s, one.values, color=colour, linewidth=1.2, label=one.name[:40])
    highest = max((max(one.values) for one in most), default=0.0)
    axes.set_ylim(min((min(one.values) for one in most if min(one.values) < 0), default=0.0), highest * 1.4 or 1.0)
    axes.set_xlabel("seconds", fontsize=7)
    axes.set_ylabel(unit, fontsize=7)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if any(one.name for one in most):
        axes.legend(fontsize=6, frameon=False, loc="upper left")


def _number(axes: Any, drawn: Sequence[Series], unit: str) -> None:
    axes.axis("off")
    text = "\n".join(f"{one.name[:24]}  {one.values[-1]:,.4g} {unit}".strip() for one in drawn[:LINES_MAX]) or "no data"
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=18 if len(drawn) == 1 else 9, color=COLOURS[0])


def _bars(axes: Any, drawn: Sequence[Series], unit: str) -> None:
    axes.barh([one.name[:24] for one in drawn], [one.values[-1] for one in drawn], color=COLOURS[0])
    axes.set_xlabel(unit, fontsize=7)
    axes.tick_params(labelsize=7)


def _states(axes: Any, drawn: Sequence[Series], unit: str) -> None:
    """When each series was not 0."""
    del unit
    for row, one in enumerate(drawn):
        step = one.times_s[1] - one.times_s[0] if len(one.times_s) > 1 else 1.0
        for value, colour in ((True, COLOURS[2]), (False, "#cccccc")):
            at = [(t, step) for t, seen in zip(one.times_s, one.values, strict=True) if bool(seen) is value]
            axes.broken_barh(at, (row - 0.4, 0.8), color=colour)
    axes.set_yticks(range(len(drawn)), [one.name[:24] for one in drawn])
    axes.tick_params(labelsize=7)


DRAWN = {"timeseries": _lines, "stat": _number, "bargauge": _bars, "state-timeline": _states}
