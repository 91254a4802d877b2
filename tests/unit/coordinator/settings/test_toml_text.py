"""Text as TOML writes it is read back as it was."""

import tomllib

import pytest

from bellwether_kafka.coordinator.settings.toml_text import quoted


@pytest.mark.parametrize(
    "text", ["", "orders", 'a "b"', "\\n", "two\nlines", "\x00\x7f", "é", "\U0001f600", "\U000e0001"]
)
def test_any_text_comes_back(text: str) -> None:
    written = f"name = {quoted(text)}"
    assert tomllib.loads(written) == {"name": text}
    assert written.isprintable()
