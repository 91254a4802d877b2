"""The tables of docs/evidence/no-pause.md, each between two marks."""

import fcntl

from tests.paths import ROOT

EVIDENCE = ROOT / "docs" / "evidence"
PAGE = EVIDENCE / "no-pause.md"


def write_between(mark: str, text: str) -> None:
    """Replaces what is between `<!-- mark: begin -->` and `<!-- mark: end -->`. Several processes may write at once."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    with PAGE.open("r+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        whole = page.read()
        before, after = whole.split(begin)[0], whole.split(end)[1]
        page.seek(0)
        page.write(f"{before}{begin}\n{text}\n{end}{after}")
        page.truncate()
