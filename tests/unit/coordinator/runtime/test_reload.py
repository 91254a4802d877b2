"""The configuration file is read again when it has changed or on request, and a mistake in it changes nothing."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import UnknownNameError
from bellwether_kafka.bounded import stamp_of
from bellwether_kafka.coordinator.runtime import SettingsFile
from bellwether_kafka.coordinator.runtime.reload import Reload
from bellwether_kafka.coordinator.settings import Settings, load

BROKER = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092"}


class Watched:
    """A file, and what was put in force."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / "bellwether.toml"
        self.path.write_text(text)
        self.reads = 0
        self.applied: list[Settings] = []
        file = SettingsFile(self.path, self._read)
        self.reload = Reload(self._read(), file, self._apply, interval_s=0.001, rest_s=0.001)

    def write(self, text: str) -> None:
        other = self.path.with_suffix(".new")
        other.write_text(text)
        other.replace(self.path)

    def refresh(self, *, asked: bool = False) -> list[dict[str, object]]:
        """What a refresh logs."""
        with capture_logs() as lines:
            asyncio.run(self.reload.refresh(asked=asked))
        return [dict(line) for line in lines]

    def _read(self) -> Settings:
        self.reads += 1
        return load(self.path, environ=BROKER)

    def _apply(self, settings: Settings) -> None:
        if any(group.policy == "nobody's" for group in settings.groups):
            raise UnknownNameError("The setting policy cannot be used.")
        self.applied.append(settings)


@pytest.fixture
def file(tmp_path: Path) -> Watched:
    return Watched(tmp_path, '[[groups]]\nname = "a"\n')


def test_a_file_that_is_the_same_is_not_read(file: Watched) -> None:
    assert file.refresh() == []
    assert file.reads == 1


def test_the_difference_is_put_in_force_and_logged(file: Watched) -> None:
    file.write('log_level = "debug"\n[[groups]]\nmatch = "team-*"\n[[groups]]\nname = "l"\nmode = "lead"\n')
    read, *waits = file.refresh()
    assert (read["event"], read["added"], read["removed"]) == ("configuration_read", ["team-*"], ["a"])
    assert [line["event"] for line in waits] == ["restart_needed", "restart_needed"]
    assert [str(line["reason"]).split(" ")[2] for line in waits] == ["log_level", "is"]
    (applied,) = file.applied
    assert [group.called for group in applied.groups] == ["team-*"]
    assert (file.reload.settings, applied.log_level) == (applied, "info")
    assert file.refresh() == []


def test_a_file_that_is_being_written_removes_no_group(tmp_path: Path) -> None:
    """As a shell or an editor writes it: first it is empty, then it has half of the groups."""
    whole = '[[groups]]\nname = "a"\n[[groups]]\nname = "b"\n'
    file = Watched(tmp_path, whole)
    stamps = iter([(1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0), (4, 0, 0), (4, 0, 0)])
    file.reload._stamp = lambda _: next(stamps)
    file.path.write_text("")
    assert file.refresh() == []
    file.path.write_text('[[groups]]\nname = "a"\n')
    assert file.refresh() == []
    file.path.write_text(whole + '[[groups]]\nname = "c"\n')
    (line,) = file.refresh()
    assert (line["event"], line["added"], line.get("removed")) == ("configuration_read", ["c"], None)


def test_a_file_system_that_hangs_does_not_hold_up_the_event_loop(file: Watched) -> None:
    threads: list[int] = []

    def stamp(_: Path) -> tuple[int, int, int]:
        threads.append(threading.get_ident())
        return len(threads), 0, 0

    file.reload._stamp = stamp
    file.refresh()
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def test_a_mistake_keeps_what_is_in_force_and_is_logged_once(file: Watched) -> None:
    before = file.reload.settings
    for text, message in (
        ("[[groups]]\nnam = 1\n", "The setting groups[0].nam does not exist; perhaps name is meant."),
        ("[[groups", "is not valid TOML"),
        ('[[groups]]\nname = "a"\npolicy = "nobody\'s"\n', "The setting policy cannot be used."),
    ):
        file.write(text)
        (line,) = file.refresh()
        assert (line["event"], line["log_level"]) == ("configuration_refused", "error")
        assert message in str(line["reason"])
        assert str(line["reason"]).endswith(" What was in force before stays in force.")
        assert file.refresh() == []
    assert file.reload.settings is before
    assert file.applied == []
    file.write('[[groups]]\nname = "b"\n')
    assert file.refresh()[0]["added"] == ["b"]


def test_a_file_that_is_gone_is_a_mistake_like_others(file: Watched) -> None:
    file.path.unlink()
    (line,) = file.refresh()
    assert "cannot be read (No such file or directory)" in str(line["reason"])


def test_who_asks_has_the_file_read_although_it_is_the_same(file: Watched) -> None:
    (line,) = file.refresh(asked=True)
    assert (line["event"], file.reads, file.applied) == ("configuration_read", 2, [])


def test_a_new_version_behind_links_is_seen(tmp_path: Path) -> None:
    """As Kubernetes changes a ConfigMap: the file is a link through `..data`, a link that is put in place anew."""
    for version, text in (("..1", "a"), ("..2", "b")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "c.toml").write_text(text)
        os.utime(tmp_path / version / "c.toml", ns=(10**18, 10**18))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "c.toml").symlink_to("..data/c.toml")
    before = stamp_of(tmp_path / "c.toml")
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert stamp_of(tmp_path / "c.toml") != before


async def test_it_refreshes_until_it_is_cancelled_and_errors_of_bellwether_are_not_the_end(
    file: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshes: list[bool] = []
    enough = asyncio.Event()

    async def refresh(*, asked: bool = False) -> None:
        refreshes.append(asked)
        if len(refreshes) == 3:
            enough.set()
        if len(refreshes) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(file.reload, "refresh", refresh)
    with capture_logs() as lines:
        task = asyncio.create_task(file.reload.run())
        file.reload.ask()
        await asyncio.wait_for(enough.wait(), 60)
        task.cancel()
    assert refreshes[:3] == [True, False, False]
    assert [line["event"] for line in lines] == ["configuration_not_reloaded"]
