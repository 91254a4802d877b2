"""The pages of docs/get-started, and the fenced blocks in them."""

import re
from dataclasses import dataclass

from tests.paths import DOCS

FOLDER = DOCS / "get-started"
PAGES = {page.stem: page for page in sorted(FOLDER.glob("*.md")) if page.name != "README.md"}
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """Its language, such as "sh", and its text without the indentation of the step that it belongs to."""

    language: str
    text: str


def fenced(markdown: str) -> list[Block]:
    """The fenced blocks of a page, in its order."""
    return [
        Block(language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, text in FENCE.findall(markdown)
    ]
