"""What commands share: how they print, and how they end when a user is mistaken."""

from enum import StrEnum
from typing import Annotated, NoReturn

import typer

EXIT_INPUT = 2


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


As = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]


def fail(message: str) -> NoReturn:
    """Ends the process with a sentence for people."""
    typer.echo(message, err=True)
    raise typer.Exit(EXIT_INPUT)
