"""Escapes text so that a terminal, a shell, TOML, HTML or a URL takes it literally. Pure."""

import html
import shlex


def for_terminal(text: str, *, lines: bool = False) -> str:
    """Returns the text with control and format characters, on which a terminal would act, as escapes (`\\x1b`).

    With `lines`, line feeds and tabs stay; without, the result is one line.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(char if char.isprintable() or char in kept else _escaped(char) for char in text)


def for_shell(word: str) -> str:
    """Returns one word of a command line to paste. A word with control characters is written as `$'...'`, which bash,
    zsh and ksh read, so that the command stays on one line."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_in_ansi_c(char) for char in word) + "'"


def for_toml(text: str) -> str:
    """Returns a TOML basic string with its quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else _unicode(ord(char)) for char in escaped) + '"'


def for_html(text: str) -> str:
    """Returns text for an element or a quoted attribute. Control characters are shown as escapes."""
    return html.escape(for_terminal(text, lines=True))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _in_ansi_c(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else _unicode(ord(char))


def _unicode(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
