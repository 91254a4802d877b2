"""What commands share: how they print, how they end, and how they end when a user is mistaken."""

import importlib.metadata
import json
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from itertools import groupby
from typing import Annotated, Any, NoReturn

import typer

DISTRIBUTION = "bellwether-kafka"


class Exit(IntEnum):
    """How a command ends; `EXIT_CODES` says what each one means."""

    DONE = 0
    UNEXPECTED = 1
    INPUT = 2
    FENCED = 3
    DIFFERS = 4


EXIT_CODES: Mapping[Exit, str] = {
    Exit.DONE: "ended as asked",
    Exit.UNEXPECTED: "something unexpected, a defect of ours; of `doctor`: a check has failed",
    Exit.INPUT: "bad input or configuration: settings, silent brokers, missing ACLs, bytes that do not decode",
    Exit.FENCED: "fenced, another instance runs with our group.instance.id; do not restart this one while it does",
    Exit.DIFFERS: "of `plan --detailed-exitcode`: it would move something; of `replay`: a plan is another one today",
}
EPILOG = "Exit codes: " + "; ".join(f"{int(code)} {said}" for code, said in EXIT_CODES.items()) + "."


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


def tell(output: Output, sentence: str, **facts: Any) -> None:
    """A sentence for people, or the same as JSON with the facts behind it."""
    if output is Output.JSON:
        as_json({**facts, "said": sentence})
    else:
        typer.echo(sentence)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ranges(numbers: list[int]) -> str:
    """Sorted whole numbers in short: 0-3,7."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda at: at[1] - at[0]):
        found = [number for _, number in run]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    return ",".join(parts)


def installed_version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"
