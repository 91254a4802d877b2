"""Settings from the text of a file."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.settings import Settings, SettingsError, load

BROKER = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092"}


def from_toml(folder: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    file = folder / "bellwether.toml"
    file.write_text(text)
    return load(file, environ=environ or {})


def complaint(folder: Path, text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        from_toml(folder, text, environ)
    return str(caught.value)
