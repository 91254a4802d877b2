"""`python -m tests.measure.pauses --runs 5 --leaders java,bellwether --accidents restart,kill --json FILE`.

Leaders take turns within each run, so that all of them meet the same machine. A pause is the time in which a task
processes nothing although records come. Prints a table: median / worst of the runs.
"""

import argparse
import dataclasses
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.interop.support.brokers import KafkaCluster
from tests.measure.pauses.accidents import ACCIDENTS, can_run_out_of_memory
from tests.measure.pauses.run import LEADERS, SHAPES, Case, Measured, Pause, measure

GUARANTEES = ("at_least_once", "exactly_once_v2")
HEADER = (
    "accident | tasks | heartbeat | guarantee | stores close | leader | runs | away, slowest task s |"
    " away, all tasks s | return, slowest task s | whole, slowest task s | whole, all tasks s |"
    " most records restored | counted twice | transactions timed out | load"
)


def words(text: str) -> list[str]:
    return text.split(",")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.pauses", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--leaders", type=words, default=list(LEADERS))
    parser.add_argument("--accidents", type=words, default=list(ACCIDENTS))
    parser.add_argument("--shapes", type=words, default=["18"], help=f"tasks: {', '.join(SHAPES)}")
    parser.add_argument("--heartbeats", type=words, default=["1000", "3000"], help="milliseconds")
    parser.add_argument("--guarantees", type=words, default=list(GUARANTEES))
    parser.add_argument("--closing-s", type=float, default=0.0, help="that the stores of an instance take to close")
    parser.add_argument("--json", type=Path, help="where every run is appended as a line")
    options = parser.parse_args()
    cells = list(
        itertools.product(
            options.accidents, options.shapes, map(int, options.heartbeats), options.guarantees, options.leaders
        )
    )
    done: list[Measured] = []
    failures = 0
    with KafkaCluster() as cluster, ExitStack() as stack:
        sink = stack.enter_context(options.json.open("a")) if options.json else None
        for run in range(1, options.runs + 1):
            for accident, shape, heartbeat_ms, guarantee, leader in cells:
                case = Case(leader, accident, shape, heartbeat_ms, guarantee, options.closing_s)
                if accident == "out-of-memory" and not can_run_out_of_memory():
                    print("out-of-memory is left out: there is no memory cgroup to write to", file=sys.stderr)
                    continue
                try:
                    found = measure(cluster, case, run)
                except AssertionError as failure:
                    failures += 1
                    print(f"{case}, run {run}: {failure}", file=sys.stderr, flush=True)
                    continue
                done.append(found)
                if sink is not None:
                    print(json.dumps(dataclasses.asdict(found)), file=sink, flush=True)
    print(markdown(done))
    return 1 if failures else 0


def markdown(found: Sequence[Measured]) -> str:
    lines = [f"| {HEADER} |", "|---" * (HEADER.count("|") + 1) + "|"]
    cases = list(dict.fromkeys(one.case for one in found))
    return "\n".join([*lines, *(_row(case, [one for one in found if one.case == case]) for case in cases)])


def _row(case: Case, runs: Sequence[Measured]) -> str:
    pauses = [pause for one in runs for pause in one.pauses]

    def both(field: Callable[[Pause], float]) -> str:
        values = [field(pause) for pause in pauses]
        return f"{statistics.median(values):.1f} / {max(values):.1f}"

    cells = (
        case.accident,
        case.shape,
        f"{case.heartbeat_ms / 1000:.0f} s",
        case.guarantee.removesuffix("_v2").replace("_", " "),
        f"{case.closing_s:.0f} s",
        case.leader,
        str(len(runs)),
        both(lambda p: p.away_s_max),
        both(lambda p: p.away_s_sum),
        both(lambda p: p.back_s_max),
        both(lambda p: p.whole_s_max),
        both(lambda p: p.whole_s_sum),
        f"{max(p.restored_max for p in pauses):,}",
        f"{max(one.twice for one in runs):,}",
        str(max(one.timed_out for one in runs)),
        f"{statistics.median(one.load for one in runs):.0f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
