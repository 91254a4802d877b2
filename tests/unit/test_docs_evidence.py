"""The page of evidence: each promise has a command that exists and a commit, each row of the README has its lines."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.paths import DOCS, ROOT

PAGE = (DOCS / "evidence" / "README.md").read_text(encoding="utf-8")
COLUMNS = 5
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def rows() -> Iterator[list[str]]:
    for line in PAGE.splitlines():
        if line.startswith("|") and not line.startswith(("| claim", "|---")):
            yield [cell.strip() for cell in line.strip("|").split("|")]


LINES = [pytest.param(*row, id=row[0]) for row in rows() if len(row) == COLUMNS]


def missing(command: str) -> list[str]:
    """The make targets, modules and tests that a command names and that are not there."""
    targets = [word for word in re.findall(r"\bmake ([a-z-]+)", command) if word not in TARGETS]
    modules = [ROOT / name.replace(".", "/") for name in re.findall(r"-m (tests[.\w]+)", command)]
    gone = [
        str(path) for path in modules if not (path.with_suffix(".py").is_file() or (path / "__main__.py").is_file())
    ]
    return targets + gone + [path for path in re.findall(r"\btests/[\w/.]+", command) if not (ROOT / path).exists()]


def test_every_line_has_all_columns() -> None:
    assert [row for row in rows() if len(row) != COLUMNS] == []


@pytest.mark.parametrize(("claim", "figure", "command", "commit", "date"), LINES)
def test_a_claim_has_a_command_and_says_when_it_was_measured(
    claim: str, figure: str, command: str, commit: str, date: str
) -> None:
    assert claim
    assert re.match(r"`(?:make|pytest|python -m|BELLWETHER_\w+=\d+ pytest) ", command), "the command that repeats it"
    assert missing(command) == []
    if commit == "-":
        assert date == "each run"
    else:
        assert figure, "a measurement has a figure"
        assert re.fullmatch(r"[0-9a-f]{8}", commit)
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date)


def test_a_command_that_does_not_exist_is_found() -> None:
    command = "`make nothing`, `python -m tests.measure.nothing`, `pytest tests/unit/nothing.py tests/unit`"
    assert len(missing(command)) == 3


def run(*command: str, given: str = "") -> str:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False).stdout


def test_the_commits_exist() -> None:
    commits = sorted({row[3] for row in rows() if len(row) == COLUMNS and row[3] != "-"})
    git = ["git", "-C", str(ROOT)]
    if run(*git, "rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("there is no whole history here")
    answer = run(*git, "cat-file", "--batch-check", given="\n".join(commits))
    assert [line for line in answer.splitlines() if " commit " not in line] == []


def programs() -> Iterator[str]:
    """What `python -m` runs of tests/measure."""
    for path in sorted((ROOT / "tests" / "measure").rglob("*.py")):
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8"):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")


def test_each_program_that_measures_is_named_by_a_command() -> None:
    named = PAGE + "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "CONTRIBUTING.md"))
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "measure").rglob("*.py"))
    named += " ".join(re.findall(r'"(tests\.measure[\w.]+)"', sources))  # what another program starts
    every_program = list(programs())
    assert len(every_program) > 10
    unnamed = [name for name in every_program if not re.search(rf"\b{re.escape(name)}(?!\.?\w)", named)]
    assert not unnamed, "name it in docs/evidence/README.md or CONTRIBUTING.md, or delete it"


def test_each_row_of_the_readme_has_its_lines() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("## What it does")[1].split("\n## ")[0]
    promised = set(re.findall(r"^\| \*\*(.+?)\*\* \|", table, re.MULTILINE))
    assert promised
    assert promised <= set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
