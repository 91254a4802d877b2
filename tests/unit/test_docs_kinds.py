"""What each kind of page may have: words by kind, and guides without measurements."""

import re
from pathlib import Path

import pytest

from tests.paths import DOCS, ROOT

# By folder; the pages at the top of the repository are read like guides.
WORDS_MAX = {"guides": 2_150, "get-started": 850, "reference": 2_750, "evidence": 2_400}
OTHER_WORDS_MAX = 2_200
REMEDY = (
    "shorten it, move what is looked up to docs/reference, or divide it by task and list the new page in mkdocs.yml"
)
CHANGELOG_REMEDY = (
    "say what users must know in a line; if a merge by union has brought deleted lines back, take the page of main and"
    " add your lines again"
)
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
ALL = sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
# Others have written the code of conduct; the changelog grows with each release and is limited by release.
LIMITED = [page for page in ALL if page.name not in ("CODE_OF_CONDUCT.md", "CHANGELOG.md")]
RELEASES = re.split(r"^(?=## )", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
FOR_USERS = [ROOT / "README.md", *(page for page in ALL if page.parent.name in ("get-started", "guides"))]
# How evidence speaks of the machine that measured, and of tests.
MEASURED = re.compile(r"\bload averages?\b|\bat a load\b|\bloads? of \d|\btest_\w+|\btests/", re.IGNORECASE)


def words(text: str) -> int:
    """Words without code; bars and bullets are none."""
    return sum(bool(re.search(r"\w", word)) for word in FENCE.sub("", text).split())


@pytest.mark.parametrize("page", LIMITED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_short_enough_for_its_kind(page: Path) -> None:
    count = words(page.read_text(encoding="utf-8"))
    most = WORDS_MAX.get(page.relative_to(ROOT).parent.name, OTHER_WORDS_MAX)
    assert count <= most, f"{page.relative_to(ROOT)} has {count} words, {count - most} too many: {REMEDY}"


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.splitlines()[0].removeprefix("## "))
def test_the_changes_of_a_release_are_short_enough(release: str) -> None:
    count = words(release)
    assert count <= OTHER_WORDS_MAX, f"{count} words, {count - OTHER_WORDS_MAX} too many: {CHANGELOG_REMEDY}"


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_users_name_no_tests_and_no_load_of_the_machine(page: Path) -> None:
    assert MEASURED.findall(page.read_text(encoding="utf-8")) == []


def test_loads_and_tests_are_found() -> None:
    text = "At a load of 12, `tests/unit/test_a.py::test_b` took 3 s (load average 10). The load of a member is 3 MB/s."
    assert MEASURED.findall(text) == ["At a load", "tests/", "test_a", "test_b", "load average"]
