"""Pages say what the code says: generated ones are fresh, links lead somewhere, commands exist, code runs."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, RawGroup, RawMember
from bellwether_kafka.assignors.streams.api import TaskAssignor
from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.settings import load
from bellwether_kafka.coordinator.topology import write_topology
from bellwether_kafka.coordinator.topology.internal_topics import plan_internal_topics
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.streams import read_topology
from tests.module_files import module_at
from tests.paths import DOCS, ROOT
from tests.seeds import together

SITE = sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
PAGES = [*SITE, *sorted((ROOT / "tests").rglob("*.md"))]
FOLDERS = (
    "assignors",
    "bellwether_kafka",
    "coordinator",
    "deploy",
    "docs",
    "examples",
    "pipeline",
    "protocol",
    "tests",
)
ENDINGS = {".go", ".java", ".md", ".py", ".toml", ".yml", ".yaml"}
SCHEMAS = DOCS / "reference" / "schemas"
ASSIGNORS = DOCS / "guides" / "writing-an-assignor.md"
EVIDENCE = (DOCS / "evidence" / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

every_page = together("page", {str(page.relative_to(ROOT)): page for page in PAGES}, parts=6)


# ---- generated pages -----------------------------------------------------------------------------------------------


GENERATED = tuple(f"reference/{page}.md" for page in ("commands", "configuration", "metrics"))


@pytest.mark.parametrize("page", [*GENERATED, "internals/states.md"])
def test_generated_pages_are_fresh(page: str) -> None:
    module = module_at(DOCS / "generate.py", "generate_docs")
    written = (DOCS / page).read_text(encoding="utf-8")
    assert module.PAGES[page]() == written, "run python docs/generate.py"


@pytest.mark.slow
def test_generated_schemas_are_fresh_and_each_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    module = module_at(DOCS / "generate_schemas.py", "generate_schemas")
    made = {name: module.text_of(schema) for name, schema in module.schemas().items()}
    suffix = ".schema.json"
    written = {path.name.removesuffix(suffix): path.read_text(encoding="utf-8") for path in SCHEMAS.glob(f"*{suffix}")}
    assert written == made, "run python docs/generate_schemas.py"
    for name, text in module.weight_files().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == text, "run python docs/generate_schemas.py"
    assert (DOCS / "reference" / "schemas.md").read_text(encoding="utf-8") == module.page()
    assert {path.stem for path in (SCHEMAS / "examples").iterdir()} == made.keys()


# ---- links, citations and names ------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)\s]+)\)")
CITATION = re.compile(r"(?<![\w/])((?:docs/[\w/-]+|[A-Z]{4,})\.md)(?:#([\w-]+))?")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+?)(?:::\w+)?`")
TESTED = re.compile(r"`(?:[\w/]+\.py::)?(test_\w+)`")
DOTTED = re.compile(r"`(?:bellwether_kafka\.)?((?:assignors|coordinator|pipeline|protocol)(?:\.(?!py`)\w+)+)`")
SHORT_PATH = re.compile(r"`([\w-]+(?:/[\w-]+)*/\w+\.py)`")
DEFINED = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)", re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def broken(target: Path, anchor: str) -> str:
    """Returns why a link or citation leads nowhere, "" if it leads to a file of the repository and its heading."""
    if not target.is_relative_to(ROOT) or not target.is_file():
        return "there is no such file"
    return "there is no such heading" if anchor and anchor not in anchors(target) else ""


def broken_links(page: Path, text: str) -> Iterator[str]:
    for link in LINK.findall(text):
        file, _, anchor = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        if not re.match(r"(?:https?|mailto):", link) and (reason := broken(target, anchor)):
            yield f"{link}: {reason}"


def broken_names(text: str) -> Iterator[str]:
    """Yields the pages, tests and modules that a text cites and that do not exist."""
    for page, anchor in CITATION.findall(text):
        if reason := broken(ROOT / page, anchor):
            yield f"{page}#{anchor}: {reason}"
    yield from (name for name in TESTED.findall(text) if name not in names_of_tests())
    yield from (path for path in SHORT_PATH.findall(text) if f"/{path}\n" not in modules())
    yield from (name for name in DOTTED.findall(text) if not leads_somewhere(name))


@cache
def files() -> tuple[Path, ...]:
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path != Path(__file__))
    paths = [path for path in (*ROOT.iterdir(), *inside) if path.suffix in ENDINGS and not path.is_symlink()]
    return tuple(path for path in paths if path.name != "CHANGELOG.md")


@cache
def names_of_tests() -> frozenset[str]:
    tests = list((ROOT / "tests").rglob("*.py"))
    names = {name for path in tests for name in DEFINED.findall(path.read_text(encoding="utf-8"))}
    return frozenset(names | {path.stem for path in tests})


@cache
def modules() -> str:
    """Returns the paths of all modules between line feeds, so that the end of a path can be searched for."""
    return "".join(f"/{path.relative_to(ROOT)}\n" for path in (*files(), Path(__file__)) if path.suffix == ".py")


def leads_somewhere(dotted: str) -> bool:
    """Returns whether it is a package or module of the product, or a name in one."""
    *parents, last = dotted.split(".")
    whole, home = ROOT.joinpath(*parents, last), ROOT.joinpath(*parents)
    if whole.is_dir() or whole.with_suffix(".py").is_file():
        return True
    code = home.with_suffix(".py") if home.with_suffix(".py").is_file() else home / "__init__.py"
    if code.is_file():
        pattern = rf"^\s*(?:(?:async )?def|class) {last}\b|^\s*{last}\b *[:=,]|import .*\b{last}\b"
        return re.search(pattern, code.read_text(encoding="utf-8"), re.MULTILINE) is not None
    return len(parents) > 2 and leads_somewhere(".".join(parents))  # a method of a class


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page, page.read_text(encoding="utf-8"))) == []


@pytest.mark.slow
def test_pages_tests_and_modules_that_are_cited_exist() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in files()}
    gone = [f"{path.relative_to(ROOT)}: {name}" for path, text in texts.items() for name in broken_names(text)]
    for path, text in texts.items():
        if path.suffix == ".md":
            gone += [f"{path.relative_to(ROOT)}: {name}" for name in PATH.findall(text) if not (ROOT / name).exists()]
    assert not gone, "\n".join(gone)


@pytest.mark.slow
def test_what_leads_nowhere_is_noticed() -> None:
    page = DOCS / "get-started" / "README.md"
    good = "[a](../guides/lag.md) [b](../../README.md#lead-a-group) ![c](../guides/page/group.png) [d](https://kafka.apache.org)"
    assert list(broken_links(page, good)) == []
    bad = [
        "lag.md",
        "../guides",
        "../guides/lag.md#no-such-heading",
        "../../../README.md",
        "/docs/guides/lag.md",
        "#none",
    ]
    assert len(list(broken_links(page, " ".join(f"[x]({link})" for link in bad)))) == len(bad)
    assert (
        list(broken_names("see docs/internals/streams.md#lags, `assignors.shared` and `planning/inspection.py`")) == []
    )
    wrong = "docs/reference/stream.md#lags docs/internals/streams.md#2-5 `test_nothing_like_it` `a/b.py`"
    assert len(list(broken_names(f"{wrong} `assignors.consumer.decision`"))) == 5


def test_every_page_has_one_place_in_the_site() -> None:
    hooks = module_at(DOCS / "hooks.py", "hooks_of_the_site")
    settings, nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")
    assert "\nnot_in_nav: /internals/ " in settings
    places = re.findall(r"([\w./-]+\.md)\s*$", nav, re.MULTILINE)
    assert sorted(places) == sorted(
        hooks.site_path(str(page.relative_to(ROOT))) for page in SITE if page.parent != DOCS / "internals"
    )


# ---- commands, targets, settings and code --------------------------------------------------------------------------

COMMAND = re.compile(r"`(bellwether [^`]+)`|^ {4}(bellwether .+)$", re.MULTILINE)
MAKE = re.compile(r"`make ([a-z-]+)|^ {4}make ([a-z-]+)", re.MULTILINE)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group has them


def commands(page: Path) -> Iterator[list[str]]:
    for hit in COMMAND.finditer(page.read_text(encoding="utf-8")):
        words = shlex.split((hit[1] or hit[2]).split("#")[0].replace("...", ""))[1:]
        words = words[: words.index("--")] if "--" in words else words  # what follows is another program's command
        if words:
            yield words


@every_page
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page):
        parsed: Any = None
        table = COMMANDS
        while words and words[0] in table:
            parsed = table[words.pop(0)]
            table = getattr(parsed, "commands", {})
        if parsed is None:
            assert words[0].startswith("--"), f"there is no command {words[0]}"
            continue
        parsed = getattr(parsed, "loaded", parsed)
        options = {name for parameter in parsed.params for name in parameter.opts} | {"--help"}
        used = {word.split("=")[0].strip("[]") for word in words if word.strip("[").startswith("-")}
        assert used <= options, (parsed.name, used - options)
        needed = [p for p in parsed.params if p.required]
        if words:  # else it is only named
            whole = f"{parsed.name} {words}"
            assert all(used & set(p.opts) for p in needed if p.param_type_name == "option"), whole
            assert len(words) - len(used) >= sum(p.param_type_name == "argument" for p in needed), whole


@every_page
def test_make_targets_exist(page: Path) -> None:
    named = {first or second for first, second in MAKE.findall(page.read_text(encoding="utf-8"))}
    assert named <= MAKE_TARGETS


@every_page
def test_settings_can_be_used(page: Path) -> None:
    """What a page shows of a configuration file, with the brokers and the group that it leaves out."""
    for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        shown = tomllib.loads(text) if language == "toml" else {"project": {}}
        if "project" in shown:
            continue
        missing = {"groups": [{"name": "any"}]} if "groups" not in shown else {}
        kafka = {"bootstrap.servers": "broker-1:9092"} | shown.pop("kafka", {})
        load(overrides={"kafka": kafka, **missing, **shown}, environ={})


def examples() -> list[dict[str, Any]]:
    """Returns the namespaces of the Python examples of the page on assignors, each run by itself."""
    blocks = []
    for language, code in FENCE.findall(ASSIGNORS.read_text(encoding="utf-8")):
        if language == "python":
            namespace: dict[str, Any] = {}
            exec(compile(code, ASSIGNORS.name, "exec"), namespace)  # noqa: S102 - Bellwether's own page
            blocks.append(namespace)
    return blocks


def test_the_assignor_in_20_lines_assigns() -> None:
    text = next(code for _, code in FENCE.findall(ASSIGNORS.read_text(encoding="utf-8")) if code)
    assert len([line for line in text.splitlines() if line.strip()]) <= 20
    fewest = examples()[0]["FewestFirst"]()
    cluster = ClusterView.of({"orders": [["az1"]] * 5, "users": [["az1"]] * 2})

    def member(name: str, *topics: str) -> RawMember:
        return RawMember(name, None, ConsumerProtocolSubscription(version=3, topics=topics).encode())

    policy = Policy(fewest.name, {fewest.name: fewest})
    raw = RawGroup("g", 1, "range", (member("a", "orders", "users"), member("b", "orders")), frozenset())
    first = decide(raw, cluster, Memory.empty(), policy, now_ms=0)
    assert first.warnings == ()
    assert first.cost.unowned == 0
    assert [first.plan.group.members[m].member_id for m in first.plan.owner.tolist()] == list("ababaaa")


def test_the_task_assignors_of_the_page_are_whole() -> None:
    made = [
        item()
        for namespace in examples()[1:]
        for item in namespace.values()
        if isinstance(item, type) and TaskAssignor in item.__mro__[1:]
    ]
    assert [type(item).__name__ for item in made] == ["RoundRobin", "KeepAndSpread"]


def test_the_page_of_the_topology_file_is_its_format() -> None:
    text = (DOCS / "reference" / "topology-file.md").read_text(encoding="utf-8")
    (example,) = [block for kind, block in FENCE.findall(text) if kind == "yaml"]
    topology = read_topology(example)
    made = plan_internal_topics(topology, {"orders": 4})
    assert (made.reasons, len(made.topics)) == ((), 2), "the example is enough for a first start"
    described = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    written = re.findall(r"^[- ]*(\w+):", write_topology(topology), re.MULTILINE)
    topic_keys = {"Name", "Partitions", "ReplicationFactor", "TopicConfigs"}
    assert {key for key in written if key[0].isupper()} <= {*described, "Subtopologies", "Key", "Value"}
    assert topic_keys <= {*described}
    stores = re.findall(r"`- (\{Name: .*\}|orders)` \|$", text, re.MULTILINE)
    assert len(stores) >= 5
    for line in stores:
        part = f"{{SubtopologyId: 0, SourceTopics: [orders], StateChangelogTopics: [{line}]}}"
        assert len(read_topology(f"{{ApplicationId: a, Subtopologies: [{part}]}}").changelogs) == 1, line


# ---- evidence ------------------------------------------------------------------------------------------------------

COLUMNS = 5


def evidence_rows() -> list[list[str]]:
    lines = [
        line for line in EVIDENCE.splitlines() if line.startswith("|") and not line.startswith(("| claim", "|---"))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def missing(command: str) -> list[str]:
    """Returns the make targets, modules and tests that a command names and that are not there."""
    targets = [word for word in re.findall(r"\bmake ([a-z-]+)", command) if word not in MAKE_TARGETS]
    programs = [ROOT / name.replace(".", "/") for name in re.findall(r"-m (tests[.\w]+)", command)]
    gone = [str(p) for p in programs if not (p.with_suffix(".py").is_file() or (p / "__main__.py").is_file())]
    return targets + gone + [path for path in re.findall(r"\btests/[\w/.]+", command) if not (ROOT / path).exists()]


def test_a_claim_has_a_command_and_says_when_it_was_measured() -> None:
    wrong = [row for row in evidence_rows() if len(row) != COLUMNS or not row[0] or missing(row[2])]
    wrong += [row for row in evidence_rows() if "`" not in row[2]]
    assert not wrong
    for _, figure, _, commit, date in evidence_rows():
        measured = (
            bool(figure) and bool(re.fullmatch(r"[0-9a-f]{8}", commit)) and bool(re.fullmatch(r"[\d-]{10}", date))
        )
        assert measured or (commit, date) == ("-", "each run"), (figure, commit, date)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert len(missing("`make nothing`, `python -m tests.nothing`, `pytest tests/unit/nothing.py tests/unit`")) == 3


def test_the_commits_of_evidence_exist() -> None:
    commits = sorted({row[3] for row in evidence_rows() if row[3] != "-"})

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, input="\n".join(commits), capture_output=True, text=True, check=False).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("there is no whole history here")
    assert [line for line in git("cat-file", "--batch-check").splitlines() if " commit " not in line] == []
