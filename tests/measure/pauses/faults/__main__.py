"""`python -m tests.measure.pauses.faults [NAME...]`: a row each, by name or by its beginning, such as `crash` or
`restart/node`. Prints a table of them.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.raw import RawError
from tests.measure.faults.scene import ProxiedCluster
from tests.measure.faults.wire import FAKETIME, faketime
from tests.measure.pauses.faults.plans import ALONE, WITHOUT_STANDBY, jumps, once, steps, without, without_standby
from tests.measure.pauses.faults.rights import CASES, USER, measured
from tests.measure.pauses.faults.rows import Plan, Row, measure, unfinished
from tests.measure.pauses.faults.scene import Scene, Setting, brokers, scene
from tests.measure.pauses.faults.table import table

SCENES_MAX = 2  # that come to nothing, one after another
# What a scene that does not come to rest raises, by who notices it first.
WENT_WRONG = (AssertionError, RawError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that share a scene."""

    name: str
    setting: Setting
    plans: Sequence[Plan]


def batches(clock: Path) -> list[Batch]:
    clock.write_text("+0")
    found = [
        Batch("guarded", Setting(), [*steps(), *once()]),
        Batch("alone", ALONE, list(without())),
        Batch("unbacked", WITHOUT_STANDBY, list(without_standby())),
    ]
    if FAKETIME.exists():
        found.append(Batch("clock", Setting(command=faketime(clock)), list(jumps(clock))))
    return found


def run(cluster: ProxiedCluster, batch: Batch, plans: Sequence[Plan]) -> Iterator[Row]:
    """A row that goes wrong ends its scene; the next one gets another."""
    left, failures = list(plans), 0
    while left and failures < SCENES_MAX:
        try:
            with scene(cluster, f"{batch.name}-{int(time.time())}", batch.setting) as found:
                failures, sound = 0, True
                while left and sound:
                    row, sound = _row(found, left.pop(0))
                    yield row
        except WENT_WRONG as failure:  # before the first row, or behind the last one
            print(failure, file=sys.stderr, flush=True)
            failures += 1


def _row(found: Scene, plan: Plan) -> tuple[Row, bool]:
    """And whether its scene serves another one."""
    print(f"--- {plan.name}", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        row = measure(found, plan)
    except WENT_WRONG as failure:
        print(failure, file=sys.stderr, flush=True)
        row = unfinished(plan, str(failure))
    else:
        try:
            found.heal()
        except WENT_WRONG as failure:
            print(failure, file=sys.stderr, flush=True)
            row = replace(row, broken=f"afterwards: {str(failure)[:300]}")
    print(f"{time.monotonic() - began:.0f} s, {row}", file=sys.stderr, flush=True)
    serves = found.lead is None or found.led_by() == "Bellwether"
    return row, bool(row.exact) and not row.broken and serves


def _chosen(known: Sequence[Batch], names: Sequence[str]) -> Iterator[Row]:
    def wanted(name: str) -> bool:
        return not names or name.startswith(tuple(names))

    chosen = [(batch, [plan for plan in batch.plans if wanted(plan.name)]) for batch in known]
    if any(plans for _, plans in chosen):
        with brokers() as cluster:
            for batch, plans in chosen:
                yield from run(cluster, batch, plans)
    if cases := [case for case in CASES if wanted(case.name)]:
        with KafkaCluster(nodes=1, users={USER: USER}) as secured:
            yield from (measured(secured, case) for case in cases)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.pauses.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names of rows, or how they begin")
    parser.add_argument("--list", action="store_true", help="print the names of all rows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bellwether-clock-") as directory:
        known = batches(Path(directory) / "clock")
        every = [(plan.name, plan.fault) for batch in known for plan in batch.plans]
        every += [(case.name, case.fault) for case in CASES]
        if options.list:
            print("\n".join(name for name, _ in every))
            return 0
        done = list(_chosen(known, options.rows))
    print(table(done))
    return 0 if done and all(row.passed for row in done) else 1


if __name__ == "__main__":
    sys.exit(main())
