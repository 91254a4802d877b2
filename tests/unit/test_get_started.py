"""The pages for the first ten minutes: their commands can be read and run, their settings load, and they show what the
commands print."""

import ast
import re
import shlex
import subprocess
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, RawGroup, RawMember
from bellwether_kafka.coordinator.cli import doctor, plan
from bellwether_kafka.coordinator.cli.orders import give, restart
from bellwether_kafka.coordinator.cli.orders.service import OrderService
from bellwether_kafka.coordinator.cli.output import Output
from bellwether_kafka.coordinator.control import OrderKind, TopicChannel
from bellwether_kafka.coordinator.membership import SizeLimit
from bellwether_kafka.coordinator.observation import Observation, Shadow, next_steps, observation
from bellwether_kafka.coordinator.observation.health import DoctorFacts, examine
from bellwether_kafka.coordinator.settings import GroupSettings, Settings, load, named
from tests.command_lines import bare, understood
from tests.get_started_pages import FOLDER, PAGES, fenced
from tests.kit.commands import bellwether
from tests.kit.membership import README_GROUPS
from tests.paths import DOCS, ROOT

BROKERS = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "broker-1:9092"}
TOOLS = {"export", "bellwether", "curl", "grep", "java", "sh"}
LIMITS = {"group.min.session.timeout.ms": 6_000, "group.max.session.timeout.ms": 1_800_000}

every_page = pytest.mark.parametrize("page", PAGES)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in this language."""
    return [block.text for block in fenced(PAGES[page].read_text(encoding="utf-8")) if block.language == language]


def command_lines(text: str) -> list[list[str]]:
    """The commands of a shell block, without what follows a redirection."""
    lines: list[list[str]] = []
    for line in text.splitlines():
        words = shlex.shlex(line.split(" > ")[0], posix=True, punctuation_chars="|;&")
        words.whitespace_split = True
        lines += [list(part) for is_end, part in groupby(words, key=lambda w: set(w) <= set("|;&")) if not is_end]
    return lines


def own(page: str) -> list[list[str]]:
    return [word for text in blocks(page, "sh") for line in command_lines(text) for word in bare(line)]


def settings(page: str, folder: Path) -> list[Settings]:
    file, loaded = folder / "bellwether.toml", []
    for text in blocks(page, "toml"):
        file.write_text(text)
        loaded.append(load(file, environ=BROKERS))
    return loaded


@every_page
def test_every_command_of_a_page_exists(page: str) -> None:
    lines = own(page)
    assert lines
    for words in lines:
        understood(words)


def test_commands_and_options_that_do_not_exist_are_found() -> None:
    with pytest.raises(Exception, match="--mod"):
        understood(["run", "--group", "orders", "--mod", "assist"])
    with pytest.raises(Exception, match="--until"):
        understood(["topology", "learn", "wordcount", "--until", "1"])
    for wrong in (["show"], ["topology", "shows", "topology.yaml"]):
        with pytest.raises(KeyError):
            understood(wrong)


@every_page
def test_a_shell_runs_the_blocks_of_a_page_as_they_are(page: str) -> None:
    """What they name has been set by a block before, and a shell can read them."""
    names: set[str] = set()
    for text in blocks(page, "sh"):
        subprocess.run(["bash", "-n", "-c", text], check=True, timeout=60)
        names |= set(re.findall(r"^export (\w+)=", text, re.MULTILINE))
        assert set(re.findall(r"\$\{?(\w+)", text)) <= names
        assert "<" not in text, "a place that is to be filled in is no shell"
    first = {line[0] for text in blocks(page, "sh") for line in command_lines(text)}
    assert first <= TOOLS
    assert {*BROKERS, "GROUP"} <= names


@every_page
def test_the_settings_of_a_page_load_with_what_its_shell_has_set(page: str, tmp_path: Path) -> None:
    """Each for the group that the page names, and with arithmetic that a leader accepts."""
    matches = set(re.findall(r"^export GROUP=(\S+)$", "\n".join(blocks(page, "sh")), re.MULTILINE))
    for loaded in settings(page, tmp_path):
        assert {group.name for group in loaded.groups} == matches
        assert loaded.groups[0].membership(loaded.instance_id).group_id in matches


@every_page
def test_a_group_that_is_named_by_options_has_a_mode_that_exists(page: str) -> None:
    for words in (words for words in own(page) if words[0] == "run" and "--group" in words):
        given = dict(zip(words[1::2], words[2::2], strict=True))
        entry = named(given["--group"], given.get("--mode", "observe"))
        assert load(overrides={"groups": [entry]}, environ=BROKERS).groups


@every_page
def test_a_page_has_the_parts_that_a_beginner_needs(page: str) -> None:
    headings = re.findall(r"^## (.+)$", PAGES[page].read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "What you need"
    assert headings[-1] == "Read on"
    assert "Undo" in headings
    assert f"]({page}.md)" in (FOLDER / "README.md").read_text(encoding="utf-8")


# By method of the live tests' Reader: the language of the blocks that it takes, and which argument names one.
TAKEN = {
    **dict.fromkeys(("paste", "paste_again", "paste_in_both", "start", "leave_out"), ("sh", 0)),
    "write": ("toml", 1),
    "shown": ("text", 0),
}


def test_the_live_tests_look_for_words_that_the_pages_have() -> None:
    """They run on real brokers, so a page that changes would be noticed late."""
    source = (ROOT / "tests" / "interop" / "test_get_started.py").read_text(encoding="utf-8")
    pages = [page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))]
    shown = [(block.language, block.text) for page in pages for block in fenced(page)]
    looked_for = [
        (*TAKEN[node.func.attr], node.args)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKEN
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "reader"
    ]
    words = {
        (language, given.value) for language, at, args in looked_for if isinstance(given := args[at], ast.Constant)
    }
    assert {language for language, _ in words} == {"sh", "toml", "text"}
    assert not [
        (lang, word) for lang, word in words if not any(lang == has and str(word) in text for has, text in shown)
    ]


def test_groups_and_describe_are_shown_as_in_the_readme() -> None:
    """The README's own test compares these with the commands."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    groups, described, *_ = blocks("observe-my-cluster", "text")
    for text in (groups, described):
        assert f"```text\n{text}```" in readme


@pytest.fixture
def refreshed() -> Observation:
    """That group as `plan` and `doctor` see it."""
    answer, cluster = README_GROUPS["orders"], ClusterView.of({"orders": [["az1"], ["az2"]] * 3})
    members = tuple(RawMember(m.member_id, None, m.metadata) for m in answer.members)
    raw = RawGroup("orders", 1, answer.protocol, members, frozenset())
    owner = np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)
    views = decide(raw, cluster, Memory.empty(), Policy("kafka"), now_ms=0).plan.group.members
    decision = decide(raw, cluster, Memory.of(0, cluster, owner, views), Policy("kafka"), now_ms=0)
    seen = observation("orders", "classic", answer, 0)
    return replace(seen, lags={"orders": (None,) * 6}, shadow=Shadow.of(decision, owner))


def test_the_plan_of_the_page_is_what_the_command_prints(
    refreshed: Observation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refreshed.shadow is not None
    plan.show_plan(refreshed, refreshed.shadow, Output.TABLE)
    assert capsys.readouterr().out == blocks("observe-my-cluster", "text")[2]


def test_the_checks_of_the_page_are_what_doctor_prints(
    refreshed: Observation, capsys: pytest.CaptureFixture[str]
) -> None:
    config = GroupSettings(name="orders", mode="lead").membership("bellwether")
    facts = DoctorFacts(refreshed, config, "lead", 25, ("az1", "az2"), LIMITS, (4, 3), size_limit=SizeLimit(100))
    checks = examine(facts)
    doctor._draw(checks, next_steps(facts, checks))
    assert capsys.readouterr().out == blocks("lead-a-consumer-group", "text")[0]


def test_the_topology_of_the_page_is_the_one_of_the_reference(tmp_path: Path) -> None:
    reference = (DOCS / "reference" / "topology-file.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", reference, re.MULTILINE | re.DOTALL)
    file = tmp_path / "topology.yaml"
    file.write_text(example)
    assert bellwether("topology", "show", str(file)).stdout == blocks("lead-a-streams-application", "text")[0]


class Topic:
    """Orders are written to it, and it has nobody who listens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(OrderService, "read", lambda _: {})
        monkeypatch.setattr(TopicChannel, "write", lambda *_: None)
        monkeypatch.setattr(OrderService, "_placed", lambda *_: SimpleNamespace(objection=""))
        monkeypatch.setattr(OrderService, "in_full", lambda _self, _group, where: where)
        monkeypatch.setattr(restart, "_until_ready", lambda *_: "")
        self.to = OrderService(TopicChannel({}, "control"), Output.TABLE)


@pytest.mark.parametrize("page", ["lead-a-consumer-group", "lead-a-streams-application"])
def test_the_end_of_leading_is_reported_as_the_page_says_it(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = re.findall(r"^export GROUP=(\S+)$", "".join(blocks(page, "sh")), re.MULTILINE)
    given = {"group": group, "everything": False, "for_": None, "reason": "", "wait": 0.0, "force": True}
    give.PREPARED[OrderKind.LEAVE](OrderKind.LEAVE, Topic(monkeypatch).to, given)
    assert capsys.readouterr().out.split() == blocks(page, "text")[-1].split(), "the page breaks the line"


def test_a_planned_restart_is_reported_as_the_page_says_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evacuated, back = blocks("restart-without-a-pause", "text")
    to, where = Topic(monkeypatch).to, "member:orders-7"
    given = {"group": "orders", "where": where, "remove": False, "for_": "1h", "reason": "", "wait": 0.0}
    give.PREPARED[OrderKind.EVACUATE](OrderKind.EVACUATE, to, {**given, "force": True, "dry_run": False})
    assert capsys.readouterr().out == evacuated
    monkeypatch.setattr(restart, "order_service", lambda *_, **__: to)
    restart.ready("orders", where)
    assert capsys.readouterr().out == back
