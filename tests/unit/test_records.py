"""Records are not built from an unpacked tuple: one more field would shift every value that follows."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.paths import ROOT
from tests.source_trees import Nodes, nodes_in, nodes_of

FOLDERS = ("assignors", "coordinator", "pipeline", "protocol")
PAIRS = 3  # an id of at most this many fields, such as a topic and a partition, is one value


def sources() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def fields(record: ast.ClassDef) -> int:
    """How many fields a dataclass or named tuple has; 0 for other classes."""
    decorators = [ast.unparse(decorator) for decorator in record.decorator_list]
    bases = [ast.unparse(base) for base in record.bases]
    if not any(name.startswith("dataclass") for name in decorators) and "NamedTuple" not in bases:
        return 0
    return sum(isinstance(line, ast.AnnAssign) for line in record.body)


@cache
def records() -> frozenset[str]:
    classes = (node for path in sources() for node in nodes_of(path) if isinstance(node, ast.ClassDef))
    return frozenset(record.name for record in classes if fields(record) > PAIRS)


def unpacked(nodes: Nodes, names: frozenset[str]) -> Iterator[ast.Call]:
    """Calls of these classes with an unpacked sequence among their arguments."""
    for node in nodes:
        if isinstance(node, ast.Call) and any(isinstance(argument, ast.Starred) for argument in node.args):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in names:
                yield node


def test_no_record_is_built_from_an_unpacked_tuple() -> None:
    names = records()
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)[:80]}"
        for path in sources()
        for call in unpacked(nodes_of(path), names)
    ]
    assert not wrong, "write each field by its name:\n" + "\n".join(wrong)


def test_the_check_finds_one() -> None:
    nodes = nodes_in("observation.Observation(*head, obstacle='')\nObservation(kind='classic')\nTaskId(*task)\n")
    assert [call.lineno for call in unpacked(nodes, records())] == [1]
