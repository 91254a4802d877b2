"""Files that outlive a restart: how they are written."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.control import write_state


def test_a_state_file_is_on_the_disk_before_it_replaces_the_last_one_and_so_is_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure the hand-back was gone, or its file empty."""
    synced: list[tuple[str, bool]] = []
    path = tmp_path / "handed-back.json"

    def fsync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_state(path, "{}")
    assert path.read_text() == "{}"
    (aside, _), _ = synced
    assert (aside != path.name, synced) == (True, [(aside, False), (tmp_path.name, True)])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_processes_with_one_process_id_do_not_write_into_one_state_file(tmp_path: Path) -> None:
    """Each is process 1 of its container, and they share a volume: one failed, or the file had parts of both."""
    path, texts = tmp_path / "rhythms.json", [str(number) * 1_000_000 for number in range(4)]
    with ThreadPoolExecutor(len(texts)) as containers:
        for _ in range(5):
            list(containers.map(write_state, [path] * len(texts), texts))
            assert path.read_text() in texts
