"""Attendances that look often, and one of a Streams process whose lock the test holds."""

from dataclasses import replace
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.guard import attend, evacuation, state_directory
from bellwether_kafka.coordinator.guard.state_directory import Lock, StateDirectory
from tests.kit.membership import GROUP, P1
from tests.unit.coordinator.guard.stage import HOLDER, NAMED, GuardedDirectory, Holding


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    refreshes = (("UNSETTLED_S", 0.01), ("SETTLED_S", 0.01), ("DIRECTORY_POLL_S", 0.01))
    for name, value in (*refreshes, ("LEFT_S", 0.05), ("LEFT_POLL_S", 0.005)):
        monkeypatch.setattr(attend, name, value)
    monkeypatch.setattr(evacuation, "EMPTYING_POLL_S", 0.01)


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what a guard cannot do in time: the time is short. Everywhere else it is as long as in use, because the
    machine may be busy."""
    monkeypatch.setattr(attend, "END_S", 0.5)
    monkeypatch.setattr(evacuation, "WITHDRAW_S", 0.5)


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedDirectory:
    """Options for the state directory of the process P1, and who holds its lock."""
    directory = tmp_path / GROUP
    directory.mkdir()
    (directory / "kafka-streams-process-metadata").write_text(f'{{"processId":"{P1}"}}')
    lock: Holding = {"holder": HOLDER, "file": 7, "heartbeats": 1}
    monkeypatch.setattr(StateDirectory, "lock", lambda _: Lock(lock["holder"], lock["file"] or 0))
    monkeypatch.setattr(state_directory, "sends_heartbeats", lambda _: bool(lock["heartbeats"]))
    return replace(NAMED, client_ids=(), state_dir=tmp_path, fence=True), lock
