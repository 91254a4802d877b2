"""The shell lines of README.md: those that need no broker work as they are written, the others say what they lack."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.cli.lazy import Exit
from tests.paths import ROOT
from tests.unit.coordinator.cli.every_command import write_files
from tests.unit.coordinator.cli.in_process import bellwether

LINES = re.findall(r"^ {4}bellwether (.+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
FILES = {"replay": "history", "topology parse": "described"}  # what FILE is, by the words of the command
SILENT = "127.0.0.1:1"


@pytest.mark.parametrize("line", LINES)
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
    local = next((file for name, file in FILES.items() if words[: len(name.split())] == name.split()), None)
    words = [local if word == "FILE" and local else word for word in words]
    if local or words[0] == "decode":
        ended = bellwether(*words)
        assert (ended.returncode, ended.stderr) == (Exit.DONE, "")
    else:
        ended = bellwether(*words, BELLWETHER_CONFIG="bellwether.toml")
        assert ended.returncode == Exit.INPUT, ended
        assert SILENT in ended.stderr, "the line is well-formed, and the file was read"


def test_the_example_of_decode_is_a_whole_blob() -> None:
    (line,) = [line for line in LINES if line.startswith("decode")]
    assert json.loads(bellwether(*shlex.split(line)).stdout)["topics"] == ["orders"]


def test_without_an_address_the_remedies_are_named() -> None:
    ended = bellwether("groups")
    assert ended.returncode == Exit.INPUT
    for remedy in ("--bootstrap", "--config", "BELLWETHER_CONFIG"):
        assert remedy in ended.stderr
