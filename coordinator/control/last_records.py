"""The last record of each key of the control topic, which is the only place that keeps orders. What a topic that was
deleted had is gone, for every process alike; what ended with it is named, so that it can be given again.

A log that is read from its start again has records that were replaced or withdrawn later. They must not come into force
for a moment, so only the last of each key counts, at the log's end."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.control.records import AnyOrder, InstanceHeartbeat, Record


@dataclass(slots=True)
class LastRecords:
    """`_again` are those of a log that is read from its start again, None while it is not."""

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
