"""How commands print: tables, colours, documents."""

import json
import sys

import pytest
import typer
from rich.text import Text

from bellwether_kafka.coordinator.cli.output import Console, Table, echo, fail, print_document

DOCUMENT = {"group": "orders", "lags": [1, None], "same": (pair := ["a", 1]), "again": pair, "moved": False}


def drawn(table: Table, width: int) -> list[str]:
    console = Console()
    console.width = width
    with console.capture() as shown:
        console.print(table)
    return shown.get().splitlines()


def table_of(*rows: tuple[str, ...]) -> Table:
    table = Table("group", "members")
    for row in rows:
        table.add_row(*row)
    return table


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"])
def test_a_pipe_is_no_terminal_whatever_the_environment_says(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Continuous integration sets these: tables were folded at 80 columns there, between escape sequences."""
    monkeypatch.setenv(variable, "1")
    console = Console()
    console.print(table_of(("orders", "m" * 200)))
    console.print(Text("a warning", "yellow"))
    assert capsys.readouterr().out == f"group   members\norders  {'m' * 200}\na warning\n"


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_has_colours_unless_no_color_is_set(
    no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    console = Console()
    with console.capture() as shown:
        console.print(Text("a warning", "yellow"))
    assert ("\x1b[33m" in shown.get()) is coloured


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    assert drawn(table_of(("orders", "a"), ("o", "bcd")), 80) == ["group   members", "orders  a", "o       bcd"]


def test_the_widest_column_gives_way_on_a_narrow_terminal() -> None:
    lines = drawn(table_of(("orders", "orders: 0-2; payments: 1-4,7")), 26)
    assert max(map(len, lines)) <= 26
    assert lines[1:] == ["orders  orders: 0-2;", "        payments: 1-4,7"]


def test_a_terminal_narrower_than_its_columns_still_shows_everything() -> None:
    lines = drawn(table_of(("orders", "abc")), 6)
    assert sum(line.count("r") for line in lines) == "groupmembersorders".count("r")


def test_wide_characters_take_two_columns() -> None:
    assert drawn(table_of(("注文", "a"), ("abc", "b")), 80)[1:] == ["注文   a", "abc    b"]


def test_what_clients_choose_is_no_order_to_a_terminal() -> None:
    assert drawn(table_of(("a\x1b[31m\n\r", "[bold]b[/bold]")), 80)[1] == "a\\x1b[31m\\n\\r  [bold]b[/bold]"


def test_an_empty_table_has_its_headings() -> None:
    assert drawn(Table("group", "state", title="0 groups"), 80) == ["0 groups", "group  state"]


def test_one_document_of_many_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        print_document(DOCUMENT, one_of_many=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [DOCUMENT, DOCUMENT]


def test_no_name_begins_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A group may be called anything: what follows a line feed would look like a sentence of Bellwether's."""
    forged = "orders\nPlan: nothing moves."
    echo(f"{forged}: 3 partitions move")
    with pytest.raises(typer.Exit):
        fail(f"The group {forged} is not there.")
    Console().print(Text(f"{forged}: classic, Stable"))
    Console().print(Text.assemble(("  ~ ", "yellow"), forged))
    table = Table("group")
    table.add_row(forged)
    Console().print(table)
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    assert len(lines) == 6
    assert not [line for line in lines if line.startswith("Plan:")]
