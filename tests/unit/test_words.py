"""Pages and help texts avoid the words that docs/style.md replaces."""

import re

import pytest

from tests.paths import DOCS, ROOT

AVOIDED = {
    "round": r"(?<!-)\brounds?\b(?! robin)",
    "a look": r"\b(?:a|each|every|its|last|first|next|second|one|two|these|those|before|between|single|per) looks?\b",
    "stands": r"\bstands\b|\borders? (?:that )?stand\b",
    "ours": r"\b(?:ours|us|ourselves)\b(?!-)",
    "told": r"\btold\b",
    "whoever": r"\bwho(?:ever|so)\b",
    "somebody": r"\bsome(?:body|one)\b",
    "obey": r"\b(?:obey|heed)(?:s|ed)?\b",
    "vouch": r"\bvouch\w*",
    "seat": r"\b(?:seat|crew|desk)s?\b",
    "withheld": r"\bwithheld\b",
    "loud": r"\bloud(?:ly)?\b",
    "as ever": r"\bas ever\b|\bof its own accord\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
}
PATTERNS = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in AVOIDED.items()}
# What is written for programs: code in fences, on indented lines and in backticks; targets of links; comments.
CODE = re.compile(r"^ *```.*?^ *```|^ {4}\S.*?$|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
# Pages that are not written in this style yet: take one off when it is. commands.md is made of the help texts.
NOT_YET = frozenset({"docs/reference/configuration.md", "docs/reference/metrics.md", "docs/reference/states.md"})
# These quote the words, or record what was written before.
EXEMPT = frozenset({"CHANGELOG.md", "docs/style.md"})
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def avoided(text: str) -> list[str]:
    """Each avoided word of the prose in a page, with what surrounds it."""
    prose = CODE.sub(" ", text)
    hits = ((word, hit) for word, pattern in PATTERNS.items() for hit in pattern.finditer(prose))
    return [f"{word}: ...{prose[max(0, hit.start() - 40) : hit.end() + 40]!r}..." for word, hit in hits]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOT_YET | EXEMPT])
def test_a_page_avoids_these_words(page: str) -> None:
    found = avoided((ROOT / page).read_text(encoding="utf-8"))
    assert not found, f"{page} (docs/style.md has better ones):\n" + "\n".join(found)


def test_the_help_texts_are_checked() -> None:
    assert "docs/reference/commands.md" not in NOT_YET | EXEMPT


def test_pages_that_are_not_checked_exist() -> None:
    assert {page for page in NOT_YET | EXEMPT if not (ROOT / page).is_file()} == set()


@pytest.mark.parametrize("word", AVOIDED)
def test_the_style_guide_has_a_better_word(word: str) -> None:
    text = (DOCS / "style.md").read_text(encoding="utf-8").split("## Words to avoid")[1]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert any(word in old.split(", ") and new for old, new in rows)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A round begins, and whoever obeys is told.", {"round", "whoever", "obey", "told"}),
        ("Two looks at a group; the order stands.", {"a look", "stands"}),
        ("Round robin looks at `rounds`, around us-east-1: [a page](rounds.md).", set()),
        ("```\nround\n```\n\n    a round\n\nIt refreshes.", set()),
    ],
)
def test_words_are_found_in_prose_only(text: str, words: set[str]) -> None:
    assert {hit.partition(":")[0] for hit in avoided(text)} == words
