"""Patterns of group ids: `team-a-*`, and regular expressions between slashes. Pure.

In a plain pattern `*` matches any text and `?` one character; every other character matches itself, and the
whole group id must fit. A regular expression is Python's and may fit anywhere in the group id; `^` and `$` tie it to
the ends.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

SLASH = "/"
WILDCARDS = {"*": ".*", "?": "."}
SPECIAL = frozenset(".^$*+?{}[]\\|()")
OPTIONAL = frozenset("*?{")  # these make the character before them optional
PATTERNS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern. `prefix`: how many fixed characters a group id begins with. `literal`: how many there are in all."""

    text: str
    regular: re.Pattern[str]
    prefix: int
    literal: int

    def fits(self, group_id: str) -> bool:
        return self.regular.search(group_id) is not None

    @property
    def precision(self) -> tuple[int, int]:
        """A measure of how specific the pattern is; greater is more specific. The fixed beginning counts first."""
        return self.prefix, self.literal


@lru_cache(PATTERNS_KEPT)
def pattern(text: str) -> Pattern:
    """Parses a pattern. Raises ValueError with a phrase if it is an invalid regular expression."""
    if is_regular(text):
        return _regular(text)
    plain = re.split(r"[*?]", text)
    translated = "".join(WILDCARDS.get(c) or re.escape(c) for c in text)
    regular = re.compile(rf"\A(?:{translated})\Z", re.DOTALL)
    return Pattern(text, regular, len(plain[0]), sum(map(len, plain)))


def is_regular(text: str) -> bool:
    return len(text) > 1 and text.startswith(SLASH) and text.endswith(SLASH)


def is_pattern(text: str) -> bool:
    """Returns whether a bare word is a pattern, for places that take only names, such as a variable."""
    return is_regular(text) or "*" in text


def _regular(text: str) -> Pattern:
    body = text[1:-1]
    try:
        compiled = re.compile(body)
    except re.error as error:
        raise ValueError(f"{text} is not a regular expression ({error}); correct it") from None
    begins = _beginning(body)
    return Pattern(text, compiled, begins, begins)


def _beginning(body: str) -> int:
    """Returns the number of fixed characters at the beginning; 0 for alternatives, which may begin with anything."""
    if not body.startswith("^") or "|" in body:
        return 0
    rest = body[1:]
    count = next((i for i, c in enumerate(rest) if c in SPECIAL), len(rest))
    vanishes = count < len(rest) and rest[count] in OPTIONAL
    return max(0, count - vanishes)
