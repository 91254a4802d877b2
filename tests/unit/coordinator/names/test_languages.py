"""A name comes back as it was from each language into which it is put, and acts on nothing on the way."""

import html
import subprocess
import tomllib

import pytest

from bellwether_kafka.coordinator.names import for_html, for_sentence, for_shell, for_terminal, for_toml
from tests.hostile_names import NAMES
from tests.seeds import together

NAMED = {ascii(name): name for name in NAMES}


@together("name", NAMED)
def test_a_terminal_shows_a_name_on_one_line_and_acts_on_nothing(name: str) -> None:
    assert for_terminal(name).isprintable()
    assert for_terminal(f"a\n{name}\tb", lines=True).replace("\n", "").replace("\t", "").isprintable()


def test_what_a_terminal_only_shows_stays_as_it_is() -> None:
    assert for_terminal("orders-é-\U0001f600 [b]") == "orders-é-\U0001f600 [b]"
    assert for_terminal("a\x1b[2J\u202eb\n") == "a\\x1b[2J\\u202eb\\n"


@together("name", {"": "", **NAMED})
def test_toml_reads_a_name_as_it_was(name: str) -> None:
    written = f"name = {for_toml(name)}"
    assert tomllib.loads(written) == {"name": name}
    assert written.isprintable()


def test_a_shell_reads_one_word_from_one_line() -> None:
    words = [name for name in NAMES if "\x00" not in name]  # no word of a shell can have it
    assert all(for_shell(name).isprintable() for name in NAMES)
    line = " ".join(["printf '%s\\0'", *map(for_shell, words)])
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env=environment)
    assert ended.stdout.decode().split("\0") == [*words, ""]


@together("name", NAMED)
def test_html_shows_a_name_and_nothing_else(name: str) -> None:
    assert "<" not in for_html(name)
    assert html.unescape(for_html(name)) == for_terminal(name, lines=True)


def test_what_can_be_printed_is_printed_as_it_is_beside_what_cannot() -> None:
    assert for_terminal("Käse\\\x1b\n日本", lines=True) == "Käse\\\\x1b\n日本"
    assert for_terminal("Käse\n") == "Käse\\n"


HIDDEN = ["\u3164", "\u2800", "\u115f", "\ufe0f", "\u034f", "\u200b", "\xa0", "\ufeff", "\u180b", "\u180f"]


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
def test_what_shows_nothing_is_shown_in_every_language(hidden: str) -> None:
    """`az1` and `az1` with a filler behind it looked alike."""
    assert for_terminal(f"az1{hidden}") == f"az1{hidden.encode('unicode_escape').decode()}"
    assert hidden not in for_sentence(f"az1{hidden}")
    assert tomllib.loads(f"name = {for_toml(hidden)}") == {"name": hidden}
    for written in (for_toml(hidden), for_shell(hidden), for_html(hidden)):
        assert hidden not in written


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("az1", "az1"),
        ("az 1", "az 1"),
        ("az1 ", "'az1 '"),
        (" az1", "' az1'"),
        ("az  1", "'az  1'"),
        ("", "''"),
        ("az1\t", "'az1\\t'"),
    ],
)
def test_blanks_that_would_not_be_seen_are_between_quotes(name: str, shown: str) -> None:
    assert for_sentence(name) == shown
