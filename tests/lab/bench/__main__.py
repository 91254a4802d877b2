"""`make bench`: a group leader's whole work, Bellwether beside its peers, on the same bytes in one run.

All are warmed and measured for the same time (the JVM warmed longer), and all answers go through the same validator.
Figures, table and plot go to docs/evidence/benchmarks.*; what was not measured this time stays there as it was.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from bellwether_kafka.protocol.primitives import ProtocolError
from tests.lab.bench import streams
from tests.lab.bench.jvm import run_franz, run_jvm
from tests.lab.bench.outcome import CLOCK, Outcome
from tests.lab.bench.own import run_own
from tests.lab.bench.report import FRANZ, JVM, OWN, UNIFORM, Figures, ms, save, stamp, total
from tests.lab.bench.scenario import Scenario, Shape, disturbed, fresh
from tests.lab.bench.validate import check

COOPERATIVE = "cooperative-sticky"
SMALL = (
    Shape(COOPERATIVE, 2_100, 1, 2_100),
    Shape(COOPERATIVE, 2_100, 100, 21),
    *(Shape(COOPERATIVE, 100, 10, 100, event) for event in ("join", "leave", "churn")),
    Shape(COOPERATIVE, 100, 10, 100, racks=True),
    *(Shape("sticky", 100, 10, 100, event) for event in ("join", "leave", "fresh")),
    *(Shape("range", 100, 10, 100, "fresh", racks=racks) for racks in (False, True)),
    Shape("roundrobin", 100, 10, 100, "fresh"),
)
LARGE = (
    *(Shape(COOPERATIVE, 1_000, 100, 1_000, event) for event in ("leave", "fresh", "churn")),
    Shape(COOPERATIVE, 1_000, 100, 1_000, racks=True),
    Shape(COOPERATIVE, 1_000, 100, 1_000, racks=True, replicas=1),
    Shape(COOPERATIVE, 1_000, 100, 1_000, racks=True, skewed=True),
    *(Shape(COOPERATIVE, 500, 200, 100, event, subscribe="mixed") for event in ("join", "churn")),
    Shape(COOPERATIVE, 500, 200, 100, subscribe="disjoint"),
    Shape("sticky", 1_000, 100, 1_000),
    *(Shape("range", 1_000, 100, 1_000, "fresh", racks=racks) for racks in (False, True)),
    Shape("roundrobin", 1_000, 100, 1_000, "fresh"),
)
# The same members and ever more partitions: what the plot shows.
GROWTH = tuple(Shape(COOPERATIVE, 1_000, 100, size) for size in (100, 300, 1_000, 3_000, 10_000))
MILLION = (
    *(Shape(COOPERATIVE, 2_000, 500, 2_000, event) for event in ("join", "leave", "fresh", "churn")),
    *(Shape(COOPERATIVE, 2_000, 500, 2_000, racks=True, skewed=skewed) for skewed in (False, True)),
    *(Shape(COOPERATIVE, 2_000, 500, 2_000, event, subscribe="mixed") for event in ("join", "churn")),
    Shape(COOPERATIVE, 2_000, 500, 2_000, subscribe="disjoint"),
    Shape("sticky", 2_000, 500, 2_000),
    *(Shape(protocol, 2_000, 500, 2_000, "fresh") for protocol in ("range", "roundrobin")),
)
WARM_S, MEASURE_S = 5.0, 4.0  # of the peers in each row; of each engine
SHAPES = (*SMALL, *GROWTH, *LARGE, *MILLION)
ONLY = 'rows whose name contains this; "streams" for the Streams rows, "whole decision" for those of them without a JVM'


def measure(shape: Shape) -> Figures:
    """One row: every engine that knows this protocol, one after the other."""
    scenario = _scenario(shape)
    seconds: dict[str, Any] = {"warm_s": WARM_S, "measure_s": MEASURE_S}
    engines: dict[str, Callable[[], Outcome]] = {JVM: lambda: run_jvm(scenario, **seconds)}
    if shape.protocol == COOPERATIVE:
        engines[UNIFORM] = lambda: run_jvm(scenario, uniform=True, **seconds)
    if not shape.racks:
        engines[FRANZ] = lambda: run_franz(scenario, **seconds)
    figures = {name: _peer(scenario, engine) for name, engine in engines.items()}
    own = run_own(scenario, warm_s=min(WARM_S, 1.0), measure_s=MEASURE_S)
    figures[OWN] = _figures(scenario, own)
    return {
        "row": str(shape),
        "members": shape.members,
        "partitions": shape.partitions,
        "growth": shape in GROWTH,
        "input_bytes": sum(map(len, scenario.metadata)),
        "engines": figures,
        **stamp(),
    }


def _peer(scenario: Scenario, engine: Callable[[], Outcome]) -> Figures:
    """What a peer did; where it gave no valid plan or no plan in time, that is the figure."""
    try:
        return _figures(scenario, engine())
    except (AssertionError, ProtocolError) as error:
        return {"failed": f"not valid: {error}"}
    except RuntimeError as error:
        return {"failed": str(error).splitlines()[0]}
    except subprocess.TimeoutExpired as error:
        return {"failed": f"not done in {error.timeout:.0f} s"}


def _figures(scenario: Scenario, outcome: Outcome) -> Figures:
    verdict = check(scenario, outcome.assignments)
    return {
        "best": asdict(outcome.best),
        "median": outcome.median.total,
        "first": outcome.first,
        "runs": len(outcome.runs),
        **asdict(verdict),
    }


def _scenario(shape: Shape) -> Scenario:
    """The settled plan that the event disturbs is the JVM's, or Bellwether's where the JVM makes none in time: where
    not all members subscribe to the same topics."""
    if not shape.settled_members:
        return fresh(shape, shape.members)
    start = fresh(shape, shape.settled_members)
    if shape.subscribe == "all":
        plan = run_jvm(start, warm_s=0, measure_s=0, once=True)
    else:
        plan = run_own(start, warm_s=0, measure_s=0)
    return disturbed(shape, start.owners(plan.assignments))


def _message(row: Figures) -> str:
    each = [
        f"{name} {figures['failed'] if 'failed' in figures else ms(total(figures)) + ' ms'}"
        for name, figures in row["engines"].items()
    ]
    return f"{', '.join(each)} (load {row['load']})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.bench", description=__doc__)
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu where the machine is busy")
    options = parser.parse_args()
    os.environ[CLOCK] = options.clock
    shapes = [shape for shape in SHAPES if options.only in str(shape)]
    order = [str(shape) for shape in SHAPES]
    for number, shape in enumerate(shapes, 1):
        row = measure(shape)
        print(f"{number}/{len(shapes)} {shape}: {_message(row)}", flush=True)
        save([row], [], order)
    if options.only in ("", "streams", "whole decision"):
        for task in streams.whole_rows() if options.only == "whole decision" else streams.rows():
            print(f"{task.row}: {ms(task.own_ms)} ms, {task.outcome}", flush=True)
            save([], [{**asdict(task), **stamp()}], order)
    print("Written to docs/evidence/benchmarks.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
