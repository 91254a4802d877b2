"""Emptied processes that are about to stop, or away and expected back: an order to restart them without a pause.

Until then everything stays as it is. Such a process brings its copies back, and whoever had made them meanwhile would
close them again, which stops all tasks of a thread (docs/reference/client-quirks.md#java-streams-threads). While it
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
HeldBy = Mapping[ProcessId, Held]


def expected_copies(away: HeldBy, tasks: TaskMap, now_ms: int) -> tuple[IntArray, int | None]:
    """Per task how many copies expected processes have taken along, and until when (epoch ms) the first of them is
    expected; None where there is none."""
    copies: IntArray = np.zeros(tasks.table.size, dtype=np.int32)
    until_ms: list[int] = []
    for held in away.values():
        back_ms = None if held.emptied_ms is None else _expected_until_ms(held.went_ms, now_ms)
        if back_ms is not None:
            copies[existing_tasks(tasks, held, held.kept)] += 1
            until_ms.append(back_ms)
    return copies, min(until_ms, default=None)


def closes_until(here: Mapping[int, Held], processes: int, now_ms: int) -> LongArray:
    """Per process of this rebalance until when (epoch ms) it is expected to stop because it has been emptied; `now_ms`
    where it is not."""
    until_ms = np.full(processes, now_ms, dtype=np.int64)
    for process, held in here.items():
        stopped_ms = _expected_until_ms(held.emptied_ms, now_ms)
        if stopped_ms is not None:
            until_ms[process] = stopped_ms
    return until_ms


def _expected_until_ms(since_ms: int | None, now_ms: int) -> int | None:
    """None where that time is over, or never began. A clock that was set back makes nobody wait."""
    if since_ms is None or not 0 <= now_ms - since_ms < EXPECTED_MS:
        return None
    return since_ms + EXPECTED_MS


def existing_tasks(tasks: TaskMap, held: Held, marked: BoolArray) -> LongArray:
    """The marked tasks that still exist."""
    task = tasks.index(held.subtopology, held.partition)[marked]
    found: LongArray = task[task != NOBODY]
    return found
