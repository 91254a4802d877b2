"""Whole numbers in text from users and clients."""

DIGITS_MAX = 18  # what fits into 64 bits; the interpreter refuses to parse thousands of digits


def whole_number(text: str) -> int | None:
    """Returns the number, None unless the text is 1 to 18 ASCII digits. (`str.isdigit` accepts a superscript, which
    `int` refuses.)"""
    return int(text) if len(text) <= DIGITS_MAX and text.isascii() and text.isdigit() else None
