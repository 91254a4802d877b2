"""Whose a state directory is: locks of real processes, as Java takes them."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.guard.state_directory import Lock, StateDirectory

HOLD = """
import fcntl, sys
held = open(sys.argv[1], "a+")
fcntl.lockf(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
PROCESS_ID = "00112233-4455-6677-8899-aabbccddeeff"


@contextmanager
def holding(directory: Path) -> Iterator[int]:
    """A process that holds the lock of the directory; its process number."""
    command = [sys.executable, "-c", HOLD, str(directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


def test_the_holder_of_the_lock_is_named_until_it_is_gone(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    assert directory.lock().holder is None, "no lock file yet"
    with holding(tmp_path) as process:
        assert directory.lock().holder == process
    assert directory.lock().holder is None


def test_a_file_that_was_made_anew_has_another_lock(tmp_path: Path) -> None:
    """Its directory was removed below a process that runs on: what others do there says nothing of it."""
    directory = StateDirectory(tmp_path)
    with holding(tmp_path) as process:
        first = directory.lock()
        (tmp_path / ".lock").unlink()
        assert directory.lock() == Lock(None)
        with holding(tmp_path):
            pass
        assert first.holder == process
        assert directory.lock().file not in (0, first.file)


def test_polling_takes_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert StateDirectory(tmp_path).lock().holder is None
    with holding(tmp_path):
        pass


def test_a_lock_that_cannot_be_read_counts_as_held(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert StateDirectory(tmp_path / "file").lock().holder == 0


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (f'{{"processId":"{PROCESS_ID}","version":1}}', PROCESS_ID),
        (f'{{"processId":"{PROCESS_ID}"', None),
        ("[]", None),
        ('{"processId":7}', None),
        ('{"processId":""}', None),
        ("", None),
    ],
)
def test_the_process_id_is_read_as_streams_writes_it(tmp_path: Path, written: str, read: str | None) -> None:
    directory = StateDirectory(tmp_path)
    assert directory.process_id() is None
    (tmp_path / "kafka-streams-process-metadata").write_text(written)
    assert directory.process_id() == read


PROCESS_FILE = "kafka-streams-process-metadata"


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_loop(path: Path) -> None:
    path.symlink_to(path)


def as_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def as_huge_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def as_deep_json(path: Path) -> None:
    path.write_text("[" * 9_000)


def as_digits(path: Path) -> None:
    path.write_text('{"processId":' + "9" * 9_000 + "}")


def as_escapes(path: Path) -> None:
    path.write_text('{"processId":"\\u001b[2J"}')


def as_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


NONSENSE = [as_pipe, as_loop, as_socket, as_huge_file, as_deep_json, as_digits, as_escapes, as_device, Path.mkdir]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", NONSENSE)
def test_nonsense_in_place_of_the_process_id_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / PROCESS_FILE)
    assert StateDirectory(tmp_path).process_id() is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [as_pipe, as_loop, as_socket, as_device, Path.mkdir])
def test_nonsense_in_place_of_the_lock_counts_as_held_and_is_named(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / ".lock")
    lock = StateDirectory(tmp_path).lock()
    assert lock.holder == 0
    assert lock.trouble.startswith(f"{tmp_path}/.lock cannot be read (")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [as_pipe, as_loop, as_huge_file])
def test_nonsense_in_place_of_the_directory_counts_as_held(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "app")
    assert StateDirectory(tmp_path / "app").process_id() is None
    assert StateDirectory(tmp_path / "app").lock().holder == 0
