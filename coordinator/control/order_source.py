"""Where a process has its orders from. The control topic is the only place that keeps them: what a topic that was
deleted had is gone, for every process alike; what ended with it is named, so that it can be given again.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bellwether_kafka.coordinator.control.records import AnyOrder, InstanceHeartbeat, Record

OnRecord = Callable[[str, Record | None], None]
OnCaughtUp = Callable[[], None]
OnRefused = Callable[[], None]


class OrderSource(Protocol):
    """The source and destination of records. `topic` is its name, "" if there is none. Callbacks run in the event loop
    in which `start` was called: `on_caught_up` once, after all records found at the start; `on_refused` when brokers
    answer that the topic cannot be read or made, such as for want of a right."""

    topic: str

    def start(self, on_record: OnRecord, on_caught_up: OnCaughtUp, on_refused: OnRefused) -> None: ...
    def write(self, record: Record) -> None: ...
    def withdraw(self, key: str) -> None: ...
    async def close(self) -> None: ...


class NoTopic:
    """The source of a process without a control topic: it has no orders, and nobody reads what it writes."""

    topic = ""

    def start(self, _on_record: OnRecord, on_caught_up: OnCaughtUp, _on_refused: OnRefused) -> None:
        asyncio.get_running_loop().call_soon(on_caught_up)

    def write(self, record: Record) -> None: ...

    def withdraw(self, key: str) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class LastRecords:
    """The last record of each key. A log that is read from its start again has records that were replaced or withdrawn
    later. They must not come into force for a moment, so only the last of each key counts, at the log's end. `_again`
    are those of such a log, None while it is not read again."""

    _last: dict[str, Record] = field(default_factory=dict)
    _again: dict[str, Record | None] | None = None

    def take(self, key: str, record: Record | None) -> bool:
        """Takes one record in the order of the log; None for one that withdraws the key. Returns whether it counts
        now."""
        if self._again is not None:
            self._again[key] = record
            return False
        self._keep(key, record)
        return True

    def begin_again(self) -> None:
        """Call this when the log is read from its start again."""
        self._again = {}

    def at_end(self, now_ms: int) -> tuple[dict[str, Record | None], list[str]]:
        """Returns, at the end of a log, what counts from now on of one that was read again, None for each key that has
        ended; and the sentences of the orders that were in force and are not in it."""
        if self._again is None:
            return {}, []
        lost = {key: record for key, record in self._last.items() if key not in self._again}
        counts, self._again = {**dict.fromkeys(lost), **self._again}, None
        for key, record in counts.items():
            self._keep(key, record)
        return counts, list(_sentences(lost, now_ms))

    def _keep(self, key: str, record: Record | None) -> None:
        self._last.pop(key, None)
        if record is not None and not isinstance(record, InstanceHeartbeat):  # silence ends those
            self._last[key] = record


def _sentences(lost: dict[str, Record], now_ms: int) -> Iterator[str]:
    return (record.sentence for record in lost.values() if isinstance(record, AnyOrder) and now_ms < record.expires_ms)
