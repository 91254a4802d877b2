"""The state directory of a Kafka Streams application: which process holds it, the process id in it, and whether Streams
has closed while its process lives on.

A Streams process with persistent stores locks `.lock` in `<state.dir>/<application id>` before it reads or writes its
process id there, and holds the lock until it has closed or died. It is a POSIX lock (fcntl), so the kernel reports
which process holds it. The guard does not take the lock itself: that could make an application fail that is just
starting.
"""

import fcntl
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from bellwether_kafka.bounded import json_of, opened, read_small
from bellwether_kafka.coordinator.guard.proc import sends_heartbeats

LOCK_FILE = ".lock"
PROCESS_FILE = "kafka-streams-process-metadata"
FILE_BYTES_MAX = 10_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi0q")


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock of a state directory.

    `holder`: the process that holds it; 0 if that process is not visible (it is in another pid namespace or on another
    host) or the lock cannot be read; None if no process holds it. `file`: the inode of the lock file, 0 without one; a
    file that is created again has another lock. `trouble`: why the lock cannot be read, "" if it can.
    """

    holder: int | None
    file: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """A state directory. `path` is `<state.dir>/<application id>`; it need not exist yet."""

    path: Path

    @property
    def process_file(self) -> Path:
        return self.path / PROCESS_FILE

    def process_id(self) -> str | None:
        """Returns the process id that the last Streams process has written, None without a valid one."""
        try:
            written, _ = read_small(self.process_file, FILE_BYTES_MAX)
            content = json_of(written)
        except (OSError, ValueError):
            return None
        process_id = content.get("processId") if isinstance(content, dict) else None
        return process_id if isinstance(process_id, str) and _UUID.fullmatch(process_id) else None

    def lock(self) -> Lock:
        try:
            descriptor = opened(self.path / LOCK_FILE)
        except FileNotFoundError:
            return Lock(None)
        except OSError as error:
            return Lock(0, trouble=f"{self.path / LOCK_FILE} cannot be read ({error.strerror})")
        try:
            file = os.fstat(descriptor).st_ino
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        except OSError as error:
            return Lock(0, trouble=f"the lock of {self.path / LOCK_FILE} cannot be read ({error.strerror})")
        finally:
            os.close(descriptor)
        return Lock(None if kind == fcntl.F_UNLCK else max(0, process), file)


@dataclass(frozen=True, slots=True)
class RunningStreams:
    """Kafka Streams while the process held its state directory. `heartbeats`: a heartbeat thread was seen."""

    lock: Lock
    process_id: str | None = None
    heartbeats: bool = False


def updated(before: RunningStreams | None, directory: StateDirectory, lock: Lock) -> RunningStreams:
    """Returns what is known with this lock, which the process holds. A lock that differs from the previous one belongs
    to a new start of Streams."""
    streams = before if before is not None and before.lock == lock else RunningStreams(lock)
    if streams.process_id and streams.heartbeats:
        return streams
    heartbeats = streams.heartbeats or sends_heartbeats(lock.holder or 0)
    return RunningStreams(lock, streams.process_id or directory.process_id(), heartbeats)


def has_closed(streams: RunningStreams, lock: Lock) -> bool:
    """Returns whether Streams has closed, although its process may live on.

    Streams releases its lock when all its threads have ended (`KafkaStreams#close`, also after an exception). A process
    also loses the lock if it opens and closes the lock file again, so in addition a heartbeat thread must have been
    seen and be gone.
    """
    given_back = lock.holder is None and lock.file == streams.lock.file
    return given_back and streams.heartbeats and not sends_heartbeats(streams.lock.holder or 0)
