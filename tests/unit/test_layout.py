"""How packages may import one another. import-linter checks the layers; this checks the doors: what another package
exports is imported from that package, never from a module inside it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.source_trees import PRODUCT, modules_of, nodes_of, text_of

IMPORT = re.compile(r"from (bellwether_kafka[.\w]*) import (\([^)]*\)|.*)")


def modules() -> dict[str, Path]:
    """The product's modules by the name they are imported by."""
    return {
        ".".join(("bellwether_kafka", *path.relative_to(ROOT).with_suffix("").parts)): path
        for path in modules_of(*PRODUCT)
    }


@cache
def imports(path: Path) -> tuple[tuple[str, str], ...]:
    return tuple(
        (module, name)
        for module, names in IMPORT.findall(text_of(path))
        for name in re.findall(r"(\w+)(?: as \w+)?", re.sub("#.*", "", names))
    )


def exported(face: Path | None) -> set[str]:
    """What a package's `__init__.py` imports for others; a function there may have the name of its module."""
    return {what for _, what in imports(face)} if face is not None else set()


def test_other_packages_are_imported_by_their_public_interface() -> None:
    every_module = modules()
    wrong = [
        f"{name} imports {what} from {source}"
        for name, path in every_module.items()
        for source, what in imports(path)
        for module in (source, f"{source}.{what}")
        if module in every_module
        and not name.startswith(f"{module.rpartition('.')[0]}.")  # a package that it is inside of
        if what not in exported(every_module.get(f"{source}.__init__"))
    ]
    assert not wrong, "\n".join(wrong)


IN_A_PACKAGE = tuple(f"bellwether_kafka.{folder}" for folder in PRODUCT)


def private_imports(source: str, every_module: Mapping[str, Path]) -> Iterator[str]:
    """The package of each module inside a package that is imported, or imported from. `plugins`, `bounded` and
    `health` are in no package: what they define is what they export."""
    for module, names in IMPORT.findall(source):
        if not module.startswith(IN_A_PACKAGE):
            continue
        if f"{module}.__init__" not in every_module:
            yield from [module.rpartition(".")[0]] * len(re.findall(r"\w+(?: as \w+)?", names))
            continue
        face = exported(every_module[f"{module}.__init__"])
        yield from (
            module
            for name in re.findall(r"(\w+)(?: as \w+)?", names)
            if name not in face and f"{module}.{name}" in every_module
        )


def test_tests_import_what_packages_export() -> None:
    """A test that needs more is at the wrong level, and breaks when a file moves. `private_imports.toml` has what is
    left to mend, by package: it only gets smaller."""
    every_module = modules()
    private = Counter(
        package.removeprefix("bellwether_kafka.")
        for path in (ROOT / "tests").rglob("*.py")
        for package in private_imports(text_of(path), every_module)
    )
    left = Counter(tomllib.loads((ROOT / "tests/unit/private_imports.toml").read_text()))
    assert private - left == Counter(), "import from the package, or test what it exports"
    assert left - private == Counter(), "lower these counts"


ANOTHER_TEST = re.compile(r"^ *from tests[.\w]*\.test_\w+ import|^ *from tests[.\w]* import .*\btest_", re.MULTILINE)


def test_no_test_imports_another() -> None:
    """Else one cannot move or go without the other. What they share is in tests/kit, or in a helper beside them."""
    assert not [str(path) for path in modules_of("tests") if ANOTHER_TEST.search(text_of(path))]


def test_what_tests_share_needs_no_test() -> None:
    inwards = re.compile(r"^ *from (tests\.(?!kit|paths|interop\.support)[.\w]*) import", re.MULTILINE)
    wrong = {path.name: names for path in modules_of("tests/kit") if (names := inwards.findall(text_of(path)))}
    assert wrong == {}


@pytest.mark.parametrize("package", ["control"])
def test_what_is_imported_when_it_is_asked_for_is_what_is_declared(package: str) -> None:
    """Also when every module has been imported: one with the name of what it exports would stand in its place."""
    face = f"bellwether_kafka.coordinator.{package}"
    for path in (ROOT / "coordinator" / package).glob("[!_]*.py"):
        import_module(f"{face}.{path.stem}")
    declared = imports(ROOT / "coordinator" / package / "__init__.py")
    assert declared
    for module, name in declared:
        assert getattr(import_module(face), name) is getattr(import_module(module), name), name


def test_every_package_says_what_it_is_for() -> None:
    packages = (path for path in modules_of(*PRODUCT) if path.name == "__init__.py")
    assert not [str(path) for path in packages if not text_of(path).startswith('"""')]


@pytest.mark.slow
def test_the_service_starts_without_the_packages_of_the_pipeline() -> None:
    forbidden = "; ".join(f"sys.modules[{name!r}] = None" for name in ("pyspark", "py4j"))
    started = "bellwether_kafka.coordinator.cli.command_table, bellwether_kafka.coordinator.runtime"
    starts = f"import sys; {forbidden}; import {started}"
    subprocess.run([sys.executable, "-c", starts], check=True, cwd=ROOT)


TIME = r"time\.(?:time|monotonic)\b"


def test_the_service_reads_the_time_of_its_loop() -> None:
    """The simulation runs the service on a loop with a clock of its own. Commands and the guard have no such loop."""
    own = ("coordinator/cli/", "coordinator/guard/", "coordinator/clocks.py")
    readers = [
        f"{name}:{node.lineno}"
        for path in modules_of("coordinator")
        if not (name := str(path.relative_to(ROOT))).startswith(own) and re.search(TIME, text_of(path))
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and re.fullmatch(TIME, ast.unparse(node))
    ]
    assert not readers, "use coordinator.clocks"
