"""Whole numbers in text that people and clients write."""

DIGITS_MAX = 18  # what fits into 64 bits; the interpreter refuses to read thousands of digits


def whole_number(text: str) -> int | None:
    """The number, None where the text is anything but 1 to 18 ASCII digits. `str.isdigit` takes a superscript for a
    digit, which `int` refuses."""
    return int(text) if len(text) <= DIGITS_MAX and text.isascii() and text.isdigit() else None
