"""Escapes text so that a terminal, a shell, TOML, HTML or a URL takes it literally. Pure."""

import html
import re
import shlex
from collections.abc import Sequence

NAMES_SHOWN = 4  # of a list

# Characters that show nothing although they count as printable: fillers, joiners, variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)


def for_terminal(text: str, *, lines: bool = False) -> str:
    """Returns the text with escapes (`\\x1b`) for control and format characters, on which a terminal would act, and for
    characters that show nothing.

    With `lines`, line feeds and tabs stay; without, the result is one line.
    """
    if is_visible(text):
        return text
    kept = "\n\t" if lines else ""
    return "".join(char if is_visible(char) or char in kept else _escaped(char) for char in text)


def for_sentence(name: str) -> str:
    """Returns a name for a sentence or a cell: in quotes if it is empty, or has blanks that would not be seen."""
    plain = bool(name) and name == name.strip() and "  " not in name
    return for_terminal(name) if plain else f"'{for_terminal(name)}'"


def is_visible(text: str) -> bool:
    """Returns whether every character shows what it is, and a terminal acts on none."""
    return text.isprintable() and _INVISIBLE.search(text) is None


def for_shell(word: str) -> str:
    """Returns one word of a command line to paste. A word with control characters is written as `$'...'`, which bash,
    zsh and ksh read, so that the command stays on one line."""
    if is_visible(word):
        return shlex.quote(word)
    return "$'" + "".join(_in_ansi_c(char) for char in word) + "'"


def for_toml(text: str) -> str:
    """Returns a TOML basic string with its quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if is_visible(char) else _unicode(ord(char)) for char in escaped) + '"'


def for_html(text: str) -> str:
    """Returns text for an element or a quoted attribute. Control characters are shown as escapes."""
    return html.escape(for_terminal(text, lines=True))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _in_ansi_c(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if is_visible(char) else _unicode(ord(char))


def _unicode(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def counted(number: int, noun: str) -> str:
    """Returns a number with a noun, such as "1,234 partitions"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str], shown: int = NAMES_SHOWN) -> str:
    """Returns the first names as a sentence has them, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(for_sentence, names[:shown])) + more
