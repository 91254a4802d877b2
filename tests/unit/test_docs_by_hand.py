"""Pages written by hand: their links lead somewhere, their commands exist, and their code runs."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.assignors.shared.dense_views import ClusterView
from bellwether_kafka.assignors.shared.group import RawGroup, RawMember
from bellwether_kafka.assignors.shared.memory import Memory
from bellwether_kafka.assignors.streams.api.assignor import TaskAssignor
from bellwether_kafka.coordinator.cli.command_table import app
from bellwether_kafka.coordinator.settings.process_settings import load
from bellwether_kafka.coordinator.topology.file import read_topology, write_topology
from bellwether_kafka.coordinator.topology.internal_topics import plan_internal_topics
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from tests.paths import DOCS, ROOT

PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
ASSIGNORS = DOCS / "guides" / "writing-an-assignor.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"`(bellwether [^`]+)`|^ {4}(bellwether .+)$", re.MULTILINE)
MAKE = re.compile(r"`make ([a-z-]+)|^ {4}make ([a-z-]+)", re.MULTILINE)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group has them

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> Iterator[str]:
    """The links of a page that lead to no file of the repository, or to no heading."""
    for link in LINK.findall(text):
        if re.match(r"(?:https?|mailto):", link):
            continue
        file, _, anchor = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        if not target.is_relative_to(ROOT) or not target.is_file():
            yield f"{link}: there is no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{link}: there is no such heading"


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page, page.read_text(encoding="utf-8"))) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
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


def commands(page: Path) -> Iterator[list[str]]:
    for hit in COMMAND.finditer(page.read_text()):
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
            assert all(used & set(p.opts) for p in needed if p.param_type_name == "option"), f"{parsed.name} {words}"
            assert len(words) - len(used) >= sum(p.param_type_name == "argument" for p in needed), (
                f"{parsed.name} {words}"
            )


@every_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {first or second for first, second in MAKE.findall(page.read_text())}
    assert named <= targets


@every_page
def test_settings_can_be_used(page: Path) -> None:
    """What a page shows of a configuration file, with the brokers and the group that it leaves out."""
    for language, text in FENCE.findall(page.read_text()):
        shown = tomllib.loads(text) if language == "toml" else {"project": {}}
        if "project" in shown:
            continue
        missing = {"groups": [{"name": "any"}]} if "groups" not in shown else {}
        kafka = {"bootstrap.servers": "broker-1:9092"} | shown.pop("kafka", {})
        load(overrides={"kafka": kafka, **missing, **shown}, environ={})


def examples() -> list[dict[str, Any]]:
    """The namespaces of the page's Python examples, each run by itself."""
    blocks = []
    for language, code in FENCE.findall(ASSIGNORS.read_text()):
        if language == "python":
            namespace: dict[str, Any] = {}
            exec(compile(code, ASSIGNORS.name, "exec"), namespace)  # noqa: S102 - Bellwether's own page
            blocks.append(namespace)
    return blocks


def test_the_assignor_in_20_lines_assigns() -> None:
    text = next(code for language, code in FENCE.findall(ASSIGNORS.read_text()) if code)
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
    assert [first.plan.group.members[m].member_id for m in first.plan.owner.tolist()] == [
        "a",
        "b",
        "a",
        "b",
        "a",
        "a",
        "a",
    ]


def test_the_task_assignors_of_the_page_are_whole() -> None:
    made = [
        item()
        for namespace in examples()[1:]
        for item in namespace.values()
        if isinstance(item, type) and TaskAssignor in item.__mro__[1:]
    ]
    assert [type(item).__name__ for item in made] == ["RoundRobin", "KeepAndSpread"]


def test_the_page_of_the_topology_file_is_its_format() -> None:
    """The format stood in a docstring only."""
    text = (DOCS / "reference" / "topology-file.md").read_text()
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
