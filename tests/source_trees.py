"""Sources of the product, read once for all tests that check them, and syntax trees of the few that need one: parsing
all of them takes seconds of CPU time, so a text is searched first."""

import ast
from functools import cache
from pathlib import Path

from tests.paths import ROOT

PRODUCT = ("protocol", "assignors", "coordinator", "pipeline")
Nodes = tuple[ast.AST, ...]


@cache
def modules_of(*folders: str) -> tuple[Path, ...]:
    """Returns the paths of all modules in these folders of the product."""
    return tuple(path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def nodes_of(path: Path) -> Nodes:
    """Returns all nodes of the tree of a module, in the order of `ast.walk`. Do not change them: others read them."""
    return nodes_in(text_of(path))


def nodes_in(code: str) -> Nodes:
    """Returns all nodes of a piece of code, which is not kept."""
    return tuple(ast.walk(ast.parse(code)))
