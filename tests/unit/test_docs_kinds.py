"""What each kind of page may have: guides are short and free of measurements, evidence has its order."""

import re
from pathlib import Path

import pytest

from tests.paths import DOCS, ROOT

PAGE_WORDS_MAX = 2_500
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LOOKED_UP = {DOCS / "reference", DOCS / "evidence"}  # pages that nobody reads from beginning to end
READ = sorted(
    path
    for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))
    if path.parent not in LOOKED_UP and path.name not in ("CHANGELOG.md", "CODE_OF_CONDUCT.md")
)
FOR_USERS = [ROOT / "README.md", *(page for page in READ if page.parent.name in ("get-started", "guides"))]
EVIDENCE = sorted(page for page in (DOCS / "evidence").glob("*.md") if page.name != "README.md")
# How evidence speaks of the machine that measured, and of tests.
MEASURED = re.compile(r"\bload averages?\b|\bat a load\b|\bloads? of \d|\btest_\w+|\btests/", re.IGNORECASE)


def words(page: Path) -> int:
    """Words of a page without its code; bars and bullets are none."""
    return sum(bool(re.search(r"\w", word)) for word in FENCE.sub("", page.read_text(encoding="utf-8")).split())


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_is_read_from_beginning_to_end_is_short(page: Path) -> None:
    count = words(page)
    assert count <= PAGE_WORDS_MAX, (
        f"{page.relative_to(ROOT)} has {count} words, {count - PAGE_WORDS_MAX} too many: shorten it, move what is"
        " looked up to docs/reference, or divide it by task and list the new page in mkdocs.yml."
    )


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_users_name_no_tests_and_no_load_of_the_machine(page: Path) -> None:
    assert MEASURED.findall(page.read_text(encoding="utf-8")) == []


def test_loads_and_tests_are_found() -> None:
    text = "At a load of 12, `tests/unit/test_a.py::test_b` took 3 s (load average 10). The load of a member is 3 MB/s."
    assert MEASURED.findall(text) == ["At a load", "tests/", "test_a", "test_b", "load average"]


@pytest.mark.parametrize("page", EVIDENCE, ids=lambda page: page.name)
def test_evidence_is_summary_method_and_then_what_was_found(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[:2] == ["Summary", "Method"]
    assert not re.search(r"^#+ (?:Bugs|What it found)$", text, re.MULTILINE), "fixed bugs belong to the changelog"
