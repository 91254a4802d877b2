"""What a file that has changed puts in force, and what waits for a restart: names, and never a value."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.settings import Settings, change
from tests.kit.commands import from_toml

HEAD = '[kafka]\nbootstrap.servers = "b:1"\nsasl.password = "hunter2"\n'


def settings(folder: Path, *entries: str, top: str = "", head: str = HEAD) -> Settings:
    return from_toml(folder, top + head + "".join(f"[[groups]]\n{entry}\n" for entry in entries))


def names(change_found: Settings) -> list[str]:
    return [group.called for group in change_found.groups]


def test_what_is_the_same_changes_nothing(tmp_path: Path) -> None:
    old = settings(tmp_path, 'name = "a"', 'match = "x*"', 'name = "l"\nmode = "lead"')
    changes = change(old, settings(tmp_path, 'name = "l"\nmode = "lead"', 'match = "x*"', 'name = "a"'))
    assert not changes.groups_differ
    assert (changes.added, changes.removed, changes.changed, changes.restart) == ((), (), (), ())


def test_observed_groups_change_at_once(tmp_path: Path) -> None:
    old = settings(tmp_path, 'name = "a"', 'name = "b"', 'match = "x*"')
    new = settings(tmp_path, 'name = "b"\npolicy = "rack-first"', 'match = "x*"\nexclude = ["xx"]', 'match = "y*"')
    changes = change(old, new)
    assert (changes.added, changes.removed) == (("y*",), ("a",))
    assert changes.changed == ("b (policy)", "x* (exclude)")
    assert changes.settings == new
    assert changes.groups_differ
    assert changes.restart == ()


@pytest.mark.parametrize(
    ("before", "after", "kept", "message"),
    [
        (
            'name = "g"\nmode = "lead"',
            'name = "g"\nmode = "lead"\npolicy = "rack-first"',
            ["o", "g"],
            "Group g is led, and its settings are read at the start only (policy); restart to use them.",
        ),
        (
            'name = "g"\nmode = "lead"',
            "",
            ["o", "g"],
            "Group g has been removed but goes on being led until the process ends; restart to end it.",
        ),
        (
            "",
            'name = "g"\nmode = "lead"',
            ["o"],
            "Group g is to be led, which begins at a start only; restart to begin.",
        ),
        (
            'name = "g"',
            'name = "g"\nmode = "assist"',
            ["o", "g"],
            "Group g is to be assisted (mode), which begins at a start only; restart to begin.",
        ),
        (
            'name = "g"\nmode = "lead"',
            'name = "g"',
            ["o", "g"],
            "Group g is led, and its settings are read at the start only (mode); restart to use them.",
        ),
    ],
)
def test_groups_that_are_led_or_are_to_be_wait_for_a_restart(
    tmp_path: Path, before: str, after: str, kept: list[str], message: str
) -> None:
    old = settings(tmp_path, 'name = "o"', *filter(None, [before]))
    changes = change(old, settings(tmp_path, 'name = "o"', *filter(None, [after])))
    assert changes.restart == (message,)
    assert not changes.groups_differ
    assert sorted(names(changes.settings)) == sorted(kept)
    assert changes.settings.group("g") == old.group("g")


def test_settings_of_the_process_wait_for_a_restart_and_show_no_value(tmp_path: Path) -> None:
    old = settings(tmp_path, 'name = "a"')
    new = settings(
        tmp_path,
        'name = "a"',
        top='http_address = ""\n',
        head='[kafka]\nbootstrap.servers = "c:1"\nsasl.password = "hunter3"\n',
    )
    changes = change(old, new)
    assert changes.settings == old
    assert changes.restart == tuple(
        f"The setting {name} has changed and is read at the start only; restart to use it."
        for name in ("bootstrap.servers", "sasl.password", "http_address")
    )
    assert "hunter" not in repr(changes)
