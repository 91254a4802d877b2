"""The small changes that are made to code, and what is left alone."""

from pathlib import Path

import pytest

from tests.lab.mutants import EVERYTHING, PARTS, ROOT, SURVEYS, callers_of
from tests.lab.mutations import MODULE, mutants_of


def after(tmp_path: Path, code: str) -> set[str]:
    """The changed lines of all mutants, each of which must still be Python."""
    (tmp_path / "module.py").write_text(code, "utf-8")
    mutants = mutants_of(tmp_path, "module.py")
    for mutant in mutants:
        compile(mutant.source, "module.py", "exec")
    return {mutant.after for mutant in mutants}


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a == b", {"a != b"}),
        ("a is not None", {"a is None"}),
        ("a not in b", {"a in b"}),
        ("é and b or c", {"é or b or c", "é and b and c"}),
        ("x = not (a)", {"x = (a)"}),
        ("a + b * c", {"a - b * c", "a + b // c"}),
        ("a += b", {"a -= b"}),
        ("a = ~b", {"a = b"}),
        ("a = -1", {"a = 1", "a = -2"}),
        ("a = True", {"a = False"}),
        ("a = f(0.0, 1e3)", {"a = f(1.0, 1e3)", "a = f(0.0, 2000.0)"}),
        ("[a for a in b if c(a)]", {"[a for a in b if (not (c(a)))]"}),
        ("if a: pass", {"if (not (a)): pass"}),
        ("def f(a): return g(a)", {"def f(a): return None"}),
        ("for a in b: break", {"for a in b: continue"}),
        ("a = (b\n  - c)", {"a = (b + c)"}),
    ],
)
def test_one_operator_constant_condition_or_value_changes(tmp_path: Path, code: str, changed: set[str]) -> None:
    assert after(tmp_path, code) == changed


@pytest.mark.parametrize(
    "code",
    [
        "__all__ = [a + b]",
        "def f(a: b | c) -> d | e: ...",
        "a: b | c",
        "@dataclass(frozen=True)\nclass A(b[1]): ...",
        "zip(a, b, strict=True)",
        "raise E(f'{a + 1}')",
        "'a' + b",
        "a.reshape(-1, 2)",
        "if TYPE_CHECKING: import a",
        '"""Text of 1."""',
    ],
)
def test_what_decides_nothing_is_left_alone(tmp_path: Path, code: str) -> None:
    assert after(tmp_path, code) == set()


def test_a_mutant_knows_its_place(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "class A:\n    def f(self):\n        def g():\n            return a - b\n", "utf-8"
    )
    first, second = mutants_of(tmp_path, "module.py")
    assert {(m.function, m.line, m.before) for m in (first, second)} == {("A.f", 4, "return a - b")}
    assert {first.after, second.after} == {"return None", "return a + b"}


def test_everything_but_the_jobs_is_sampled_and_the_tests_are_there() -> None:
    folders = {path.name for path in (ROOT / "bellwether_kafka").iterdir() if (path / "__init__.py").exists()}
    assert {*PARTS, "pipeline"} == folders
    paths = [path.removeprefix("--ignore=") for survey in SURVEYS for path in survey]
    assert [path for path in paths if not (ROOT / path).is_dir()] == []


def test_a_mutant_meets_the_tests_of_every_ring_that_call_its_function_those_beside_it_first() -> None:
    here = "tests/unit/coordinator/planning/test_solver.py::test_a"
    there = "tests/unit/coordinator/runtime/test_process.py::test_b"
    simulated, other = "tests/simulation/test_simulation.py::test_c[0]", "tests/unit/test_docs.py::test_d"
    called = {
        EVERYTHING: {here: 1.0, there: 1.0, simulated: 9.0, other: 1.0},
        ("coordinator/planning/solver.py", "plan"): {simulated: 9.0, there: 1.0, here: 1.0},
        ("coordinator/planning/solver.py", "seen_in_the_simulation_only"): {simulated: 9.0},
    }
    path = "coordinator/planning/solver.py"
    assert callers_of(path, "plan", called) == [{here: 1.0}, {there: 1.0}, {simulated: 9.0}]
    assert callers_of(path, "seen_in_the_simulation_only", called) == [{simulated: 9.0}]
    at_import = callers_of(path, MODULE, called)
    assert [set(stage) for stage in at_import] == [{here}, {there, other}, {simulated}]
