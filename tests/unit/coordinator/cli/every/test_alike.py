"""What holds of every command: an exit code that is documented, --output, a completion, a help text, a page."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bellwether_kafka.coordinator.cli import EXIT_CODES, Exit, app
from bellwether_kafka.coordinator.cli.lazy import EPILOG
from bellwether_kafka.coordinator.cli.output import Output
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.commands import bellwether
from tests.paths import DOCS
from tests.unit.coordinator.cli.every_command import ALL, NOT_PRINTING, TOPOLOGY

RUNNER = CliRunner()
BLOB = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode().hex()


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_explains_itself_and_prints_json(name: str) -> None:
    command = ALL[name]
    assert command.help, name
    if name in NOT_PRINTING:
        return
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--output", "-o"} <= options, f"{name} has {sorted(options)}"
    (output,) = [parameter for parameter in command.params if "--output" in parameter.opts]
    assert output.default in {*Output}


def test_exit_codes_are_reported() -> None:
    reported = " ".join(RUNNER.invoke(app, ["--help"]).stdout.split())
    for code in Exit:
        assert f"{int(code)} {EXIT_CODES[code]}" in EPILOG
        assert EXIT_CODES[code] in reported


def test_a_word_that_is_no_command_is_bad_input() -> None:
    ended = RUNNER.invoke(app, ["describee"])
    assert ended.exit_code == Exit.INPUT


def test_every_word_of_a_command_is_documented() -> None:
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, command in ALL.items():
        assert f"`bellwether {name}`" in page, name
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert f"`{parameter.opts[0]}`" in page, f"{name} {parameter.opts[0]}"


def test_every_number_with_a_fraction_has_limits_so_it_is_one() -> None:
    """`--wait nan` was waited for without end, and `--wait inf` ended `roll` by an OverflowError."""
    for name, command in ALL.items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.type_descriptor.annotation is float:
                assert None not in (parameter.min, parameter.max), f"{name} {parameter.opts[0]}"


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
@pytest.mark.parametrize("command", ["debug ready g member:m", "roll g --exec 'echo {member}'", "drain"])
def test_what_is_no_number_of_seconds_is_bad_input(command: str, seconds: str) -> None:
    ended = bellwether(*shlex.split(command), "--wait", seconds, "--bootstrap", "127.0.0.1:1")
    assert ended.returncode == Exit.INPUT
    assert "Invalid value for '--wait'" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["debug", "decode", "ConsumerProtocolSubscription", BLOB],
        ["topology", "parse", "{file}", "--application-id", "shop"],
    ],
    ids=lambda a: a[0],
)
def test_what_needs_no_broker_prints_one_json_document(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "topology.txt"
    file.write_text(TOPOLOGY)
    ended = RUNNER.invoke(app, [*(a.format(file=file) for a in arguments), "--output", "json"])
    assert ended.exit_code == Exit.DONE, ended.output
    assert json.loads(ended.stdout)


def test_a_topology_as_json_is_a_topology_file_too(tmp_path: Path) -> None:
    text = tmp_path / "described.txt"
    text.write_text(TOPOLOGY)
    parsed = RUNNER.invoke(app, ["topology", "parse", str(text), "--application-id", "shop", "-o", "json"])
    file = tmp_path / "topology.yml"
    file.write_text(parsed.stdout)
    shown = RUNNER.invoke(app, ["topology", "show", str(file), "--output", "json"])
    assert shown.exit_code == Exit.DONE, shown.output
    document = json.loads(shown.stdout)
    assert document["application"] == "shop"
    assert [s["sources"] for s in document["subtopologies"]] == [["orders"]]


def completed(*words: str) -> list[str]:
    """What bash would offer after these words; the last one is being typed."""
    typed = {"COMP_WORDS": " ".join(("bellwether", *words)), "COMP_CWORD": str(len(words))}
    ended = bellwether(_BELLWETHER_COMPLETE="complete_bash", **typed)
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("desc",), {"describe"}),
        (("topology", "l"), {"learn"}),
        (("plan", "orders", "--det"), {"--detailed-exitcode"}),
        (("plan", "orders", "--output", "j"), {"json"}),
        (("evac",), {"evacuate"}),
    ],
)
def test_the_shell_completes_commands_options_and_values(words: tuple[str, ...], offered: set[str]) -> None:
    assert set(completed(*words)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_shown_how_to_complete(shell: str) -> None:
    ended = bellwether(_BELLWETHER_COMPLETE=f"source_{shell}")
    assert ended.returncode == 0, ended.stderr
    assert "_BELLWETHER_COMPLETE" in ended.stdout
