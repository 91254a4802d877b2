"""Java's named character classes, restricted to the characters that topic names can have, all of them ASCII."""

import string
import unicodedata

Chars = frozenset[str]
LOWER, UPPER, DIGITS = (frozenset(chars) for chars in (string.ascii_lowercase, string.ascii_uppercase, string.digits))
LETTERS = LOWER | UPPER
SIGNS = frozenset("._-")
ALPHABET = LETTERS | DIGITS | SIGNS
NONE: Chars = frozenset()
WORD = LETTERS | DIGITS | {"_"}

PREDEFINED = {
    "d": DIGITS,
    "D": ALPHABET - DIGITS,
    "w": WORD,
    "W": ALPHABET - WORD,
    "s": NONE,
    "S": ALPHABET,
    "h": NONE,
    "H": ALPHABET,
    "v": NONE,
    "V": ALPHABET,
}
CASE_CLASSES = (LOWER, UPPER)  # under flag i they differ between versions of Java, as do those in TITLE_CASE
TITLE_CASE = frozenset({"lt", "titlecase", "javatitlecase", "gc=lt", "general_category=lt"})
_POSIX = {
    "Lower": LOWER,
    "Upper": UPPER,
    "ASCII": ALPHABET,
    "Alpha": LETTERS,
    "Digit": DIGITS,
    "Alnum": LETTERS | DIGITS,
    "Punct": SIGNS,
    "Graph": ALPHABET,
    "Print": ALPHABET,
    "Blank": NONE,
    "Cntrl": NONE,
    "XDigit": frozenset(string.hexdigits),
    "Space": NONE,
}
_OF_CHARACTER = {
    "javaLowerCase": LOWER,
    "javaUpperCase": UPPER,
    "javaAlphabetic": LETTERS,
    "javaLetter": LETTERS,
    "javaDigit": DIGITS,
    "javaLetterOrDigit": LETTERS | DIGITS,
    "javaWhitespace": NONE,
    "javaSpaceChar": NONE,
    "javaISOControl": NONE,
    "javaMirrored": NONE,
    "javaTitleCase": NONE,
    "javaIdeographic": NONE,
}
_BINARY = {
    "ALPHABETIC": LETTERS,
    "LETTER": LETTERS,
    "LOWERCASE": LOWER,
    "UPPERCASE": UPPER,
    "TITLECASE": NONE,
    "DIGIT": DIGITS,
    "PUNCTUATION": SIGNS,
    "WHITE_SPACE": NONE,
    "CONTROL": NONE,
    "IDEOGRAPHIC": NONE,
    "ASSIGNED": ALPHABET,
    "LATIN": LETTERS,
    "COMMON": DIGITS | SIGNS,
}
_SCRIPTS = {"LATIN": LETTERS, "LATN": LETTERS, "COMMON": DIGITS | SIGNS, "ZYYY": DIGITS | SIGNS}
_CATEGORIES = frozenset(
    [
        "L",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "M",
        "Mn",
        "Mc",
        "Me",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "S",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Z",
        "Zs",
        "Zl",
        "Zp",
        "C",
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
    ]
)


def named_class(name: str) -> Chars | None:
    """Returns the characters of \\p{name}, None if the class is not supported here."""
    key, equals, value = name.partition("=")
    if equals:
        if key.lower() in ("sc", "script"):
            return _SCRIPTS.get(value.upper())
        return _category(value) if key.lower() in ("gc", "general_category") else None
    if name in ("InBasicLatin", "InBasic_Latin", "InBASIC_LATIN", "all", "ALL", "L1"):
        return ALPHABET
    if name.startswith("Is"):
        bare = name.removeprefix("Is")
        return _BINARY.get(bare.upper(), _category(bare))
    return _POSIX.get(name, _OF_CHARACTER.get(name, _category(name)))


def _category(name: str) -> Chars | None:
    if name in ("LC", "LD"):
        return LETTERS if name == "LC" else LETTERS | DIGITS
    return frozenset(c for c in ALPHABET if unicodedata.category(c).startswith(name)) if name in _CATEGORIES else None
