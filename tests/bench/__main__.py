"""`make bench`: a group leader's whole work, the JVM's own assignors beside ours, on the same bytes in one run.

Both sides are warmed (the JVM longer) and measured for the same time; both answers go through the same validator.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignors.model import IntArray
from protocol.bulk import owner_of
from tests.bench.jvm import run_jvm
from tests.bench.ours import run_ours
from tests.bench.outcome import Outcome
from tests.bench.scenario import Scenario, Shape, disturbed, fresh
from tests.bench.validate import Verdict, check
from tests.interop.jvm import MissingToolError

COOPERATIVE = "cooperative-sticky"
SMALL = (
    Shape(COOPERATIVE, 2_100, 1, 2_100),
    Shape(COOPERATIVE, 2_100, 100, 21),
    Shape(COOPERATIVE, 100, 10, 100),
    Shape(COOPERATIVE, 100, 10, 100, racks=True),
    Shape("sticky", 100, 10, 100),
    Shape("sticky", 100, 10, 100, "leave"),
    Shape("sticky", 100, 10, 100, "fresh"),
    Shape("range", 100, 10, 100, "fresh"),
    Shape("range", 100, 10, 100, "fresh", racks=True),
    Shape("roundrobin", 100, 10, 100, "fresh"),
)
LARGE = (
    Shape(COOPERATIVE, 1_000, 100, 1_000),
    Shape(COOPERATIVE, 1_000, 100, 1_000, "leave"),
    Shape(COOPERATIVE, 1_000, 100, 1_000, "fresh"),
    Shape(COOPERATIVE, 1_000, 100, 1_000, racks=True),
    Shape(COOPERATIVE, 1_000, 100, 1_000, racks=True, replicas=1),
    Shape("sticky", 1_000, 100, 1_000),
    Shape("range", 1_000, 100, 1_000, "fresh"),
    Shape("range", 1_000, 100, 1_000, "fresh", racks=True),
    Shape("roundrobin", 1_000, 100, 1_000, "fresh"),
    Shape(COOPERATIVE, 2_000, 500, 2_000),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    shape: Shape
    jvm: Outcome
    ours: Outcome
    jvm_verdict: Verdict
    our_verdict: Verdict

    @property
    def ratio(self) -> float:
        """How many times as long the JVM takes, best against best."""
        return self.jvm.best.total / self.ours.best.total


def measure(shape: Shape, warm_s: float, measure_s: float) -> Row:
    scenario = _scenario(shape)
    jvm = run_jvm(scenario, warm_s=warm_s, measure_s=measure_s)
    ours = run_ours(scenario, warm_s=min(warm_s, 1.0), measure_s=measure_s)
    return Row(shape, jvm, ours, check(scenario, jvm.assignments), check(scenario, ours.assignments))


def _scenario(shape: Shape) -> Scenario:
    """The settled plan that the event disturbs is the JVM's own."""
    if not shape.settled_members:
        return fresh(shape, shape.members)
    start = fresh(shape, shape.settled_members)
    plan = run_jvm(start, warm_s=0, measure_s=0, once=True)
    settled: IntArray = start.numbers[owner_of(plan.assignments, start.cluster.topics, start.cluster.first)]
    return disturbed(shape, settled)


def table(rows: list[Row]) -> Table:
    shown = Table(title="Milliseconds of a leader's whole work: decode + assign + encode, best of all runs (median)")
    shown.add_column("protocol, event, members x partitions", overflow="fold")
    for name in ("JVM", "ours"):
        shown.add_column(f"{name} decode + assign + encode", justify="right", overflow="fold")
        shown.add_column("total", justify="right", overflow="fold")
        shown.add_column("first run", justify="right")
    shown.add_column("JVM / ours", justify="right")
    shown.add_column("moved, cross-rack: JVM", justify="right", overflow="fold")
    shown.add_column("ours", justify="right", overflow="fold")
    for row in rows:
        cells = [str(row.shape)]
        for outcome in (row.jvm, row.ours):
            best = outcome.best
            cells.append(f"{_ms(best.decode)} + {_ms(best.assign)} + {_ms(best.encode)}")
            cells.append(f"{_ms(best.total)} ({_ms(outcome.median.total)})")
            cells.append(_ms(outcome.first))
        colour = "green" if row.ratio >= 1 else "red"
        cells.append(f"[{colour}]{row.ratio:.1f}x[/{colour}]")
        cells += [f"{v.moved:,}, {v.foreign:,}" for v in (row.jvm_verdict, row.our_verdict)]
        shown.add_row(*cells)
    return shown


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _write(path: Path, rows: list[Row]) -> None:
    said = [
        {
            "row": str(row.shape),
            "jvm_best_ms": asdict(row.jvm.best),
            "jvm_median_ms": row.jvm.median.total,
            "jvm_first_ms": row.jvm.first,
            "our_best_ms": asdict(row.ours.best),
            "our_median_ms": row.ours.median.total,
            "our_first_ms": row.ours.first,
            "ratio": row.ratio,
        }
        for row in rows
    ]
    path.write_text(json.dumps(said, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--warm", type=float, default=5.0, help="seconds of warm-up of the JVM per row")
    parser.add_argument("--measure", type=float, default=4.0, help="seconds of measuring per row and side")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    shapes = [s for s in (SMALL if options.quick else SMALL + LARGE) if options.only in str(s)]
    console = Console(width=None if sys.stdout.isatty() else 180)
    rows: list[Row] = []
    try:
        with console.status("") as status:
            for number, shape in enumerate(shapes, 1):
                status.update(f"{number}/{len(shapes)} {shape}")
                rows.append(measure(shape, options.warm, options.measure))
                totals = f"JVM {_ms(rows[-1].jvm.best.total)} ms, ours {_ms(rows[-1].ours.best.total)} ms"
                console.print(f"[dim]{number}/{len(shapes)}[/dim] {shape}: {totals}", highlight=False)
    except MissingToolError as missing:
        console.print(f"The benchmark runs the JVM beside us, and {missing}.")
        return 2
    console.print(table(rows))
    if options.json is not None:
        _write(options.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
