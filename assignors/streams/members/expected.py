"""Processes that are about to stop, or just left and are expected back: evacuated for a restart, or dead.

Until they are back, nothing changes. Such a process brings its copies back, and other processes would close the copies
that they made in the meantime, which stops all tasks of a thread
(docs/internals/client-quirks.md#java-streams-threads). Opening copies stops tasks as well, in the rebalance in which
others take over the tasks of a dead process. And a rebalance would have to wait for an evacuated process that is
closing its stores.
"""

from collections.abc import Mapping

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import TaskMap
from bellwether_kafka.assignors.streams.members.memory import ProcessRecord
from bellwether_kafka.protocol.primitives import ProcessId

# Kafka's own session.timeout.ms: how long a group waits for a member that has closed. It starts anew when the process
# has left.
EXPECTED_MS = 45_000
# For processes that were not evacuated. A dead unit or container is restarted at once, and most are back by then; the
# others should be replaced soon.
DIED_MS = 20_000
ProcessRecords = Mapping[ProcessId, ProcessRecord]


def expected_copies(away: ProcessRecords, tasks: TaskMap, now_ms: int) -> tuple[IntArray, int | None]:
    """Returns, per task, how many copies are on processes that are expected back, and until when (epoch ms) the first
    of them is expected; None if there is none."""
    copies: IntArray = np.zeros(tasks.table.size, dtype=np.int32)
    until_ms: list[int] = []
    for record in away.values():
        back_ms = back_until_ms(record, now_ms)
        if back_ms is not None:
            copies[existing_tasks(tasks, record, record.ran | record.kept)] += 1
            until_ms.append(back_ms)
    return copies, min(until_ms, default=None)


def back_until_ms(record: ProcessRecord, now_ms: int) -> int | None:
    """Returns until when (epoch ms) a process that left is expected back; None if it is not."""
    if record.evacuated_ms is None:
        return None
    return _until_ms(record.went_ms, DIED_MS if record.died else EXPECTED_MS, now_ms)


def closes_until(here: Mapping[int, ProcessRecord], processes: int, now_ms: int) -> LongArray:
    """Returns, per process of this rebalance, until when (epoch ms) it is expected to stop because it has been
    evacuated; a time before `now_ms` if it has stayed for longer, `now_ms` if it is not expected to stop."""
    until_ms = np.full(processes, now_ms, dtype=np.int64)
    for process, record in here.items():
        since_ms = record.evacuated_ms
        if since_ms is not None and since_ms <= now_ms:
            until_ms[process] = _until_ms(since_ms, EXPECTED_MS, now_ms) or min(since_ms + EXPECTED_MS, now_ms - 1)
    return until_ms


def _until_ms(since_ms: int | None, wait_ms: int, now_ms: int) -> int | None:
    """Returns the end of the wait, None if it is over or never began. After a clock was set back, there is no wait."""
    if since_ms is None or not 0 <= now_ms - since_ms < wait_ms:
        return None
    return since_ms + wait_ms


def existing_tasks(tasks: TaskMap, record: ProcessRecord, marked: BoolArray) -> LongArray:
    """Returns the marked tasks that still exist."""
    task = tasks.index(record.subtopology, record.partition)[marked]
    existing: LongArray = task[task != NOBODY]
    return existing
