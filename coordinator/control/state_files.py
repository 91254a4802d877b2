"""Files in which a process keeps what must outlive a restart without a control topic: where they are, how they are
written, and that of hand-backs. A container without a persistent folder has the control topic for hand-backs.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import structlog

from bellwether_kafka.bounded import json_of, read_small
from bellwether_kafka.coordinator.control.handed_back import HandedBack
from bellwether_kafka.coordinator.control.record_codec import RecordError, decode
from bellwether_kafka.coordinator.control.records import Record

FILE_BYTES_MAX = 10_000_000
WRITE_S = 5.0  # what a stop waits for the disk

log = structlog.get_logger(__name__)


class HandBackFile:
    """A JSON file of hand-backs by key. It is kept beside the control topic, too, which a process may have no right to.
    There is one file per set of brokers, since two clusters may have groups of the same name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_by_one = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    def read(self) -> tuple[HandedBack, ...]:
        """Returns the hand-backs, none if there is no file. A file that cannot be read is logged."""
        try:
            return tuple(self._kept().values())
        except OSError as error:
            log.warning("hand_backs_not_read", reason=str(error), remedy=f"make {self._path} a file that can be read")
            return ()

    def keep(self, record: HandedBack) -> None:
        """Writes a record in a thread, because a disk may be slow. Call it in an event loop, and `close` at its end."""
        task = asyncio.get_running_loop().create_task(self._keep(record))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _keep(self, record: HandedBack) -> None:
        async with self._one_by_one:
            await asyncio.to_thread(self.write, record)

    async def close(self) -> None:
        """Waits for what is being written."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=WRITE_S)

    def write(self, record: HandedBack) -> None:
        """Adds a record to the file, which may have others of other processes. A failure is logged: the record is then
        lost in a restart."""
        try:
            kept = {**self._kept(), record.key: record}
            write_state(self._path, json.dumps({key: each.to_json() for key, each in kept.items()}))
        except OSError as error:
            log.warning(
                "hand_back_not_kept", reason=str(error), remedy="give Bellwether a control topic, or set XDG_STATE_HOME"
            )

    def _kept(self) -> dict[str, HandedBack]:
        """Reads the file. Raises OSError if it exists and cannot be read: it must not be overwritten then."""
        with suppress(FileNotFoundError, ValueError, AttributeError):
            kept = _records(json_of(read_small(self._path, FILE_BYTES_MAX)[0]))
            return {record.key: record for _, record in kept if isinstance(record, HandedBack)}
        return {}


def state_file(kind: str, bootstrap: str, folder: Path | None = None) -> Path:
    """Returns the path of a state file for one set of brokers, in $XDG_STATE_HOME/bellwether or
    ~/.local/state/bellwether."""
    name = blake2b(",".join(sorted(_brokers(bootstrap))).encode(), digest_size=8).hexdigest()
    return (folder or state_folder()) / f"{kind}-{name}.json"


def write_state(path: Path, text: str) -> None:
    """Writes a state file atomically, since another process may read it meanwhile, and waits until it is on the disk:
    it is for a restart, perhaps of the machine. Raises OSError."""
    # Not by the process id, which processes of containers that share a volume may have in common.
    aside = path.with_suffix(f".{secrets.token_hex(8)}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)  # of a write that failed, as on a full disk
    with suppress(OSError):  # some file systems refuse this of a folder, and one may be written but not read
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def state_folder() -> Path:
    """Returns the folder for state files of this user."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base:  # for a user without a home this stays "~", a relative folder
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return Path(base) / "bellwether"


def _records(answer: Mapping[str, Any]) -> Iterable[tuple[str, Record]]:
    for key, value in answer.items():
        with suppress(RecordError):
            record = decode(key.encode(), json.dumps(value).encode())
            if record is not None:
                yield key, record


def _brokers(bootstrap: str) -> frozenset[str]:
    return frozenset(broker.strip().lower() for broker in bootstrap.split(","))
