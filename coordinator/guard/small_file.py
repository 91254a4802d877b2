"""Small files that other programs write: read without waiting, and no further than they may be long."""

import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class NoFileError(OSError):
    """It is there, but no regular file."""


def opened(path: Path) -> int:
    """A descriptor of a regular file, to be closed. Raises OSError; what is no file at once, as a pipe that nobody
    writes to."""
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoFileError(0, "it is no regular file", str(path))
    return descriptor


def read_small(path: Path, bytes_max: int) -> tuple[bytes, float]:
    """The first bytes of a file, and when it was last written (seconds since 1970). Raises OSError."""
    descriptor = opened(path)
    try:
        return os.read(descriptor, bytes_max), os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
