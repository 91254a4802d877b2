"""What commands share: how they print, and how they end when a user is mistaken.

Standard output is for what was asked, and with `--output json` for JSON only; everything else goes to standard error.
"""

import json
import sys
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any, NoReturn

import rich.console
import rich.table
import typer
from rich.table import Column

from bellwether_kafka.coordinator.cli.lazy import Exit

UNCUT = 10_000  # columns where no terminal is: a file and a pipe have no edge


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


As = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]


def fail(message: str) -> NoReturn:
    """Ends the process with a sentence for people."""
    typer.echo(message, err=True)
    raise typer.Exit(Exit.INPUT)


def as_json(document: Any) -> None:
    """Prints one JSON document."""
    typer.echo(json.dumps(document, indent=2))


class Console(rich.console.Console):
    """Draws on standard output; as wide as it takes where that is no terminal."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(soft_wrap=soft_wrap)
        if not self.is_terminal:
            self.width = UNCUT

    def on_broken_pipe(self) -> None:
        """As anybody who prints: the command ends with its code for that."""
        raise BrokenPipeError


class Table(rich.table.Table):
    """Continues a long word in the next line, where the terminal is narrow, and does not cut it."""

    def __init__(self, *columns: str, title: str | None = None, expand: bool = False) -> None:
        found = (Column(name, overflow="fold") for name in columns)
        super().__init__(*found, title=title, expand=expand and sys.stdout.isatty())


def tell(output: Output, sentence: str, **facts: Any) -> None:
    """A sentence for people, or the same as JSON with the facts behind it."""
    if output is Output.JSON:
        as_json({**facts, "said": sentence})
    else:
        typer.echo(sentence)


def ranges(numbers: list[int]) -> str:
    """Sorted whole numbers in short: 0-3,7."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda at: at[1] - at[0]):
        found = [number for _, number in run]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    return ",".join(parts)
