"""Which settings a command goes by: those of the group's name, or of the pattern that selects it."""

from pathlib import Path

import pytest
import typer

from bellwether_kafka.coordinator.cli.options import group_settings, settings_for

ENTRIES = """
[kafka]
bootstrap.servers = "b:9092"
[[groups]]
match = "team-*"
policy = "rack-first"
[[groups]]
match = "/^team-a|x/"
[[groups]]
match = "an*"
[[groups]]
match = "/^an/"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bellwether.toml"
    path.write_text(ENTRIES)
    return path


@pytest.mark.parametrize(
    ("group", "policy", "named"),
    [("team-b", "rack-first", True), ("team-a", "rack-first", True), ("o", "kafka", False)],
)
def test_a_group_has_the_settings_of_its_pattern(file: Path, group: str, policy: str, named: bool) -> None:
    settings, configured = settings_for(None, file, group)
    assert configured is named
    assert (group_settings(settings, group).name, group_settings(settings, group).policy) == (group, policy)


def test_two_equally_specific_patterns_end_the_command(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        settings_for(None, file, "another")
    assert "Group another: the patterns an* and /^an/ are equally specific" in capsys.readouterr().err


def test_they_are_no_trouble_to_a_command_about_all_groups(file: Path) -> None:
    assert "any".startswith("an")
    settings, _ = settings_for(None, file, "any")
    assert settings.properties == {"bootstrap.servers": "b:9092"}


def test_without_a_file_a_group_is_what_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_GROUPS", "elsewhere")
    settings, configured = settings_for("b:9092", None, "odd*name")
    assert (configured, settings.groups[0].name) == (False, "odd*name")
