"""How commands print, and how they end after a user's mistake.

Standard output is for results; with `--output json` it contains documents only. Everything else goes to standard
error.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from itertools import groupby, zip_longest
from typing import Annotated, Any, NoReturn

import rich.console
import typer
from rich.cells import cell_len, set_cell_size
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from bellwether_kafka.coordinator.cli.lazy import Exit
from bellwether_kafka.coordinator.names import for_terminal, is_visible, without_secrets

UNCUT = 10_000  # columns without a terminal: files and pipes have no width
GAP = "  "
HEADING, DIM = Style(bold=True), Style(dim=True)


class Output(StrEnum):
    """Output formats. Every command has COMMON: tables with short ids or in full width for people, JSON for programs.
    One has also that of Kafka's own tool, one a page."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    KAFKA = "kafka"
    HTML = "html"

    @property
    def is_document(self) -> bool:
        return self is Output.JSON


COMMON = (Output.TABLE, Output.WIDE, Output.JSON)


def output_option(text: str, *more: Output) -> Any:
    """Returns the option --output of a command that has the common formats and these."""
    formats = (*COMMON, *more)

    def accepted(given: Output) -> Output:
        if given not in formats:
            raise typer.BadParameter(f"{given.value!r} is not one of {', '.join(formats)}.")
        return given

    shown = f"[{'|'.join(formats)}]"
    return typer.Option("--output", "-o", help=text, metavar=shown, callback=accepted)


As = Annotated[Output, output_option("How to print it; wide: whole ids and more columns.")]
GROUP_HELP = "How to print it; wide: whole ids and more columns; kafka: as kafka-consumer-groups.sh --describe."
AsOfGroup = Annotated[Output, output_option(GROUP_HELP, Output.KAFKA)]


def echo(text: str, *, err: bool = False) -> None:
    """Prints one line. Escapes control characters such as line feeds, which names may contain, and hides secrets, which
    errors of libraries may contain."""
    typer.echo(for_terminal(without_secrets(text)), err=err)


def echo_lines(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints text of several lines. Names in it must not contain line feeds."""
    typer.echo(for_terminal(without_secrets(text), lines=True), err=err, nl=nl)


def fail(message: str) -> NoReturn:
    """Prints the message on standard error and ends the process with the exit code of bad input."""
    echo(message, err=True)
    raise typer.Exit(Exit.INPUT)


def print_document(document: Any, *, one_of_many: bool = False) -> None:
    """Prints a document of JSON values and dataclasses, on one line if it is `one_of_many`."""
    echo_lines(json.dumps(document, default=asdict, indent=None if one_of_many else 2))


class Console(rich.console.Console):
    """Draws on standard output. Without a terminal it uses unlimited width and no colours, whatever FORCE_COLOR is,
    because a pipe leads to a program."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(soft_wrap=soft_wrap, force_terminal=sys.stdout.isatty())
        if not self.is_terminal:
            self.width = UNCUT

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints these objects without secrets. A line feed in a Text comes from a name and is escaped."""
        super().print(*(_of_one_line(item) if isinstance(item, Text) else item for item in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders without the control characters of names: only rich's own control codes reach the terminal."""
        for segment in super().render(renderable, options):
            if segment.control or is_visible(segment.text):
                yield segment
            else:
                yield Segment(for_terminal(segment.text, lines=True), segment.style)

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError, for which the command has an exit code."""
        raise BrokenPipeError


def _of_one_line(text: Text) -> Text:
    shown = for_terminal(without_secrets(text.plain))
    return text if shown == text.plain else Text(shown, text.style)


class Table:
    """A table with columns two spaces apart and bold headings. If a terminal is too narrow, cells are wrapped; nothing
    is cut. Bellwether lays out the lines itself, because rich's own table takes most of a second for a thousand of
    them."""

    def __init__(self, *columns: str, title: str = "") -> None:
        self._columns, self._title = columns, title
        self._rows: list[tuple[tuple[str, ...], Style | None]] = []

    def add_row(self, *cells: str, style: Style | None = None) -> None:
        self._rows.append((tuple(for_terminal(without_secrets(cell)) for cell in cells), style))

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> Iterator[Segment]:
        lines = [(self._columns, HEADING), *self._rows]
        natural = [max(map(cell_len, cells)) for cells in zip(*(cells for cells, _ in lines), strict=True)]
        widths = _fitting(natural, options.max_width - len(GAP) * (len(natural) - 1))
        if self._title:
            yield Segment(f"{self._title}\n", DIM)
        for cells, style in lines:
            for parts in _folded(console, cells, widths):
                text = GAP.join(set_cell_size(part, width) for part, width in zip(parts, widths, strict=True))
                yield Segment(f"{text.rstrip()}\n", style)


def _fitting(natural: Sequence[int], most: int) -> list[int]:
    """Returns column widths with at most this sum. The widest columns are narrowed first."""
    widths = list(natural)
    while sum(widths) > most and max(widths) > 1:
        widest = max(widths)
        wide = [i for i, width in enumerate(widths) if width == widest]
        below = max((width for width in widths if width < widest), default=1)
        less = min(widest - below, -(-(sum(widths) - most) // len(wide)))
        for i in wide:
            widths[i] -= max(1, less)
    return widths


def _folded(console: rich.console.Console, cells: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yields the lines of one row."""
    if all(cell_len(cell) <= width for cell, width in zip(cells, widths, strict=True)):
        yield tuple(cells)
        return
    columns = (Text(cell).wrap(console, width, overflow="fold") for cell, width in zip(cells, widths, strict=True))
    for parts in zip_longest(*([part.plain for part in column] for column in columns), fillvalue=""):
        yield tuple(parts)


def print_result(output: Output, sentence: str, **facts: Any) -> None:
    """Prints a sentence, or a document with the facts and the sentence as `message`."""
    if output.is_document:
        print_document({**facts, "message": sentence})
    else:
        echo(sentence)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_or_dash(value: int | None) -> str:
    """Returns the number as text, "-" for None."""
    return "-" if value is None else str(value)


def count_or_unknown(value: int | None) -> str:
    """Returns the number as text, "unknown" for None."""
    return "unknown" if value is None else str(value)


def ranges(numbers: list[int]) -> str:
    """Returns sorted whole numbers in short form: 0-3,7."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda at: at[1] - at[0]):
        span = [number for _, number in run]
        parts.append(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}")
    return ",".join(parts)
