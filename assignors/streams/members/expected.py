"""Processes that are about to stop, or went a moment ago and are expected back: emptied for a restart, or dead.

Until then everything stays as it is. Such a process brings its copies back, and whoever had made them meanwhile would
close them again, which stops all tasks of a thread (docs/reference/client-quirks.md#java-streams-threads). To open them
stops tasks as well, in the very rebalance in which others take over what a dead process ran. While an emptied one
closes its stores a rebalance would wait for it.
"""

from collections.abc import Mapping

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import TaskMap
from bellwether_kafka.assignors.streams.members.memory import Held
from bellwether_kafka.protocol.primitives import ProcessId

# Kafka's own session.timeout.ms: so long a group waits for a member that has closed. It counts anew when it is away.
EXPECTED_MS = 45_000
# What was not emptied. Units and containers that die are started again at once, and most are back by then; those that
# are not shall be replaced soon.
DIED_MS = 20_000
HeldBy = Mapping[ProcessId, Held]


def expected_copies(away: HeldBy, tasks: TaskMap, now_ms: int) -> tuple[IntArray, int | None]:
    """Per task how many copies expected processes have taken along, and until when (epoch ms) the first of them is
    expected; None where there is none."""
    copies: IntArray = np.zeros(tasks.table.size, dtype=np.int32)
    until_ms: list[int] = []
    for held in away.values():
        back_ms = back_until_ms(held, now_ms)
        if back_ms is not None:
            copies[existing_tasks(tasks, held, held.ran | held.kept)] += 1
            until_ms.append(back_ms)
    return copies, min(until_ms, default=None)


def back_until_ms(held: Held, now_ms: int) -> int | None:
    """Until when (epoch ms) a process that went is expected; None where nobody waits for it."""
    if held.evacuated_ms is None:
        return None
    return _until_ms(held.went_ms, DIED_MS if held.died else EXPECTED_MS, now_ms)


def closes_until(here: Mapping[int, Held], processes: int, now_ms: int) -> LongArray:
    """Per process of this rebalance until when (epoch ms) it is expected to stop because it has been emptied; `now_ms`
    where it is not."""
    until_ms = np.full(processes, now_ms, dtype=np.int64)
    for process, held in here.items():
        stopped_ms = _until_ms(held.evacuated_ms, EXPECTED_MS, now_ms)
        if stopped_ms is not None:
            until_ms[process] = stopped_ms
    return until_ms


def _until_ms(since_ms: int | None, wait_ms: int, now_ms: int) -> int | None:
    """None where that time is over, or never began. A clock that was set back makes nobody wait."""
    if since_ms is None or not 0 <= now_ms - since_ms < wait_ms:
        return None
    return since_ms + wait_ms


def existing_tasks(tasks: TaskMap, held: Held, marked: BoolArray) -> LongArray:
    """The marked tasks that still exist."""
    task = tasks.index(held.subtopology, held.partition)[marked]
    found: LongArray = task[task != NOBODY]
    return found
