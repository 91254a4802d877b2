"""Emptied processes that are away and expected back: an order to restart them without a pause.

Until then everything stays as it is. Such a process brings its copies back, and whoever had made them meanwhile would
close them again, which stops all tasks of a thread (docs/reference/client-quirks.md#java-streams-threads).
"""

from collections.abc import Mapping

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import TaskMap
from bellwether_kafka.assignors.streams.members.memory import Held
from bellwether_kafka.protocol.primitives import ProcessId

EXPECTED_MS = 45_000  # Kafka's own session.timeout.ms: so long a group waits for a member that has closed
HeldBy = Mapping[ProcessId, Held]


def expected_copies(away: HeldBy, tasks: TaskMap, now_ms: int) -> tuple[IntArray, int | None]:
    """Per task how many copies expected processes have taken along, and until when (epoch ms) the first of them is
    expected; None where there is none. A clock that was set back makes nobody wait."""
    copies: IntArray = np.zeros(tasks.table.size, dtype=np.int32)
    until_ms: list[int] = []
    for held in away.values():
        if held.emptied and held.went_ms is not None and 0 <= now_ms - held.went_ms < EXPECTED_MS:
            copies[existing_tasks(tasks, held, held.kept)] += 1
            until_ms.append(held.went_ms + EXPECTED_MS)
    return copies, min(until_ms, default=None)


def existing_tasks(tasks: TaskMap, held: Held, marked: BoolArray) -> LongArray:
    """The marked tasks that still exist."""
    task = tasks.index(held.subtopology, held.partition)[marked]
    found: LongArray = task[task != NOBODY]
    return found
