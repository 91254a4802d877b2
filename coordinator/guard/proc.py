"""Reads /proc for other processes."""

import os
import time
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
# "kafka-coordinator-heartbeat-thread | <group>", truncated by Linux. A consumer of Kafka's Java client has this thread
# from its first rebalance until it has closed.
HEARTBEAT_THREAD = "kafka-coordinat"


def descends(process: int, ancestor: int) -> bool:
    """Returns whether `process` is `ancestor` or one of its descendants."""
    with suppress(OSError, ValueError, IndexError):
        while process > 0:
            if process == ancestor:
                return True
            process = int(_fields(process)[_PARENT])
    return False


def lives(process: int) -> bool:
    """Returns whether this is the id of a process, not of a thread, that has not ended."""
    with suppress(OSError, ValueError, IndexError):
        return _fields(process)[_STATE] not in _ENDED and (PROC / str(process) / "task" / str(process)).exists()
    return False


def began_at(process: int) -> float | None:
    """Returns when the process began, in seconds since 1970 by the current clock; None if it has ended."""
    with suppress(OSError, ValueError, IndexError):
        began_s = int(_fields(process)[_BEGAN]) / os.sysconf("SC_CLK_TCK")
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    return None


# Fields of /proc/PID/stat, counted from behind the name, which is in brackets and may contain any character.
_STATE, _PARENT, _BEGAN = 0, 1, 19
_ENDED = ("Z", "X")


def _fields(process: int) -> list[str]:
    stat = (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()


def sends_heartbeats(process: int) -> bool:
    """Returns whether the process has a heartbeat thread of a Java consumer; True if its threads cannot be read."""
    try:
        threads = list((PROC / str(process) / "task").iterdir())
    except FileNotFoundError:
        return False  # the process has ended
    except OSError:
        return True
    return any(_name(thread) == HEARTBEAT_THREAD for thread in threads)


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended
    except OSError:
        return HEARTBEAT_THREAD
