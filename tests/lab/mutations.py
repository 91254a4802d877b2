"""The small changes that mutants.py makes to a source file: to one operator, constant, condition or returned value."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

MODULE = "<module>"
# The text of an operator, and what replaces it.
COMPARED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
COMPUTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}
NEGATED_BY_OPERATOR = (ast.Compare, ast.UnaryOp, ast.Constant)
DECIDES_NOTHING = {"annotation", "returns", "decorator_list", "bases"}
Change = tuple[int, int, str]  # from this byte to that one, this text instead


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. `before` and `after` are the lines that it touches, `source` is the whole file after it."""

    path: str
    function: str
    line: int
    before: str
    after: str
    source: bytes

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}\n    - {self.before}\n    + {self.after}"


def mutants_of(root: Path, path: str) -> list[Mutant]:
    source = (root / path).read_bytes()
    mutants = []
    for function, (begin, end, text) in _Source(source).changes(ast.parse(source)):
        changed = source[:begin] + text.encode() + source[end:]
        first, last = source.rfind(b"\n", 0, begin) + 1, (source + b"\n").find(b"\n", end)
        touched = source[first:last], changed[first : last + len(changed) - len(source)]
        line = source.count(b"\n", 0, begin) + 1
        before, after = (" ".join(text.decode().split()) for text in touched)
        mutants.append(Mutant(path, function, line, before, after, changed))
    return mutants


class _Source:
    """A source file: its syntax tree counts columns in bytes, so changes do, too."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def changes(self, tree: ast.AST, function: str = MODULE, scope: str = "") -> Iterator[tuple[str, Change]]:
        """(outermost function, change) for everything below a node."""
        for child in _children(tree):
            match child:
                case ast.FunctionDef(name=name):
                    yield from self.changes(child, scope + name if function == MODULE else function)
                case ast.ClassDef(name=name):
                    yield from self.changes(child, function, f"{scope}{name}.")
                case _:
                    yield from ((function, change) for change in (*self._operators(child), *self._values(child)))
                    yield from self.changes(child, function, scope)

    def _operators(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(left, ops, rights):
                for a, op, b in zip([left, *rights], ops, rights, strict=False):
                    old, others = COMPARED[type(op)]
                    yield from (self._operator(a, b, old, new) for new in others)
            case ast.BoolOp(op, values):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield from (self._operator(a, b, *words) for a, b in pairwise(values))
            case ast.BinOp(left, op, right) if type(op) in COMPUTED and not _is_text(left) and not _is_text(right):
                yield self._operator(left, right, *COMPUTED[type(op)])
            case ast.AugAssign(target, op, value) if type(op) in COMPUTED:
                old, new = COMPUTED[type(op)]
                yield self._operator(target, value, f"{old}=", f"{new}=")
            case ast.UnaryOp(op):
                begin, _ = self._span(node)
                yield begin, begin + (3 if isinstance(op, ast.Not) else 1), ""

    def _values(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Constant(bool() as value):
                yield *self._span(node), str(not value)
            case ast.Constant(int() as value):
                yield *self._span(node), str(value + 1)
            case ast.Constant(float() as value):
                yield *self._span(node), str(2 * value or 1.0)
            case ast.If(test) | ast.While(test) | ast.IfExp(test):
                yield from self._negated(test)
            case ast.comprehension(ifs=tests):
                yield from (change for test in tests for change in self._negated(test))
            case ast.Return(value) if value and not isinstance(value, ast.Constant | ast.Compare):
                yield *self._span(value), "None"
            case ast.Break():
                yield *self._span(node), "continue"
            case ast.Continue():
                yield *self._span(node), "break"

    def _span(self, node: ast.AST) -> tuple[int, int]:
        at: Any = node  # ast.AST has no positions, its subclasses have
        return self.starts[at.lineno - 1] + at.col_offset, self.starts[at.end_lineno - 1] + at.end_col_offset

    def _operator(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Change:
        begin, end = self._span(left)[1], self._span(right)[0]
        pattern = rf"\b{old}\b" if old.isalpha() else re.escape(old)
        return begin, end, re.sub(pattern, new, self.text[begin:end].decode(), count=1)

    def _negated(self, test: ast.expr) -> Iterator[Change]:
        if not isinstance(test, NEGATED_BY_OPERATOR):
            begin, end = self._span(test)
            yield begin, end, f"(not ({self.text[begin:end].decode()}))"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What may decide something: no annotations, decorators, texts of messages, `__all__`, `strict=` of zip, nor shapes
    (to numpy every negative number is the one to be worked out)."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
        yield node.func
        return
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.JoinedStr() | ast.keyword(arg="strict") | ast.Assign(targets=[ast.Name("__all__")]):
                    continue
                case ast.If(ast.Name("TYPE_CHECKING")):
                    continue
                case ast.AST() if field not in DECIDES_NOTHING:
                    yield child
