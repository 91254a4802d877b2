"""What scripts rely on: standard output is for what was asked, and every end has its code and no traceback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from bellwether_kafka.coordinator.cli import EXIT_CODES, Exit, app, groups, top
from bellwether_kafka.coordinator.cli.command_table import COMMANDS, REMOVED
from bellwether_kafka.coordinator.cli.lazy import with_exit_codes
from bellwether_kafka.coordinator.cli.output import Console, Table
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.commands import bellwether
from tests.unit.coordinator.cli.every_command import ALL

BLOB = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode().hex()
HELP_CPU_S = 0.3  # the machine may be busy, so what counts is the time that the process computes
NOBODY = "127.0.0.1:1"


def test_help_lists_sections_in_order_and_every_exit_code() -> None:
    reported = bellwether("-h", COLUMNS="250").stdout
    titles = [reported.index(f"\n{title}:\n") for title in (*COMMANDS, "Exit codes")]
    assert titles == sorted(titles)
    assert reported == bellwether("--help", COLUMNS="250").stdout
    for code, message in EXIT_CODES.items():
        assert f" {int(code)} {message}" in " ".join(reported.split())
    for commands in COMMANDS.values():
        for command in commands:
            assert f"\n  {command.name} " in reported
    assert "..." not in bellwether("--help", COLUMNS="60").stdout.split("Observe:")[1], "nothing is cut"
    assert bellwether("plan", "-h").stdout == bellwether("plan", "--help").stdout != ""


@pytest.mark.slow
def test_help_computes_for_less_than_a_third_of_a_second() -> None:
    """The best of three: a cold cache is no fault of the command's."""
    timed = (
        "import resource, subprocess, sys; subprocess.run([sys.executable, '-m', 'bellwether_kafka', '--help'],"
        " stdout=subprocess.DEVNULL, check=True); used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        " print(used.ru_utime + used.ru_stime)"
    )
    took_s = [float(subprocess.check_output([sys.executable, "-c", timed])) for _ in range(3)]
    assert min(took_s) < HELP_CPU_S, took_s


def test_help_imports_nothing_that_only_commands_need() -> None:
    refreshes = (
        "import sys, bellwether_kafka.coordinator.cli as cli\ntry:\n    cli.main()\nfinally:\n"
        "    heavy = {'rich', 'numpy', 'confluent_kafka', 'pydantic', 'structlog', 'asyncio'} & set(sys.modules)\n"
        "    assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", refreshes, "--help"], stdout=subprocess.DEVNULL, check=True)


@pytest.mark.slow
def test_a_reader_that_has_gone_ends_the_command_quietly() -> None:
    """As `bellwether debug decode ... | head -0` does."""
    words = [sys.executable, "-m", "bellwether_kafka", "debug", "decode", "ConsumerProtocolSubscription", BLOB]
    reads, writes = os.pipe()
    os.close(reads)
    ended = subprocess.run(words, stdout=writes, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (Exit.UNREAD, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "words", [["debug", "decode", "ConsumerProtocolSubscription", BLOB], ["--help"], ["debug", "decode", "--help"]]
)
def test_an_output_that_cannot_be_written_ends_in_a_sentence(words: list[str]) -> None:
    """As on a full disk: it ended in a traceback."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "bellwether_kafka", *words]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    sentence = "The output or a file cannot be written (No space left on device); make room. What was requested may"
    assert (ended.returncode, ended.stderr) == (Exit.NOT_SO, f"{sentence} have been done.\n")


def drawn() -> None:
    table = Table("group")
    table.add_row("orders")
    Console().print(table)


def interrupted() -> None:
    raise KeyboardInterrupt


def unread() -> None:
    raise BrokenPipeError


def test_ctrl_c_is_no_success() -> None:
    with pytest.raises(typer.Exit) as ended:
        with_exit_codes(interrupted)()
    assert ended.value.exit_code == Exit.INTERRUPTED


def test_who_draws_says_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "_write_buffer", lambda _: unread())
    with pytest.raises(BrokenPipeError):
        drawn()


def test_ctrl_c_is_how_to_end_what_runs_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (groups, top):
        monkeypatch.setattr(module, "run_to_end", lambda work: (work.close(), interrupted()))
    with_exit_codes(top.top)(["orders"], bootstrap=NOBODY)
    with_exit_codes(groups.describe)("orders", bootstrap=NOBODY, watch=True)


@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_table_is_not_cut_where_no_terminal_is(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table = Table("group", "member", title="1 group")
    table.add_row("orders", "m" * 200)
    Console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert any("orders" in line and "m" * 200 in line for line in lines)
    assert max(map(len, lines)) < 230, "as wide as it takes and no wider"


def test_a_narrow_terminal_folds_long_words() -> None:
    console = Console()
    console.width = 20
    table = Table("member")
    table.add_row("m" * 50)
    with console.capture() as shown:
        console.print(table)
    assert shown.get().count("m") == 50 + "member".count("m")


@pytest.mark.slow
def test_logs_of_a_command_go_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    ended = bellwether("plan", "orders", "--bootstrap", NOBODY, "-o", "json")
    assert (ended.returncode, ended.stdout) == (Exit.INPUT, "")
    assert NOBODY in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", REMOVED)
def test_a_command_that_is_gone_says_what_to_write(name: str) -> None:
    ended = bellwether(name, "orders", "--bootstrap", "broker:9092")
    assert ended.returncode == Exit.INPUT
    assert f"`bellwether {name}` is gone; write `{REMOVED[name]}`." in " ".join(ended.stderr.split())


@pytest.mark.parametrize("name", ["decode", "history", "replay", "ready", "stopped"])
def test_a_command_that_has_moved_still_runs_for_hooks_and_probes_and_says_its_new_name(name: str) -> None:
    ended = bellwether(name, "--help")
    assert (ended.returncode, ended.stdout.split()[:3]) == (Exit.DONE, ["Usage:", "bellwether", name])
    assert ended.stderr == f"Write `bellwether debug {name}`: `bellwether {name}` goes with the next release.\n"


def removed_options(commands: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Each option that a command has had, with what to write."""
    for name, command in (commands or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from removed_options(command, (*path, name))
        else:
            yield from (((*path, name), option, instead) for option, instead in command.removed.items())


@pytest.mark.parametrize(("words", "option", "instead"), [*removed_options()])
def test_an_option_that_is_gone_says_what_to_write(words: tuple[str, ...], option: str, instead: str) -> None:
    for given in (option, f"{option}=x"):
        ended = bellwether(*words, given)
        assert ended.returncode == Exit.INPUT
        assert f"{option} is gone; {instead}." in " ".join(ended.stderr.split())


@pytest.mark.parametrize("option", ["--topic", "--for", "--force", "--wait"])
def test_an_option_means_one_thing(option: str) -> None:
    helps = {p.help for command in ALL.values() for p in command.params if option in p.opts}
    assert len({text.removesuffix("; else until resume.").rstrip(".") for text in helps}) == 1, helps
