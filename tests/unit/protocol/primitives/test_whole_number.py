"""What counts as a whole number in text."""

import pytest

from bellwether_kafka.protocol.primitives import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "1e3", "\u00b2", "\u0663", "9" * 19, "9" * 5000])
def test_anything_else_is_none(text: str) -> None:
    assert whole_number(text) is None
