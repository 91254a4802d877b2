"""Which settings a command goes by: those of the group's name, or of the pattern that selects it."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.cli import Exit
from tests.kit.commands import ShownGroups, bellwether, consumers

ENTRIES = """
[kafka]
bootstrap.servers = "127.0.0.1:1"
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
def file(tmp_path: Path) -> str:
    path = tmp_path / "bellwether.toml"
    path.write_text(ENTRIES)
    return str(path)


@pytest.mark.parametrize(("group", "policy"), [("team-b", "rack-first"), ("team-a", "rack-first"), ("o", "kafka")])
def test_a_group_has_the_settings_of_its_pattern(group: str, policy: str, file: str, groups: ShownGroups) -> None:
    groups.show(consumers(1, 1, 1, 0, name=group))
    assert bellwether("plan", group, "--config", file).returncode == Exit.DONE
    assert groups.policies[group].name == policy


def test_two_equally_specific_patterns_end_the_command_but_not_one_about_all_groups(
    file: str, groups: ShownGroups
) -> None:
    ended = bellwether("plan", "another", "--config", file)
    assert ended.returncode == Exit.INPUT
    assert "Group another: the patterns an* and /^an/ are equally specific" in ended.stderr
    assert bellwether("groups", "--config", file).returncode == Exit.DONE
    assert groups.seen == {}


def test_without_a_file_a_group_is_what_it_is_called(groups: ShownGroups) -> None:
    groups.show(consumers(1, 1, 1, 0, name="odd*name"))
    ended = bellwether("plan", "odd*name", "--bootstrap", "127.0.0.1:1", BELLWETHER_GROUPS="elsewhere")
    assert ended.stdout.startswith("odd*name: policy kafka")
