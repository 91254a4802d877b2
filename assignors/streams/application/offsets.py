"""End offsets of changelogs, their sums per task, and the lags of reports behind them.

docs/internals/streams.md#lags has the rules. Overflow is pinned to 2^63-1, as in Java.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.assignors.streams.application.task_views import (
    LATEST_OFFSET,
    PINNED,
    UNKNOWN_OFFSET_SUM,
    Subtopology,
)
from bellwether_kafka.assignors.streams.application.topology import Topology

MISSING = -1


@dataclass(frozen=True, slots=True, eq=False)
class EndOffsets:
    """End offsets by topic and partition as of `read_at_ms` (epoch). MISSING marks a partition without an answer. For a
    source topic reused as changelog they are the group's committed offsets (0 if none); for a changelog created in this
    rebalance they are 0. `failure` is why the query failed; then no offset is known."""

    ends: Mapping[str, LongArray] = field(default_factory=dict)
    read_at_ms: int = 0
    failure: str | None = None

    @classmethod
    def failed(cls, reason: str) -> "EndOffsets":
        return cls(failure=reason)


def wanted_offsets(topology: Topology, counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns (changelogs whose latest offsets are needed, source topics whose committed offsets are needed), each with
    its number of partitions. Topics missing in `counts` are left out."""
    sources = set(topology.source_topics)
    latest = {t: counts[t] for t in topology.changelogs if t not in sources and t in counts}
    committed = {t: counts[t] for t in topology.changelogs if t in sources and t in counts}
    return latest, committed


def end_sums(subtopology: Subtopology, tasks: int, ends: EndOffsets) -> LongArray | str:
    """Returns the sum of end offsets of each task of one subtopology, or a sentence part on what is missing. A source
    topic reused as changelog counts only for the partitions that it has."""
    total = np.zeros(tasks, dtype=np.int64)
    for topic in subtopology.changelogs:
        end = np.asarray(ends.ends.get(topic, ()), dtype=np.int64)[:tasks]
        own_source = topic in subtopology.sources
        if len(end) < tasks and not own_source:
            return f"no end offset of {topic}-{len(end)}"
        if len(end) and int(end.min()) < 0:
            return f"no end offset of {topic}-{int(np.argmax(end < 0))}"
        head = total[: len(end)]
        room = PINNED - head
        head[:] = np.where(end > room, PINNED, head + np.minimum(end, room))
    return total


def lags(offset_sum: LongArray, end_sum: LongArray, *, ends_known: bool) -> LongArray:
    """Converts the offset sums of reports to lags behind the end sums of their tasks. A sum beyond the end means a
    store that must be restored from scratch. Meaningless negative sums count as 0."""
    own = np.where((offset_sum < UNKNOWN_OFFSET_SUM) | (offset_sum == -1), 0, offset_sum)
    if ends_known:
        behind = np.where(own > end_sum, end_sum, end_sum - np.maximum(own, 0))
        return np.where(own < 0, own, behind)
    return np.where(own == LATEST_OFFSET, LATEST_OFFSET, UNKNOWN_OFFSET_SUM).astype(np.int64)
