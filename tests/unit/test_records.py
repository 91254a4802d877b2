"""Records are not built from an unpacked tuple: one more field would shift every value that follows."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.paths import ROOT
from tests.source_trees import PRODUCT, Nodes, modules_of, nodes_in, nodes_of, text_of

PAIRS = 3  # an id of at most this many fields, such as a topic and a partition, is one value
UNPACKS = re.compile(r"\b[A-Z]\w*\([^)]*?(?<![*\w)\]])\*(?!\*)")  # perhaps a class, called with an unpacked sequence


def fields(record: ast.ClassDef) -> int:
    """How many fields a dataclass or named tuple has; 0 for other classes."""
    decorators = [ast.unparse(decorator) for decorator in record.decorator_list]
    bases = [ast.unparse(base) for base in record.bases]
    if not any(name.startswith("dataclass") for name in decorators) and "NamedTuple" not in bases:
        return 0
    return sum(isinstance(line, ast.AnnAssign) for line in record.body)


@cache
def is_record(name: str) -> bool:
    defined = re.compile(rf"^ *class {name}\b", re.MULTILINE)
    homes = (path for path in modules_of(*PRODUCT) if name and defined.search(text_of(path)))
    classes = (node for path in homes for node in nodes_of(path) if isinstance(node, ast.ClassDef))
    return any(fields(record) > PAIRS for record in classes if record.name == name)


def unpacked(nodes: Nodes) -> Iterator[ast.Call]:
    """Calls of records with an unpacked sequence among their arguments."""
    for node in nodes:
        if isinstance(node, ast.Call) and any(isinstance(argument, ast.Starred) for argument in node.args):
            called = node.func
            if is_record(called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")):
                yield node


@pytest.mark.slow
def test_no_record_is_built_from_an_unpacked_tuple() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)[:80]}"
        for path in modules_of(*PRODUCT)
        if UNPACKS.search(text_of(path))
        for call in unpacked(nodes_of(path))
    ]
    assert not wrong, "write each field by its name:\n" + "\n".join(wrong)


def test_the_check_finds_one() -> None:
    nodes = nodes_in("observation.Observation(*head, obstacle='')\nObservation(kind='classic')\nTaskId(*task)\n")
    assert [call.lineno for call in unpacked(nodes)] == [1]
