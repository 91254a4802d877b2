"""Citations of pages of this repository lead somewhere, and nothing cites a reference that is not in it.

Code, tests and pages cite `docs/<page>.md#<anchor>` and `ARCHITECTURE.md#<anchor>`: the file has to exist, with a
heading of that anchor. Markdown links are checked by `test_docs_by_hand.py`.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.paths import ROOT
from tests.unit.test_docs_by_hand import anchors

FOLDERS = ("assignors", "bellwether_kafka", "coordinator", "deploy", "docs", "examples", "pipeline", "protocol")
ENDINGS = {".go", ".java", ".md", ".py", ".toml", ".yml", ".yaml"}
PATH = re.compile(rf"`((?:{'|'.join((*FOLDERS, 'tests'))})/[\w./-]+?)(?:::\w+)?`")
CITATION = re.compile(r"(?<![\w/])((?:docs/[\w/-]+|[A-Z]{4,})\.md)(?:#([\w-]+))?")
# How comments once cited documents that only their author had.
UNEXPECTED = re.compile(r"§|(?:consumer|streams)-protocol reference|reliability reference|\bDESIGN\b|\(M\d{1,2}\b")
known_anchors = cache(anchors)


def files() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.suffix in ENDINGS)
    for folder in (*FOLDERS, "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in ENDINGS and path != Path(__file__) and not path.is_symlink():
                yield path


def wrong(text: str) -> Iterator[str]:
    """What is wrong with the citations in a text."""
    for page, anchor in CITATION.findall(text):
        if not (ROOT / page).is_file():
            yield f"{page} does not exist"
        elif anchor and anchor not in known_anchors(ROOT / page):
            yield f"{page} has no heading #{anchor}"
    yield from (f"cites something that is not in the repository: {hit}" for hit in UNEXPECTED.findall(text))


def test_every_citation_leads_to_a_heading() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in files()}
    assert any("docs/reference/" in text for path, text in texts.items() if path.suffix == ".py")
    broken = [f"{path.relative_to(ROOT)}: {reason}" for path, text in texts.items() for reason in wrong(text)]
    assert not broken, "\n".join(broken)


def test_a_citation_that_leads_nowhere_is_found() -> None:
    assert list(wrong("see docs/reference/streams.md#lags and ARCHITECTURE.md")) == []
    assert list(wrong("see docs/reference/streams.md#2-5")) == ["docs/reference/streams.md has no heading #2-5"]
    assert list(wrong("see docs/reference/stream.md#lags")) == ["docs/reference/stream.md does not exist"]
    assert len(list(wrong("reliability reference M11, the reference §2.8, DESIGN: speed, rebalances (M9 is)"))) == 4


def test_files_that_pages_name_exist() -> None:
    pages = [path for path in files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    gone = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in pages
        for path in PATH.findall(page.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    ]
    assert not gone, "\n".join(gone)


# ---- what pages, docstrings and comments name in backticks --------------------------------------------------------

TESTED = re.compile(r"`(?:[\w/]+\.py::)?(test_\w+)`")
TEST_FILE = re.compile(r"(?<!`)\b(test_\w+\.py)\b")
DOTTED = re.compile(r"`(?:bellwether_kafka\.)?((?:assignors|coordinator|pipeline|protocol)(?:\.(?!py`)\w+)+)`")
SHORT_PATH = re.compile(r"`([\w-]+(?:/[\w-]+)*/\w+\.py)`")
DEFINED = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)", re.MULTILINE)


@cache
def defined() -> frozenset[str]:
    """Functions, classes and modules of the tests."""
    tests = list((ROOT / "tests").rglob("*.py"))
    names = {name for path in tests for name in DEFINED.findall(path.read_text(encoding="utf-8"))}
    return frozenset(names | {path.stem for path in tests})


@cache
def modules() -> str:
    """The path of every module, each between line feeds, so that the end of a path can be searched for."""
    return "".join(f"/{path.relative_to(ROOT)}\n" for path in (*files(), Path(__file__)) if path.suffix == ".py")


def leads_somewhere(dotted: str) -> bool:
    """Whether it is a package or module of the product, or a name in one."""
    *parents, last = dotted.split(".")
    whole = ROOT.joinpath(*parents, last)
    if whole.is_dir() or whole.with_suffix(".py").is_file():
        return True
    of = ROOT.joinpath(*parents)
    home = of.with_suffix(".py") if of.with_suffix(".py").is_file() else of / "__init__.py"
    if home.is_file():
        pattern = rf"^\s*(?:(?:async )?def|class) {last}\b|^\s*{last}\b *[:=,]|import .*\b{last}\b"
        return re.search(pattern, home.read_text(encoding="utf-8"), re.MULTILINE) is not None
    return len(parents) > 2 and leads_somewhere(".".join(parents))  # a method of a class


def gone(text: str) -> Iterator[str]:
    yield from (name for name in TESTED.findall(text) if name not in defined())
    yield from (name for name in TEST_FILE.findall(text) if name.removesuffix(".py") not in defined())
    yield from (path for path in SHORT_PATH.findall(text) if f"/{path}\n" not in modules())
    yield from (name for name in DOTTED.findall(text) if not leads_somewhere(name))


def test_tests_and_modules_that_are_named_exist() -> None:
    named = [path for path in files() if path.name not in ("CHANGELOG.md", "test_docs_kinds.py")]
    missing = [f"{path.relative_to(ROOT)}: {name}" for path in named for name in gone(path.read_text(encoding="utf-8"))]
    assert not missing, "\n".join(missing)


def test_a_test_or_module_that_does_not_exist_is_found() -> None:
    right = "`test_citations.py`, `test_every_citation_leads_to_a_heading`, `coordinator.control.controller.Controller`"
    right = f"{right}, `planning/inspection.py`, `coordinator/kafka/topic_log.py`"
    assert list(gone(f"{right}, `assignors.shared`, `bellwether_kafka.protocol.primitives`")) == []
    assert list(gone("`planning/nothing.py`, `inspection/planning.py`")) == [
        "planning/nothing.py",
        "inspection/planning.py",
    ]
    assert len(list(gone("`test_nothing_like_it`, see test_nowhere.py, `assignors.consumer.decision`"))) == 3
