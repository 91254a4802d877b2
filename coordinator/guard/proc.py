"""What /proc shows of other processes."""

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
# "kafka-coordinator-heartbeat-thread | <group>", of which Linux keeps so much. A consumer of Kafka's Java client has
# this thread from its first rebalance until it has closed.
HEARTBEAT_THREAD = "kafka-coordinat"


def descends(process: int, ancestor: int) -> bool:
    """Whether a process is this one or was started by it, directly or not."""
    with suppress(OSError, ValueError, IndexError):
        while process > 0:
            if process == ancestor:
                return True
            # The name, in brackets, may hold anything; the parent is the second field behind it.
            stat = (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
            process = int(stat.rpartition(")")[2].split()[1])
    return False


def sends_heartbeats(process: int) -> bool:
    """Whether a thread of a JVM sends the heartbeats of a consumer. Where that cannot be seen, one does."""
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
