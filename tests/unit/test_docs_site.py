"""The site of the pages (`make docs`) shows what the repository shows."""

from types import ModuleType

import pytest

from tests.module_files import module_at
from tests.paths import DOCS, ROOT


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    return module_at(DOCS / "hooks.py", "hooks_of_the_site")


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("README.md", "docs/guides/lag.md", "guides/lag.md"),
        ("docs/guides/lag.md", "../../README.md#lead-a-group", "../index.md#lead-a-group"),
        ("docs/guides/lag.md", "../../CONTRIBUTING.md", "../project/CONTRIBUTING.md"),
        ("docs/guides/lag.md", "../../examples/a.py", "../project/examples/a.py"),
        ("docs/guides/lag.md", "page.md#anomalies", "page.md#anomalies"),
        ("CONTRIBUTING.md", "ARCHITECTURE.md", "ARCHITECTURE.md"),
        ("CONTRIBUTING.md", "docs/internals/streams.md", "../internals/streams.md"),
        ("README.md", "#lead-a-group", "#lead-a-group"),
        ("README.md", "https://kafka.apache.org", "https://kafka.apache.org"),
    ],
)
def test_a_link_leads_to_the_same_file_in_the_site(hooks: ModuleType, page: str, link: str, there: str) -> None:
    assert hooks.with_links_of_the_site(page, f"See [it]({link}).") == f"See [it]({there})."


def test_what_pages_link_to_outside_of_docs_is_in_the_site(hooks: ModuleType) -> None:
    links = hooks.outside()
    assert {"README.md", "CHANGELOG.md", "ARCHITECTURE.md"} <= links
    assert not {path for path in links if not (ROOT / path).is_file()}


# Spaces before a line in the repository and in the site, and the line.
LINES = (
    (0, 0, "1. Write it:"),
    (0, 0, ""),
    (3, 4, "```toml"),
    (3, 4, "[[groups]]"),
    (7, 8, 'name = "a"'),
    (3, 4, "```"),
    (0, 0, ""),
    (3, 4, "Then"),
    (0, 0, ""),
    (3, 4, "- one"),
    (5, 8, "and more"),
    (3, 4, "- two"),
    (0, 0, ""),
    (5, 8, "and its paragraph"),
    (0, 0, ""),
    (0, 0, "10. Last,"),
    (0, 0, "goes on."),
    (0, 0, ""),
    (0, 0, "After it:"),
    (0, 0, ""),
    (4, 4, "code"),
)


def test_lists_are_indented_by_four_spaces_a_level(hooks: ModuleType) -> None:
    repository = "".join(f"{' ' * here}{line}\n" for here, _, line in LINES)
    site = "".join(f"{' ' * there}{line}\n" for _, there, line in LINES)
    assert hooks.with_wide_lists(repository) == site
