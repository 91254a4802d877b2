"""Rows between runs: a JSON file beside the evidence, and the table in it that is made of the file."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.measure.pauses.faults.rows import Row
from tests.measure.pauses.page import EVIDENCE, write_between

KEPT = EVIDENCE / "no-pause-faults.json"
HEADER = "| fault | longest pause of a task | bound | its pauses together | counts | leader afterwards | reported |"
SAID_MAX = 200


def keep(row: Row, every: Sequence[tuple[str, str]]) -> None:
    """`every`: name and fault of all rows, those that have not run included."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    rows[row.name] = {**asdict(row), "passed": row.passed, "day": time.strftime("%Y-%m-%d", time.gmtime())}
    order = {name: at for at, (name, _) in enumerate(every)}
    ordered = dict(sorted(rows.items(), key=lambda item: order.get(item[0], len(order))))
    KEPT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    write_table(ordered, every)


def write_table(rows: dict[str, dict[str, Any]], every: Sequence[tuple[str, str]]) -> None:
    write_between("faults", table(rows, every))


def table(rows: dict[str, dict[str, Any]], every: Sequence[tuple[str, str]]) -> str:
    ran = [rows[name] for name, _fault in every if name in rows]
    kept = sum(row["passed"] for row in ran)
    loads = [row["load"] for row in ran]
    idle = rows.get("idle")
    machine = "" if idle is None else f" While nothing happened, a task paused for {idle['pause_s']:.1f} s."
    stamp = f"{os.cpu_count()} cores, load average {min(loads):.0f} to {max(loads):.0f}"
    lines = [
        f"{len(ran)} of {len(every)} rows have run, {kept} within the bound and exact, on {stamp}.{machine}",
        "",
        HEADER,
        "|---" * (HEADER.count("|") - 1) + "|",
    ]
    return "\n".join([*lines, *(_line(rows.get(name), fault) for name, fault in every)])


def _line(row: dict[str, Any] | None, fault: str) -> str:
    if row is None:
        return f"| {fault} | not run | | | | | |"
    if row["pause_s"] is None:
        return f"| {fault} | **{_flat(row['broken'])[:SAID_MAX]}** | | | | | |"
    counts = {True: "exact", False: "**not exact**", None: "-"}[row["exact"]]
    said = f"`{_flat(row['said'])[:SAID_MAX]}`" if row["said"] else "nothing"
    broken = f" **{_flat(row['broken'])[:SAID_MAX]}**" if row["broken"] else ""
    pause = f"{row['pause_s']:.1f} s" if row["pause_s"] <= row["bound_s"] else f"**{row['pause_s']:.1f} s**"
    figures = f"{pause} | {row['bound_s']:.0f} s | {row['all_s']:.1f} s | {counts}"
    return f"| {fault} | {figures} | {row['led_by']} | {said}{broken} |"


def _flat(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ").replace("`", "'")
