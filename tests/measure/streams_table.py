"""The table of docs/evidence/streams-vs-java.md from measured runs:
`python -m tests.measure.streams_table RUNS.json ...`.

The files are what `tests.measure.streams --json` wrote. Each cell is the least / median / most of the runs.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.interop.support.streams_stage import LEADERS
from tests.measure.streams import SCENARIOS, Measured

COLUMNS = {
    "unowned_ms_max": "longest without an owner, s",
    "unowned_ms_sum": "without an owner, all tasks, s",
    "rebalances": "rebalances",
    "settled_s": "until balanced and stable, s",
    "moves": "moves",
    "restored": "restored records",
    "foreign": "cross-rack partitions",
    "spread": "spread of tasks",
    "late": "back after their session",
    "load": "load of the machine",
}


def read(paths: Sequence[Path]) -> list[Measured]:
    return [Measured(**json.loads(line)) for path in paths for line in path.read_text().splitlines() if line.strip()]


def markdown(results: Sequence[Measured]) -> str:
    """One table; a row per scenario and leader."""
    lines = [
        f"| scenario | leader | runs | {' | '.join(COLUMNS.values())} | counts exact |",
        f"|---|---|---|{'---|' * len(COLUMNS)}---|",
    ]
    for scenario in SCENARIOS:
        for leader in LEADERS:
            runs = [r for r in results if (r.scenario, r.leader) == (scenario, leader)]
            if runs:
                cells = " | ".join(_cell(field, runs) for field in COLUMNS)
                exact = "yes" if all(run.exact for run in runs) else "NO"
                lines.append(f"| {scenario} | {leader} | {len(runs)} | {cells} | {exact} |")
    return "\n".join(lines)


def _cell(field: str, runs: Sequence[Measured]) -> str:
    values = sorted(float(getattr(run, field)) for run in runs)
    if "_ms_" in field:
        values = [value / 1000 for value in values]
    shown = (values[0], statistics.median(values), values[-1])
    digits = 1 if field.endswith("_s") or "_ms_" in field else 0
    return " / ".join(f"{value:.{digits}f}" for value in shown)


if __name__ == "__main__":
    print(markdown(read([Path(name) for name in sys.argv[1:]])))
