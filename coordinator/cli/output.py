"""What commands share: how they print, and how they end when a user is mistaken.

Standard output is for what was asked, and with `--output json` or `yaml` for documents only; everything else goes to
standard error.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import groupby, zip_longest
from typing import Annotated, Any, NoReturn

import rich.console
import typer
import yaml
from rich.cells import cell_len, set_cell_size
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from bellwether_kafka.coordinator.cli.lazy import Exit
from bellwether_kafka.coordinator.names import for_terminal, without_secrets

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
UNCUT = 10_000  # columns where no terminal is: a file and a pipe have no edge
GAP = "  "
HEADING, DIM = Style(bold=True), Style(dim=True)


class Output(StrEnum):
    """For people, with short ids or as wide as it takes, and for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_document(self) -> bool:
        return self in (Output.JSON, Output.YAML)


As = Annotated[Output, typer.Option("--output", "-o", help="How to print it; wide: whole ids and more columns.")]


def echo(text: str, *, err: bool = False) -> None:
    """Prints a line for people. Names in it may hold anything, a line feed too, and errors of libraries a secret."""
    typer.echo(for_terminal(without_secrets(text)), err=err)


def echo_lines(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints text of several lines, in which no name begins one."""
    typer.echo(for_terminal(without_secrets(text), lines=True), err=err, nl=nl)


def fail(message: str) -> NoReturn:
    """Ends the process with a sentence for people."""
    echo(message, err=True)
    raise typer.Exit(Exit.INPUT)


def print_document(document: Any, output: Output, *, one_of_many: bool = False) -> None:
    """Prints a document of JSON's values. `one_of_many`: others follow, so that JSON takes one line each."""
    if output is Output.YAML:
        # By way of JSON: both print the same values, without tags and anchors.
        plain = json.loads(json.dumps(document))
        text = yaml.dump(plain, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, explicit_start=one_of_many)
        echo_lines(text, nl=False)
    else:
        echo_lines(json.dumps(document, indent=None if one_of_many else 2))


def repeated(show: Callable[[], None], interval_s: float | None) -> None:
    """Shows something once, or on a clean screen every so many seconds until Ctrl-C, which is then how it ends."""
    if interval_s is None:
        show()
        return
    with suppress(KeyboardInterrupt):
        while True:
            Console().clear()  # of a terminal only
            show()
            sys.stdout.flush()
            time.sleep(interval_s)


class Console(rich.console.Console):
    """Draws on standard output; as wide as it takes, and without colours, where that is no terminal, whatever
    FORCE_COLOR says: a pipe leads to a program."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(soft_wrap=soft_wrap, force_terminal=sys.stdout.isatty())
        if not self.is_terminal:
            self.width = UNCUT

    def print(self, *objects: Any, **options: Any) -> None:
        """Draws these, without secrets. A line feed in a Text is one of a name's, and begins no line."""
        super().print(*(_of_one_line(one) if isinstance(one, Text) else one for one in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is drawn, without control characters of names: only rich's own control codes reach the terminal."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(for_terminal(segment.text, lines=True), segment.style)

    def on_broken_pipe(self) -> None:
        """As anybody who prints: the command ends with its code for that."""
        raise BrokenPipeError


def _of_one_line(text: Text) -> Text:
    shown = for_terminal(without_secrets(text.plain))
    return text if shown == text.plain else Text(shown, text.style)


class Table:
    """Columns two spaces apart, the headings bold where that can be seen. On a terminal that is too narrow cells go on
    in the next line; nothing is cut. Lines are put together here, because rich's own table takes most of a second for
    a thousand of them."""

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
    """Widths of columns with this sum at most: the widest give way first."""
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
    """The lines of one row."""
    if all(cell_len(cell) <= width for cell, width in zip(cells, widths, strict=True)):
        yield tuple(cells)
        return
    columns = (Text(cell).wrap(console, width, overflow="fold") for cell, width in zip(cells, widths, strict=True))
    for parts in zip_longest(*([part.plain for part in column] for column in columns), fillvalue=""):
        yield tuple(parts)


def print_result(output: Output, sentence: str, **facts: Any) -> None:
    """A sentence for people, or the same as JSON with the facts behind it."""
    if output.is_document:
        print_document({**facts, "message": sentence}, output)
    else:
        echo(sentence)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_or_unknown(value: int | None) -> str:
    """What is not known is no number."""
    return "unknown" if value is None else str(value)


def ranges(numbers: list[int]) -> str:
    """Sorted whole numbers in short: 0-3,7."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda at: at[1] - at[0]):
        found = [number for _, number in run]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    return ",".join(parts)
