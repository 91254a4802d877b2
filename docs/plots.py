"""Draws the plots of docs/evidence from the tables of its pages: `python docs/plots.py`.

A test compares. Every plot is a dot chart: a row for each thing that was measured, its values on a linear axis from
zero. Series differ in shape and in lightness, so that print without colour keeps them apart.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count, takewhile
from math import floor, log10
from pathlib import Path

EVIDENCE = Path(__file__).resolve().parent / "evidence"
WIDTH, LABELS, RIGHT, TOP, ROW, BOTTOM = 860, 300, 150, 84, 30, 52
LABEL_CHARS = 46
DARK, LIGHT = "#222222", "#dddddd"
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00")  # of Okabe and Ito: distinct for colour-blind readers
SECONDS = re.compile(r"([\d.]+) s\b")
Cells = list[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a chart. `points`: pairs of a series' number and a value. `note` is written beside the last point."""

    label: str
    points: Sequence[tuple[int, float]]
    note: str = ""
    bounds: Sequence[tuple[int, float]] = ()
    span: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A title, the axis with its unit, and the rows. `limit`: a value that none of them may exceed, and its name."""

    title: str
    axis: str
    rows: Sequence[Row]
    series: Sequence[str] = ()
    bound: str = ""
    limit: tuple[float, str] | None = None


def tables(page: str) -> Iterator[tuple[str, list[Cells]]]:
    """Each table of a page of evidence, without its head, with the heading above it."""
    heading, rows = "", []
    for line in [*(EVIDENCE / page).read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            yield heading, rows[2:]
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")


def table(page: str, heading: str) -> list[Cells]:
    """The first table below a heading."""
    return next(rows for above, rows in tables(page) if above == heading)


def seconds(cell: str) -> float | None:
    """The first time in a cell, if there is one."""
    hit = SECONDS.search(cell)
    return float(hit[1]) if hit else None


def known(values: Mapping[int, float | None]) -> tuple[tuple[int, float], ...]:
    return tuple((series, value) for series, value in values.items() if value is not None)


def kills() -> Chart:
    rows = [
        Row(step, known({0: seconds(alone), 1: seconds(standby)}), bounds=known({0: seconds(most), 1: seconds(least)}))
        for step, alone, most, standby, least in table("leading.md", "Kills at each step of a rebalance")
    ]
    title = "kill -9 of Bellwether at each step of a rebalance"
    axis = "seconds until every partition has an owner"
    return Chart(title, axis, rows, ("without a standby", "with a standby"), "promised")


def faults() -> Chart:
    rows = []
    for kind, measured in tables("faults.md"):
        found = [(seconds(took), seconds(promised)) for _, took, promised, *_ in measured]
        points = [(0, 100 * took / promised) for took, promised in found if took is not None and promised]
        rows.append(Row(re.sub(r" \(.*\)", "", kind), points, f"{len(points)} rows" if len(points) > 1 else "1 row"))
    return Chart("Faults on real brokers", "percent of the promised time", rows, limit=(100, "promised"))


def longest_waits() -> Chart:
    rows = []
    for what, longest, bound in table("simulation.md", "Figures"):
        took, most = seconds(longest), seconds(bound)
        if took is not None and most and SECONDS.fullmatch(bound):
            rows.append(Row(what, [(0, 100 * took / most)], f"{took:g} of {most:g} s"))
    return Chart("The longest waits of the simulation", "percent of the bound", rows, limit=(100, "bound"))


def clients() -> Chart:
    rows: dict[str, list[tuple[int, float]]] = {}
    for heading, cells in tables("interoperability.md"):
        if heading.startswith("Broker"):
            for client, rebalance, _, *times in cells:
                measured = known(dict(enumerate(map(seconds, times))))
                rows.setdefault(f"{client}, {rebalance}", []).extend(measured)
    drawn = [Row(label, points) for label, points in rows.items() if points]
    axis, events = "seconds, a point for each broker release", ("join", "leave", "crash", "static return")
    return Chart("Rebalances that Bellwether leads, by client", axis, drawn, events)


def next_to_java() -> Chart:
    rows = []
    for scenario, leader, _, _, _, _, stable, *_ in table("streams-vs-java.md", "Growth, rolling restart and crash"):
        least, median, most = (float(value) for value in stable.split("/"))
        note = f"{median:g} ({least:g} to {most:g})"
        rows.append(Row(f"{scenario}, {leader}", [(int(leader != "java"), median)], note, span=(least, most)))
    axis = "seconds until balanced and stable: median, least to most"
    return Chart("A Streams application next to Java", axis, rows, ("Java leads", "Bellwether leads"))


def ghosts() -> Chart:
    rows = [
        Row(who.replace("`", ""), known({0: seconds(longest)}), longest)
        for who, longest, *_ in table("no-pause.md", "Ghosts in a rolling restart")
    ]
    title = "A rolling restart of a Streams application, by who removes ghosts"
    return Chart(title, "seconds without an owner, the longest of any task", rows)


PLOTS: Mapping[str, Callable[[], Chart]] = {
    "leading.svg": kills,
    "faults.svg": faults,
    "simulation.svg": longest_waits,
    "interoperability.svg": clients,
    "streams-vs-java.svg": next_to_java,
    "no-pause.svg": ghosts,
}


def drawn(chart: Chart) -> str:
    """The chart as SVG."""
    top = TOP if chart.series or chart.limit else TOP - 40  # room for a legend, or for the name of a limit
    bottom = top + ROW * len(chart.rows)
    ticks = ticks_for(max(highest(chart)))
    body = [text(16, 26, chart.title, size=16), *legend(chart)]

    def x(value: float) -> float:
        return LABELS + value / ticks[-1] * (WIDTH - LABELS - RIGHT)

    for tick in ticks:
        body.append(f'<path d="M{x(tick):.1f} {top}V{bottom}" stroke="{LIGHT}"/>')
        body.append(text(x(tick), bottom + 18, f"{tick:g}", anchor="middle"))
    body.append(text((LABELS + WIDTH - RIGHT) / 2, bottom + 40, chart.axis, anchor="middle"))
    if chart.limit:
        at, name = x(chart.limit[0]), chart.limit[1]
        body.append(f'<path d="M{at:.1f} {top - 8}V{bottom}" stroke="{DARK}" stroke-dasharray="5 3"/>')
        body.append(text(at, top - 14, name, anchor="middle"))
    for number, row in enumerate(chart.rows):
        body += line(row, x, top + ROW * (number + 0.5))
    inside = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + BOTTOM}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{bottom + BOTTOM}" fill="white"/>\n{inside}\n</svg>\n'
    )


def highest(chart: Chart) -> Iterator[float]:
    """Every value that the axis must have room for."""
    yield chart.limit[0] if chart.limit else 0
    for row in chart.rows:
        yield from (value for _, value in (*row.points, *row.bounds))
        yield from row.span or ()


def ticks_for(most: float) -> list[float]:
    """From zero in steps of 1, 2 or 5 times a power of ten to the first one that is not below `most`; eight at most."""
    power = 10 ** floor(log10(most))
    step = next(step for step in (power / 10 * part for part in (1, 2, 5, 10, 20)) if most / step <= 7)
    return [step * number for number in takewhile(lambda number: step * (number - 1) < most, count())]


def line(row: Row, x: Callable[[float], float], y: float) -> Iterator[str]:
    """A row at height `y`: its label, then spans and bounds below the points."""
    words = textwrap.wrap(row.label, LABEL_CHARS)
    for number, part in enumerate(words):
        yield text(LABELS - 12, y + 4 + 13 * (number - (len(words) - 1) / 2), part, size=12, anchor="end")
    yield f'<path d="M{LABELS} {y:.1f}H{WIDTH - RIGHT}" stroke="{LIGHT}"/>'
    if row.span:
        yield f'<path d="M{x(row.span[0]):.1f} {y:.1f}H{x(row.span[1]):.1f}" stroke="{DARK}" stroke-width="3"/>'
    for series, value in row.bounds:
        yield f'<path d="M{x(value):.1f} {y - 10:.1f}v20" stroke="{COLOURS[series]}" stroke-width="3"/>'
    for series, value in row.points:
        yield mark(series, x(value), y)
    if row.note:
        yield text(WIDTH - RIGHT + 12, y + 4, row.note, size=12)


def legend(chart: Chart) -> Iterator[str]:
    left = 24.0
    for series, name in enumerate(chart.series):
        yield mark(series, left, 50)
        yield text(left + 12, 54, name)
        left += 40 + 7.5 * len(name)
    if chart.bound:
        yield f'<path d="M{left:.1f} 40v20" stroke="{DARK}" stroke-width="3"/>'
        yield text(left + 12, 54, chart.bound)


def mark(series: int, x: float, y: float) -> str:
    """A circle, a diamond, a square or a triangle, half transparent, because many may lie on one another."""
    paths = ("M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0", "M0 -7L7 0L0 7L-7 0Z", "M-5 -5H5V5H-5Z", "M0 -7L7 5H-7Z")
    style = f'fill="{COLOURS[series]}" fill-opacity="0.6" stroke="{DARK}"'
    return f'<path transform="translate({x:.1f} {y:.1f})" d="{paths[series]}" {style}/>'


def text(x: float, y: float, value: str, *, size: int = 13, anchor: str = "start") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{DARK}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(value)}</text>'


if __name__ == "__main__":
    for name, plot in PLOTS.items():
        (EVIDENCE / name).write_text(drawn(plot()), encoding="utf-8")
