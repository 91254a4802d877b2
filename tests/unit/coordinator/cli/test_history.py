"""The commands around the pipeline: what they print, and a user's mistakes as sentences."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bellwether_kafka.coordinator.cli import app, replay
from bellwether_kafka.coordinator.replay import write_history
from tests.kit.plans import LOADS, recorded_consumers, traffic

RUNNER = CliRunner()


@pytest.mark.slow
def test_simulate_recommends_a_policy(tmp_path: Path) -> None:
    path = tmp_path / "history"
    write_history(path, [*recorded_consumers([3, 4]), traffic(LOADS), b"junk"])
    done = RUNNER.invoke(app, ["simulate", "--history", str(path)])
    assert done.exit_code == 0
    assert done.stdout.startswith("Recommended: load-aware.")
    assert "1 records were left out: not an event." in done.stderr
    as_json = RUNNER.invoke(app, ["simulate", "--history", str(path), "--policy", "kafka", "--output", "json"])
    (row,) = json.loads(as_json.stdout)
    assert (row["policy"], row["snapshots"], row["failed"]) == ("kafka", 2, 0)


def test_mistakes_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "TIMEOUT_S", 0.2)
    write_history(tmp_path / "some", recorded_consumers([3]))
    unknown = RUNNER.invoke(app, ["simulate", "--history", str(tmp_path / "some"), "--policy", "fast"])
    assert unknown.exit_code == 2
    assert "The policy fast is not known" in unknown.stderr
    missing = RUNNER.invoke(app, ["simulate", "--history", str(tmp_path / "none")])
    assert missing.exit_code == 2
    assert "cannot be read" in missing.stderr
    absent = RUNNER.invoke(app, ["history", "--bootstrap", "nowhere", "--file", str(tmp_path / "h"), "--topic", "t"])
    assert absent.exit_code == 2
    assert "Traceback" not in absent.output
