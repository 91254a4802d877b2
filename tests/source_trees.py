"""Syntax trees of the product, parsed once for all tests that read its source: it takes seconds of CPU."""

import ast
from functools import cache
from pathlib import Path

Nodes = tuple[ast.AST, ...]


@cache
def tree_of(path: Path) -> ast.Module:
    """Returns the tree of a module. Do not change it: other tests read the same one."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> Nodes:
    """Returns all nodes of the tree of a module, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))


def nodes_in(code: str) -> Nodes:
    """Returns all nodes of a piece of code, which is not kept."""
    return tuple(ast.walk(ast.parse(code)))
