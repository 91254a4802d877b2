"""The commands around the pipeline: what they print, and a user's mistakes as sentences."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bellwether_kafka.coordinator.cli import app, replay

RUNNER = CliRunner()


def test_mistakes_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "TIMEOUT_S", 0.2)
    missing = RUNNER.invoke(app, ["debug", "replay", str(tmp_path / "none")])
    assert missing.exit_code == 2
    assert "cannot be read" in missing.stderr
    absent = RUNNER.invoke(
        app, ["debug", "history", "--bootstrap", "nowhere", "--file", str(tmp_path / "h"), "--events-topic", "t"]
    )
    assert absent.exit_code == 2
    assert "Traceback" not in absent.output
