"""Mistakes of a user of `bellwether init` that need no brokers: exit code 2, one sentence, and no file."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.cli import Exit
from tests.kit.commands import bellwether


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "There is no terminal to ask for the brokers; use --bootstrap."),
        (("--yes",), "There is no terminal to ask for the brokers; use --bootstrap."),
        (("--bootstrap", "b:1"), "ask for the login; use --property, or --yes for none."),
        (("--bootstrap", "b:x", "--yes"), "The property bootstrap.servers cannot be used"),
        (("--yes", "--property", "sasl.password=hunter2"), "use sasl.password.file=PATH."),
        (("--bootstrap", "b:1", "--property", "sasl.password.file=/no"), "cannot be read"),
        (("--out", "nowhere/b.toml"), "The folder nowhere does not exist"),
        (("--out", "there.toml"), "The file there.toml exists; use --overwrite"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.toml").write_text("kept", encoding="utf-8")
    ended = bellwether("init", *arguments)
    assert (ended.returncode, ended.stdout) == (Exit.INPUT, "")
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "hunter2" not in ended.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["there.toml"]
    assert (tmp_path / "there.toml").read_text(encoding="utf-8") == "kept"


def test_brokers_of_the_environment_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = bellwether("init", BELLWETHER_KAFKA_BOOTSTRAP_SERVERS="b:1")
    assert "to ask for the login" in ended.stderr


def test_a_login_of_the_environment_is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:1", "BELLWETHER_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}
    ended = bellwether("init", **variables)
    assert "sasl.mechanism is not set" in ended.stderr
