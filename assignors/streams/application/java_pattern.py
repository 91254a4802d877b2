"""Translates Java's regular expressions, with Java's meaning, for topic names only.

Topic names have 65 possible characters, so every character class is written out as the set that Java accepts. Parts
without an exact counterpart, or whose meaning differs between versions of Java, are refused.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from bellwether_kafka.assignors.streams.application.java_classes import (
    ALPHABET,
    CASE_CLASSES,
    PREDEFINED,
    TITLE_CASE,
    Chars,
    named_class,
)

_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_QUANTIFIER = re.compile(r"(?:[?*+]|\{\d{1,9}(?:,(?:\d{1,9})?)?\})[?+]?")
_GROUP = re.compile(r"\((\?(?:[:=!>]|<[=!]|P?<[a-zA-Z][a-zA-Z0-9]*>))?")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|0([0-3]?[0-7]{1,2})")
_PROPERTY = re.compile(r"[pP](?:\{(\^?)([^{}]+)\}|([A-Z]))")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_ANCHORS = {"A": r"\A", "z": r"\Z", "Z": r"\Z", "b": r"\b", "B": r"\B"}
_WITHOUT_EFFECT = frozenset("dmsuU")  # these concern lines, which no name has, and letters beyond ASCII


class PatternError(ValueError):
    """Raised for the part of a pattern that cannot be translated. The message is a sentence part."""


@lru_cache(maxsize=1024)
def translated(pattern: str) -> re.Pattern[str]:
    """Returns the pattern for `fullmatch`, which then behaves like Java's `Matcher.matches()`. Raises PatternError."""
    if "\n" in pattern or "\r" in pattern:
        raise PatternError("it has a line break")
    reader = _Reader(_QUOTED.sub(_unquoted, pattern))
    text = reader.alternatives(depth=0)
    if reader.rest:
        raise PatternError(f"{reader.rest[:20]!r} closes no group")
    try:
        return re.compile(text, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"it has no translation: {error}") from error


def _unquoted(match: re.Match[str]) -> str:
    """Replaces the characters between \\Q and \\E by numeric escapes; other escapes stay."""
    return match[0] if match[1] is None else "".join(f"\\x{{{ord(char):x}}}" for char in match[1])


@dataclass(slots=True)
class _Reader:
    """A pattern being read. `caseless`: flag i is on at this position."""

    text: str
    at: int = 0
    caseless: bool = False
    groups: int = 0
    names: set[str] = field(default_factory=set)

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def next(self, what: str) -> str:
        if self.at >= len(self.text):
            raise PatternError(f"{what} has no end")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self, depth: int) -> str:
        """Translates up to the end, or to the bracket that closes the group."""
        if depth > 100:
            raise PatternError("its groups are nested too deeply")
        parts: list[str] = []
        while self.rest and not self.peek(")"):
            if self.peek("|"):
                self.at += 1
                parts.append("|")
                continue
            begin = self.at
            atom = self.atom(depth)
            if quantifier := self.take(_QUANTIFIER):
                if atom is None or self.take(_QUANTIFIER):
                    raise PatternError(f"{self.text[begin : self.at]!r} repeats nothing that can be repeated")
                atom = f"(?:{atom}){quantifier[0]}"
            parts.append(atom or "")
        return "".join(parts)

    def atom(self, depth: int) -> str | None:
        """Translates one element. Returns None for flags, which cannot be repeated."""
        if self.peek("(?") and (flags := self.take(_FLAGS)) and not (flags[3] == ":" and not flags[1] and not flags[2]):
            return self.flagged(flags, depth)
        if self.peek("(?:") or self.peek("("):
            return self.group(depth)
        char = self.next("it")
        if char == "[":
            return _set(self.char_class(depth))
        if char == "\\":
            return self.escape()
        if char in "*+?{":
            raise PatternError(f"{char!r} at position {self.at - 1} repeats nothing")
        return {".": _set(ALPHABET), "^": r"\A", "$": r"\Z"}.get(char) or self.literal(char)

    def flagged(self, flags: re.Match[str], depth: int) -> str | None:
        """Handles flags for the rest of the group, or for a group of their own."""
        on, off, before = flags[1], flags[2] or "", self.caseless
        if unexpected := sorted({*on, *off} - _WITHOUT_EFFECT - {"i"}):
            raise PatternError(f"flag {unexpected[0]!r} of {flags[0]!r} has no translation")
        self.caseless = "i" not in off and (self.caseless or "i" in on)
        if flags[3] == ")":
            return None
        return f"(?:{self.closed(flags[0], before, depth)})"

    def group(self, depth: int) -> str:
        begin, before = self.at, self.caseless
        opened = self.take(_GROUP)
        kind = opened[1] if opened else None
        if kind is None and self.peek("?"):
            raise PatternError(f"group {self.text[begin : begin + 8]!r} has no translation")
        self.groups += kind is None or (kind[-1] == ">" and "<" in kind)
        if kind is None:
            return f"({self.closed('(', before, depth)})"
        if kind[-1] == ">" and "<" in kind:
            name = kind[kind.index("<") + 1 : -1]
            self.names.add(name)
            return f"(?P<{name}>{self.closed(kind, before, depth)})"
        return f"({kind}{self.closed(kind, before, depth)})"

    def closed(self, opened: str, caseless_before: bool, depth: int) -> str:
        inside = self.alternatives(depth + 1)
        if not self.peek(")"):
            raise PatternError(f"group {opened!r} is not closed")
        self.at += 1
        self.caseless = caseless_before
        return inside

    def escape(self) -> str:
        """Translates an escape outside of a character class."""
        begin = self.at - 1
        if (chars := self.escaped_set()) is not None:
            return _set(chars)
        if (code := self.coded()) is not None:
            return self.literal(code)
        char = self.next("the escape at the end")
        if char in _ANCHORS and not self.peek("{"):
            return _ANCHORS[char]
        if char == "R":
            return _set(frozenset())
        if char.isdecimal() and char.isascii() and char != "0":
            return self.reference(char)
        if char == "k" and (named := self.take(re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>"))) and named[1] in self.names:
            return self.repeated(f"(?P={named[1]})", named[0])
        if char.isascii() and not char.isalnum():
            return self.literal(char)
        raise PatternError(f"{self.text[begin : self.at + 1]!r} at position {begin} has no translation")

    def reference(self, digits: str) -> str:
        """Translates a reference to a group by number. As in Java, it takes as many digits as there are groups for."""
        while self.rest[:1].isdecimal() and int(digits + self.rest[0]) <= self.groups:
            digits += self.next("it")
        if int(digits) > self.groups:
            raise PatternError(f"'\\{digits}' refers to no group before it")
        return self.repeated(f"(?:\\{digits})", f"\\{digits}")

    def repeated(self, text: str, part: str) -> str:
        if self.caseless:
            raise PatternError(f"{part!r} under flag i has no translation")
        return text

    def escaped_set(self) -> Chars | None:
        """Returns the characters of a predefined class or a property, None if another escape follows."""
        if match := self.take(_PROPERTY):
            return self.property(match)
        if self.text[self.at : self.at + 1] in PREDEFINED:
            return PREDEFINED[self.next("it")]
        return None

    def property(self, match: re.Match[str]) -> Chars:
        name = match[2] or match[3]
        chars = None if match[1] else named_class(name)
        if chars is None:
            raise PatternError(f"class '\\{match[0]}' has no translation")
        if self.caseless and (chars in CASE_CLASSES or name.removeprefix("Is").lower() in TITLE_CASE):
            raise PatternError(f"class '\\{match[0]}' under flag i differs between versions of Java")
        return ALPHABET - chars if match[0][0] == "P" else chars

    def coded(self) -> str | None:
        """Returns the character of an escape with its number or letter, None for other escapes."""
        if match := self.take(_HEX):
            value = match[1] or match[2] or match[3]
            number = int(value, 16) if value else int(match[4], 8)
            if number > 0x10FFFF:
                raise PatternError(f"'\\{match[0]}' is no character")
            return chr(number)
        if self.text[self.at : self.at + 1] in _CONTROLS:
            return _CONTROLS[self.next("it")]
        return None

    def literal(self, char: str) -> str:
        return _set(self.cased(char)) if self.caseless else re.escape(char)

    def cased(self, char: str) -> Chars:
        """Returns the character, in both cases under flag i."""
        if self.caseless and not char.isascii():
            raise PatternError(f"{char!r} under flag i has no translation")
        return frozenset({char, char.lower(), char.upper()}) if self.caseless else frozenset({char})

    def char_class(self, depth: int) -> Chars:
        """Reads a class after "[", up to its "]". Java 8 and 9 differ in what "^" negates if a class has several
        parts."""
        begin = self.at - 1
        negated = self.peek("^")
        self.at += negated
        if depth > 100 or self.peek("]") or self.peek("&&") or self.peek(":"):
            raise self.unclear(begin)
        result, compound = self.union(begin, depth, alone=False)
        while self.peek("&&"):
            self.at += 2
            if self.peek("&"):
                raise self.unclear(begin)
            operand, _ = self.union(begin, depth, alone=True)
            result, compound = result & operand, True
        self.next(f"class {self.text[begin : begin + 20]!r}")
        if negated and compound:
            raise self.unclear(begin)
        return ALPHABET - result if negated else result

    def union(self, begin: int, depth: int, *, alone: bool) -> tuple[Chars, bool]:
        """Returns (the characters up to "&&" or "]", whether there is a nested class). With `alone`, a nested class
        must be the only item, because Java drops it if something follows it behind "&&"."""
        chars: set[str] = set()
        nested = items = 0
        while not self.peek("]") and not self.peek("&&"):
            items += 1
            if self.peek("["):
                self.at += 1
                nested += 1
                chars |= self.char_class(depth + 1)
            else:
                chars |= self.item(begin)
        if not items or (alone and nested and items > 1):
            raise self.unclear(begin)
        return frozenset(chars), nested > 0

    def item(self, begin: int) -> Chars:
        """Returns the characters of a single character, a range or a predefined class."""
        if self.peek("\\"):
            self.at += 1
            if (chars := self.escaped_set()) is not None:
                return chars
            self.at -= 1
        first = self.char(begin)
        if not self.peek("-") or self.text[self.at + 1 : self.at + 2] in ("", "[", "]"):
            return self.cased(first)
        self.at += 1
        last = self.char(begin)
        if last < first or not (first.isascii() and last.isascii()):
            raise self.unclear(begin)
        return frozenset().union(*(self.cased(chr(code)) for code in range(ord(first), ord(last) + 1)))

    def char(self, begin: int) -> str:
        char = self.next(f"class {self.text[begin : begin + 20]!r}")
        if char != "\\":
            return char
        if (code := self.coded()) is not None:
            return code
        char = self.next("the escape at the end")
        if char.isalnum() or not char.isascii():
            raise self.unclear(begin)
        return char

    def unclear(self, begin: int) -> PatternError:
        return PatternError(f"class {self.text[begin : max(self.at + 1, begin + 8)]!r} has no translation")


def _set(chars: Chars) -> str:
    """Returns an expression for these characters, or one that never matches if a topic name can have none of them."""
    legal = sorted(chars & ALPHABET)
    return f"[{''.join(map(re.escape, legal))}]" if legal else "(?!)"
