"""The page of the interoperability matrix has a cell for every step of every client on every broker."""

import re

from tests.lab.matrix import DOC, LINES, RELEASES, STEPS, STREAMS_LINES, document

MEASURED = re.compile(r"\d+\.\d(, a rebalance)?")


def cells_of(page: str) -> dict[tuple[str, str, str], list[str]]:
    """By version of the broker, client and way to rebalance."""
    by_cell = {}
    for line in page.splitlines():
        client, way, *cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else ["", ""]
        if len(cells) == len(STEPS) and cells[0] not in ("plan, s", "---"):
            for number, (_, version) in enumerate(RELEASES.values()):
                each = (cell if cell == "n/a" else cell.split("; ")[number] for cell in cells)
                by_cell[version, client, way] = list(each)
    return by_cell


def test_the_page_has_a_measured_cell_for_every_step_or_says_why_not() -> None:
    page = DOC.read_text(encoding="utf-8")
    by_cell = cells_of(page)
    assert set(by_cell) == {
        (v, line.client, line.way) for _, v in RELEASES.values() for line in (*LINES, *STREAMS_LINES)
    }
    cells = [cell for row in by_cell.values() for cell in row]
    assert {cell for cell in cells if not MEASURED.fullmatch(cell)} == {"n/a"}
    assert f"{sum(cell != 'n/a' for cell in cells)} cells measured, 0 failed" in page
    for line in (*LINES, *STREAMS_LINES):
        assert not line.why_not or line.why_not in page


def test_what_failed_and_what_was_not_run_is_reported() -> None:
    reported = {"4.3": {"franz-go-eager": {"plan": "1.0 s", "join": "FAILED", "when": "2026-01-01", "load": "3"}}}
    page = document(reported)
    assert cells_of(page)[RELEASES["4.3"][1], "franz-go", "eager"] == ["1.0", "FAILED", *["not run"] * 3]
    assert "1 cells measured, 1 failed; 2026-01-01, " in page
