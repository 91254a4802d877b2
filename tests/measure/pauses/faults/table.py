"""The table of the rows that have run."""

import os
from collections.abc import Sequence

from tests.measure.pauses.faults.rows import Row

HEADER = "| fault | longest pause of a task | bound | its pauses together | counts | leader afterwards | reported |"
CELL_MAX = 200


def table(rows: Sequence[Row]) -> str:
    passed = sum(row.passed for row in rows)
    head = f"{len(rows)} rows, {passed} within the bound and exact, on {os.cpu_count()} cores."
    return "\n".join([head, "", HEADER, "|---" * (HEADER.count("|") - 1) + "|", *map(_line, rows)])


def _line(row: Row) -> str:
    if row.pause_s is None:
        return f"| {row.fault} | **{_cell(row.broken)}** | | | | | |"
    counts = {True: "exact", False: "**not exact**", None: "-"}[row.exact]
    reported = f"`{_cell(row.message)}`" if row.message else "nothing"
    broken = f" **{_cell(row.broken)}**" if row.broken else ""
    pause = f"{row.pause_s:.1f} s" if row.pause_s <= row.bound_s else f"**{row.pause_s:.1f} s**"
    figures = f"{pause} | {row.bound_s:.0f} s | {row.all_s:.1f} s | {counts}"
    return f"| {row.fault} | {figures} | {row.led_by} | {reported}{broken} |"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ").replace("`", "'")[:CELL_MAX]
