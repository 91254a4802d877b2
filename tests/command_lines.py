"""Command lines of Bellwether in manifests and pages, read as the commands themselves read them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.guard import GuardArguments
from bellwether_kafka.coordinator.guard.arguments import parsed

COMMANDS: Any = typer.main.get_command(app)


def bare(words: list[str]) -> Iterator[list[str]]:
    """The commands of Bellwether in a command line, without their first word: those of a shell's script, too."""
    if words[:2] == ["sh", "-c"]:
        for part in re.split(r"&&|\|\||;", words[2]):
            inner = shlex.split(part)
            yield from bare(inner[1:] if inner[:1] == ["exec"] else inner)
    elif words and Path(words[0]).name == "bellwether":
        yield words[1:]


def understood(words: list[str]) -> GuardArguments | None:
    """Read as the command itself reads it, with an exception for what it refuses; what a guard has understood."""
    if words[0] == "guard":
        given = parsed(words[1:])
        given.check()
        return given
    command, rest = COMMANDS, words
    while subcommands := getattr(command, "commands", {}):
        command, rest = subcommands[rest[0]], rest[1:]
    asked = {"help_option_names": ["-h", "--help"]}
    # A command keeps the first help option that it is asked for: another one would stay with later tests.
    getattr(command, "loaded", command).make_context(words[0], list(rest), resilient_parsing=False, **asked)
    return None
