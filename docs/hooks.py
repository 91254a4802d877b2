"""What the site needs beside the pages: hooks of mkdocs (`make docs`), and the pure functions behind them.

The pages are written for readers of the repository. Files outside of docs/ that they link to are copied into the site,
and the README is its first page. Lists are indented as Python-Markdown wants them: by four spaces a level.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
HOME = "README.md"
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r" *(```+)")
ITEM = re.compile(r"( *)([-*]|\d+\.) +")


def site_path(path: str) -> str:
    """Where the site has a file of the repository."""
    if path == HOME:
        return "index.md"
    inside, _, rest = path.partition("/")
    return rest if inside == DOCS and rest else f"project/{path}"


def repository_path(path: str) -> str:
    """Where the repository has a page of the site."""
    if path == "index.md":
        return HOME
    return path.removeprefix("project/") if path.startswith("project/") else f"{DOCS}/{path}"


def links(page: str, text: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for file, _ in LINK.findall(text):
        if ":" not in file:
            yield os.path.normpath(os.path.join(os.path.dirname(page), file))  # noqa: PTH118, PTH120 - not of this machine


def with_links_of_the_site(page: str, text: str) -> str:
    """The text of a page of the repository with links that lead to the same files inside the site."""
    here = os.path.dirname(site_path(page))  # noqa: PTH120

    def link(hit: re.Match[str]) -> str:
        if ":" in hit[1]:
            return hit[0]
        (target,) = links(page, hit[0])
        return f"]({os.path.relpath(site_path(target), here or '.')}{hit[2] or ''})"

    return LINK.sub(link, text)


def with_wide_lists(text: str) -> str:
    """The same page with everything that belongs to an item of a list indented by four spaces a level."""
    lines, inside, fence, blank = [], [0], "", True
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            lines.append(line)
            blank = True
            continue
        item = ITEM.match(line) if not fence else None
        if not fence:
            if item or blank or FENCE.match(line):
                while indent < inside[-1]:
                    inside.pop()
            elif indent < inside[-1]:  # a paragraph of an item that goes on at the margin
                lines.append(line)
                continue
        lines.append(" " * (4 * (len(inside) - 1) + max(indent - inside[-1], 0)) + line.lstrip())
        if item:
            inside.append(item.end())
        elif mark := FENCE.match(line):
            fence = "" if fence and mark[1] == fence else fence or mark[1]
        blank = False
    return "\n".join([*lines, ""])


def outside() -> set[str]:
    """Files outside of docs/ that belong to the site: the pages of the project, and what pages link to, and so on."""
    pages = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / DOCS).rglob("*.md"))}
    reachable: set[str] = set()
    while pages:
        page = pages.pop()
        reachable.add(page)
        if page.endswith(".md"):
            pages |= set(links(page, (ROOT / page).read_text(encoding="utf-8"))) - reachable
    return {path for path in reachable if not path.startswith(f"{DOCS}/")}


def on_files(files: "Files", config: Any) -> "Files":
    """Adds the files outside of docs/ (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only there when the site is built

    for path in sorted(outside()):
        files.append(File.generated(config, site_path(path), content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links and lists of a page (a hook of mkdocs)."""
    return with_wide_lists(with_links_of_the_site(repository_path(page.file.src_uri), markdown))
