"""Patterns of source topics, with the meaning that Java's regular expressions have for topic names.

What Java and Python write alike is passed on, character by character: literals, ".", "|", groups, look-arounds,
anchors, quantifiers, classes, \\d and \\w. \\Q..\\E is written out. Everything else is refused with what to write
instead, because a pattern that is nearly right takes topics from an application, or gives it others.
"""

import re
from functools import lru_cache

# The parts of a pattern outside of classes, tried in this order.
_PARTS = re.compile(
    r"(?P<quantifier>(?:[?*+]|\{\d{1,9}(?:,(?:\d{1,9})?)?\})[?+]?)"
    r"|(?P<group>\(\?(?:i?:|[=!>]|<[=!]))"
    r"|\(\?<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|(?P<alike>\\[dDwWsSAbB]|\((?!\?)|[|).])"
    r"|(?P<end>\\[zZ]|\$)"
    r"|(?P<begin>\^)"
    r"|\\(?P<escaped>[^a-zA-Z0-9])"
    r"|(?P<literal>[^\\(\[{])",
    re.ASCII | re.DOTALL,
)
_CHAR = r"(?:\\[^a-zA-Z0-9]|[^\\\[\]&])"
_CLASS = re.compile(
    rf"(?P<range>{_CHAR}-{_CHAR})|(?P<alike>\\[dDwWsS])|(?P<char>{_CHAR})(?!-[^\]])|(?P<and>&)(?!&|-)", re.DOTALL
)
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
# What a part that is refused begins with, and what to write instead.
_REMEDIES = (
    (re.compile(r"(?:\[[^\]&]*)?\\[pP]"), r"write the characters, such as [a-z] for \p{Lower}"),
    (re.compile(r"\[[^\]]*(?:&&|\[)"), "write all characters in one class, such as [a-wyz] for [a-z&&[^x]]"),
    (re.compile(r"\\[1-9k]"), r"write all cases, such as (?:a-a|b-b) for (a|b)-\1"),
    (re.compile(r"\(\?[a-zA-Z-]+[:)]"), "write (?i) at the beginning, or (?i:...) around a part"),
    (re.compile(r"\{|\[[^\]]*\Z"), "put a backslash before it, or close it"),
    (re.compile(r""), "write the characters themselves"),
)


class PatternError(ValueError):
    """Raised for the part of a pattern that cannot be translated. The message is a sentence part."""


@lru_cache(maxsize=1024)
def translated(pattern: str) -> re.Pattern[str]:
    """Returns the pattern for `fullmatch`, which then behaves like Java's `Matcher.matches()`. Raises PatternError."""
    if "\n" in pattern or "\r" in pattern:
        raise PatternError("it has a line break")
    text = _QUOTED.sub(_unquoted, pattern)
    caseless = text.startswith("(?i)")
    at, parts = 4 * caseless, []
    while at < len(text):
        if text[at] == "[":
            part, at = _class(text, at)
        elif match := _PARTS.match(text, at):
            part, at = _translation(match), match.end()
        else:
            raise _refused(text, at)
        parts.append(part)
    try:
        return re.compile("".join(parts), re.ASCII | (re.IGNORECASE if caseless else 0))
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"it has no translation: {error}") from error


def _translation(part: re.Match[str]) -> str:
    if part["name"]:
        return "("  # without back references a name means nothing
    if part["end"] or part["begin"]:
        return r"\Z" if part["end"] else r"\A"
    return part["quantifier"] or part["group"] or part["alike"] or re.escape(part["escaped"] or part["literal"])


def _class(text: str, begin: int) -> tuple[str, int]:
    """Returns (the class that begins here, where it ends)."""
    at = begin + 1
    negated = text.startswith("^", at)
    at += negated
    items: list[str] = []
    while not text.startswith("]", at):
        item = _CLASS.match(text, at)
        if not item:
            raise _refused(text, begin)
        if span := item["range"]:
            # Its middle is the dash after the first character, which is two long behind a backslash.
            middle = 2 if span[0] == "\\" else 1
            items.append(f"{_escaped(span[:middle])}-{_escaped(span[middle + 1 :])}")
        else:
            items.append(item["alike"] or _escaped(item["char"] or item["and"]))
        at = item.end()
    if not items:
        raise _refused(text, begin)
    return f"[{'^' * negated}{''.join(items)}]", at + 1


def _escaped(char: str) -> str:
    return re.escape(char[-1])


def _unquoted(match: re.Match[str]) -> str:
    """Puts a backslash before each sign between \\Q and \\E; other escapes stay."""
    return match[0] if match[1] is None else re.sub(r"([^a-zA-Z0-9])", r"\\\1", match[1])


def _refused(text: str, at: int) -> PatternError:
    rest = text[at:]
    remedy = next(remedy for begins, remedy in _REMEDIES if begins.match(rest))
    return PatternError(f"{rest[:20]!r} at position {at} has no translation; {remedy}")
