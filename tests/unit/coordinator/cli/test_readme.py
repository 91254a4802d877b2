"""The shell lines of README.md: those that need no broker work as they are written, the others say what they lack."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer, Node
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import Described, bellwether
from tests.kit.membership import README_GROUPS
from tests.paths import ROOT
from tests.unit.coordinator.cli.every_command import write_files

README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = re.findall(r"^ {4}bellwether (.+)$", README, re.MULTILINE)
FILES = {"debug replay": "history", "topology parse": "described"}  # what FILE is, by the words of the command
SILENT = "127.0.0.1:1"


WAITS = "plan GROUP"  # for brokers, 5 s


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.slow] if line.startswith(WAITS) else []) for line in LINES]
)
def test_a_line_of_the_readme_works(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a group called GROUP on brokers that do not answer, and in a folder that has what the lines name."""
    write_files(tmp_path)
    (tmp_path / "bellwether.toml").write_text(
        f'http_address = ""\n[kafka]\n"bootstrap.servers" = "{SILENT}"\n[[groups]]\nname = "GROUP"\n'
    )
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.split(" #| > ", line)[0])
    if words[0] in ("run", "top", "guard"):
        return  # they go on until Ctrl-C, or to the end of an application
    if words[0] == "init":  # it asks for what it is not given, and nobody is at a terminal here
        assert "no terminal to ask for the brokers" in bellwether(*words).stderr
        return
    local = next((file for name, file in FILES.items() if words[: len(name.split())] == name.split()), None)
    words = [local if word == "FILE" and local else word for word in words]
    if local or words[:2] == ["debug", "decode"]:
        ended = bellwether(*words)
        assert (ended.returncode, ended.stderr) == (Exit.DONE, "")
    else:
        ended = bellwether(*words, BELLWETHER_CONFIG="bellwether.toml")
        assert ended.returncode == Exit.INPUT, ended
        assert SILENT in ended.stderr, "the line is well-formed, and the file was read"


def test_the_example_of_decode_is_a_whole_blob() -> None:
    (line,) = [line for line in LINES if line.startswith("debug decode")]
    assert json.loads(bellwether(*shlex.split(line)).stdout)["topics"] == ["orders"]


def test_without_an_address_the_remedies_are_named() -> None:
    ended = bellwether("groups")
    assert ended.returncode == Exit.INPUT
    for remedy in ("--bootstrap", "--config", "BELLWETHER_CONFIG"):
        assert remedy in ended.stderr


class Shop(Described):
    """The cluster that the README shows."""

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return README_GROUPS[group_id]

    async def list_groups(self, node: Node) -> GroupList:
        if node.node_id != 1:
            return GroupList(0, ())
        classic = tuple(ListedGroup(name, "consumer", group.state, "classic") for name, group in README_GROUPS.items())
        return GroupList(0, (*classic, ListedGroup("clicks", "consumer", "Stable", "consumer")))


def shown_commands() -> list[tuple[str, str]]:
    """The commands of the first section, each with what is below it."""
    (section,) = re.findall(r"^## Observe my cluster$(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    examples = re.findall(r"^ {4}bellwether ([^\n]+)\n\n```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [(command, text) for command, text in examples]


@pytest.mark.embedded
def test_the_first_section_shows_what_its_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "Transport", Shop)
    with EmbeddedCluster(brokers=2) as brokers:
        brokers.create_topic("orders", 6)
        for command, text in shown_commands():
            ended = bellwether(*shlex.split(command), BELLWETHER_KAFKA_BOOTSTRAP_SERVERS=brokers.bootstrap)
            assert (ended.returncode, ended.stderr) == (Exit.DONE, "")
            assert ended.stdout == text
    assert [command.split()[0] for command, _ in shown_commands()] == ["groups", "describe"]


@pytest.mark.embedded
def test_the_lines_of_assess_on_the_page_are_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "Transport", Shop)
    page = (ROOT / "docs/get-started/observe-my-cluster.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"assess .*?```text\n(.*?)```", page, re.DOTALL)
    with EmbeddedCluster(brokers=2) as brokers:
        brokers.create_topic("orders", 6)
        asked = shlex.split("assess orders --for 1s")
        ended = bellwether(*asked, BELLWETHER_KAFKA_BOOTSTRAP_SERVERS=brokers.bootstrap, COLUMNS="200")
    printed = [line.rstrip() for line in ended.stdout.splitlines()]
    lines = [line.removeprefix("   ") for line in shown.splitlines()]
    assert [line for line in lines if line.strip() not in ("...", "") and line not in printed] == []


def test_the_first_section_is_how_to_observe() -> None:
    assert re.findall(r"^## (.+)$", README, re.MULTILINE)[0] == "Observe my cluster"
