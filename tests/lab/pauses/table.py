"""The table of all runs in the file that runs are appended to."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.pauses.accidents import ACCIDENTS
from tests.lab.pauses.run import LEADERS

HEADER = (
    "accident | tasks | records a second | heartbeat | guarantee | stores close in | leader | times |"
    " slowest task, before, s | slowest task, away, s | all tasks, away, s | slowest task, return, s |"
    " slowest task, whole, s | all tasks, whole, s | most records restored | counted twice |"
    " transactions timed out | load"
)
# Seconds of pause of the slowest task, by heartbeat interval: what the table is held against. Others have no goal.
GOALS_S = {1_000: 1.0, 3_000: 2.0}
CRASH_GOALS_S = {1_000: 2.0, 3_000: 4.0}

Run = dict[str, Any]


def read(path: Path) -> list[Run]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def markdown(runs: Sequence[Run]) -> str:
    """Median / worst of the runs of each case; a pause that is longer than the goal for Bellwether is bold."""
    lines = [f"| {HEADER} |", "|---" * (HEADER.count("|") + 1) + "|"]
    cases = sorted({_key(run["case"]): run["case"] for run in runs}.items())
    return "\n".join([*lines, *(_row(case, [run for run in runs if run["case"] == case]) for _, case in cases)])


def _key(case: dict[str, Any]) -> tuple[Any, ...]:
    shape = (int(case["shape"]), -case["per_second"], case["closing_s"])
    where = (*shape, list(ACCIDENTS).index(case["accident"]), case["heartbeat_ms"], case["guarantee"])
    return (*where, LEADERS.index(case["leader"]))


def _row(case: dict[str, Any], runs: Sequence[Run]) -> str:
    pauses = [pause for run in runs for pause in run["pauses"]]
    accident = ACCIDENTS[case["accident"]]
    crash, control = case["accident"] not in ("restart", "scale-in"), accident.control
    goal_s = None if control else (CRASH_GOALS_S if crash else GOALS_S).get(case["heartbeat_ms"])

    def both(field: str, most_s: float | None = None) -> str:
        values = [pause[field] for pause in pauses]
        text = f"{statistics.median(values):.1f} / {max(values):.1f}"
        missed = case["leader"].startswith("bellwether") and most_s is not None and statistics.median(values) >= most_s
        return f"**{text}**" if missed else text

    def most(field: str, of: Sequence[dict[str, Any]]) -> str:
        return f"{max(row[field] for row in of):,}"

    cells = (
        case["accident"],
        case["shape"],
        f"{case['per_second']:,}",
        f"{case['heartbeat_ms'] / 1000:g} s",
        case["guarantee"].removesuffix("_v2").replace("_", " "),
        f"{case['closing_s']:.0f} s",
        case["leader"],
        str(len(pauses)),
        f"{max(run['before_s_max'] for run in runs):.1f}" if all("before_s_max" in run for run in runs) else "-",
        "-" if control else both("away_s_max", goal_s),
        "-" if control else both("away_s_sum"),
        both("back_s_max", goal_s) if accident.returns else "-",
        both("whole_s_max"),
        both("whole_s_sum"),
        most("restored_max", pauses),
        most("twice", runs),
        most("timed_out", runs),
        f"{statistics.median(run['load'] for run in runs):.0f}",
    )
    return f"| {' | '.join(cells)} |"
