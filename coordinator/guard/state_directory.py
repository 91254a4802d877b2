"""The state directory of a Kafka Streams application: whose it is, and the process id in it.

A Streams process with persistent stores takes a lock on `.lock` in `<state.dir>/<application id>` before it reads or
writes its process id there, and holds it until it has closed or died. The lock is one of POSIX (fcntl), so the kernel
says which process holds it, without taking it: a lock of Bellwether's could make an application fail that
just starts.
"""

import fcntl
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

LOCK_FILE = ".lock"
PROCESS_FILE = "kafka-streams-process-metadata"
FILE_BYTES_MAX = 10_000

# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi0q")


@dataclass(frozen=True, slots=True)
class Lock:
    """`holder` is the process that holds it: 0 if it is one that Bellwether cannot see (of another pid namespace or
    host), None if there is none. `file` is the inode of the lock file, 0 without one. A file that was made anew has
    another lock."""

    holder: int | None
    file: int = 0


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """`path` is `<state.dir>/<application id>`; it need not exist yet."""

    path: Path

    def process_id(self) -> str | None:
        """As its last process has written it; None while there is none."""
        try:
            with (self.path / PROCESS_FILE).open("rb") as source:
                found = json.loads(source.read(FILE_BYTES_MAX))
        except (OSError, ValueError):
            return None
        process_id = found.get("processId") if isinstance(found, dict) else None
        return process_id if isinstance(process_id, str) and process_id else None

    def lock(self) -> Lock:
        try:
            descriptor = os.open(self.path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return Lock(None)
        except OSError:
            return Lock(0)
        try:
            file = os.fstat(descriptor).st_ino
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        except OSError:
            return Lock(0)
        finally:
            os.close(descriptor)
        return Lock(None if kind == fcntl.F_UNLCK else max(0, process), file)
