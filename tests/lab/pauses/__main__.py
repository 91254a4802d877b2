"""`python -m tests.lab.pauses --times 5 --leaders java,bellwether --accidents restart,kill`.

Leaders take turns within each run, so that all of them meet the same machine. In a run the accident happens to each
instance in turn, so many times. A pause is the time in which a task processes nothing although records come. Runs are
appended to .cache/pauses.jsonl, of which the table is printed: median / worst.

`bystander` is the control: nothing happens to the application but that another one starts beside it.

For Java and what makes an instance go for good, `--runs 5 --times 1` is quicker than `--times 5`: nothing waits for
probing rebalances. With `TMPDIR` in memory, no disk that is slow to write pauses a broker.
"""

import argparse
import dataclasses
import itertools
import json
import sys

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import CACHE
from tests.lab.pauses.accidents import ACCIDENTS, can_run_out_of_memory
from tests.lab.pauses.run import LEADERS, SHAPES, Case, measure
from tests.lab.pauses.table import markdown, read

KEPT = CACHE / "pauses.jsonl"
HEARTBEATS_MS = (1_000, 3_000)
GUARANTEES = ("at_least_once", "exactly_once_v2")
# A process that is killed, or closes after an exception, does not leave its group. Orders come before restarts only.
ONLY = {"java-leave": ("restart", "scale-in"), "bellwether-order": ("restart",)}


def words(text: str) -> list[str]:
    return text.split(",")


def measured(shape: str, options: argparse.Namespace) -> int:
    """Appends every run with this shape; returns how many failed."""
    failures = 0
    cells = list(itertools.product(options.accidents, HEARTBEATS_MS, GUARANTEES, options.leaders))
    with KafkaCluster(nodes=SHAPES[shape].brokers) as cluster, KEPT.open("a") as sink:
        for run in range(1, options.runs + 1):
            for accident, heartbeat_ms, guarantee, leader in cells:
                case = Case(leader, accident, shape, heartbeat_ms, guarantee, options.closing_s)
                if accident not in ONLY.get(leader, ACCIDENTS):
                    continue
                if accident == "out-of-memory" and not can_run_out_of_memory():
                    print("out-of-memory is left out: there is no memory cgroup to write to", file=sys.stderr)
                    continue
                try:
                    measurement = measure(cluster, case, run, options.times)
                except AssertionError as failure:
                    failures += 1
                    print(f"{case}, run {run}: {failure}", file=sys.stderr, flush=True)
                    continue
                print(json.dumps(dataclasses.asdict(measurement)), file=sink, flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.pauses", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--times", type=int, default=5, help="that the accident happens in each run")
    parser.add_argument("--leaders", type=words, default=list(LEADERS))
    parser.add_argument("--accidents", type=words, default=list(ACCIDENTS))
    parser.add_argument("--shapes", type=words, default=["18"], help=f"tasks: {', '.join(SHAPES)}")
    parser.add_argument("--closing-s", type=float, default=0.0, help="that the stores of an instance take to close")
    options = parser.parse_args()
    failures = sum(measured(shape, options) for shape in options.shapes)
    print(markdown(read(KEPT)))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
