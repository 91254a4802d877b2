"""The records of the control topic that were read last. A topic that was deleted and created again gets them again:
they remain in force, and without them no command would show or withdraw them.

A log that is read from its start again, which may also be one that lost its end, has records that were replaced or
withdrawn later. They must not come into force for a moment, so only the last of each key counts, at the log's end.

An instance that had not read a withdrawal before the topic was deleted writes the record again, so the others withdraw
it again, and such a record does not count for them. The same holds for an older version of a record: those that had
read a newer one write that again. They recognise the older one because they have read it in an earlier log, since the
clocks of operators cannot show which is newer. Within one log its order decides, the same for all. A withdrawal or a
version that none of them had read is lost. Any thread may call this."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.control.records import InstanceHeartbeat, Record

AGAIN_MS = 5_000  # a producer may not know a new topic yet, so what is not read back is written again
ATTEMPTS_MAX = 12
VERSIONS_MAX = 8  # of a record


@dataclass(slots=True)
class _Writes:
    """How often each key has been written to a log, and when last, in epoch milliseconds."""

    _made: dict[str, tuple[int, int]] = field(default_factory=dict)

    def due(self, keys: Iterable[str], now_ms: int) -> list[str]:
        """Returns the keys to write now, and counts them: each again after AGAIN_MS, ATTEMPTS_MAX times."""
        due = []
        for key in keys:
            times, last_ms = self._made.get(key, (0, now_ms - AGAIN_MS))
            if times < ATTEMPTS_MAX and not 0 <= now_ms - last_ms < AGAIN_MS:
                self._made[key] = times + 1, now_ms
                due.append(key)
        return due


class KeptRecords:
    """All records but heartbeats, which are written anew in any case. Methods return what counts for the process."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._lacking: dict[str, Record] = {}  # of the new log, as far as it was read
        self._versions: dict[str, tuple[Record, ...]] = {}  # that were read of each record, since it was withdrawn
        self._earlier: dict[str, tuple[Record, ...]] = {}  # versions of earlier logs
        self._withdrawn: dict[str, tuple[Record, ...]] = {}
        self._back: dict[str, Record] = {}  # withdrawn ones that were written again
        self._pending: dict[str, Record | None] | None = None  # of a log that is read again, until its end
        self._written, self._withdrawn_again = _Writes(), _Writes()
        self._lock = threading.Lock()

    def take(self, key: str, record: Record | None) -> dict[str, Record | None]:
        """Takes one record in the order of the log; None for one that withdraws the key. Returns what counts now."""
        if record is None:
            self.withdraw(key)
        with self._lock:
            if record is not None and not isinstance(record, InstanceHeartbeat):
                record = self._counts(key, record)
            if self._pending is None:
                return {key: record}
            self._pending.pop(key, None)
            self._pending[key] = record
            return {}

    def _counts(self, key: str, record: Record) -> Record | None:
        """Returns what counts after this record: the last version, or none, if it is an older or a withdrawn one that
        is written again."""
        last = self._records.get(key)
        is_older = record != last and record in self._earlier.get(key, ())
        if is_older or record in self._withdrawn.get(key, ()):
            if last is None:
                self._back[key] = record
            else:
                self._lacking[key] = last
            return last
        if record != last:
            self._versions[key] = (*self._versions.get(key, ()), record)[-VERSIONS_MAX:]
        self._lacking.pop(key, None)
        self._back.pop(key, None)
        self._records[key] = record
        return record

    def at_end(self) -> dict[str, Record | None]:
        """Returns, at the end of a log that was read again, what counts of it."""
        with self._lock:
            pending, self._pending = self._pending, None
            return pending or {}

    def withdraw(self, key: str) -> None:
        """Withdraws a key at once: the log may be deleted before its tombstone is written."""
        with self._lock:
            for place in (self._lacking, self._back, self._records):
                place.pop(key, None)
            withdrawn = (*self._withdrawn.get(key, ()), *self._versions.pop(key, ()))
            if withdrawn:
                self._withdrawn[key] = withdrawn[-VERSIONS_MAX:]

    def begin_anew(self) -> None:
        """Begins a new log. Call this when the log is read from its start again."""
        with self._lock:
            self._lacking, self._pending, self._earlier = dict(self._records), {}, dict(self._versions)
            self._written, self._withdrawn_again = _Writes(), _Writes()

    def due(self, now_ms: int) -> list[tuple[str, Record | None]]:
        """Returns, at the end of a log, what is to be written: records by key, None for those to withdraw again."""
        self._expire(now_ms)
        again: list[tuple[str, Record | None]] = [(key, None) for key in self.written_again(now_ms)]
        return [*again, *((record.key, record) for record in self.lacking(now_ms))]

    def lacking(self, now_ms: int) -> list[Record]:
        """Returns, at the end of a new log, the records that it lacks and that have not expired; the same again after
        AGAIN_MS, until they are read, or ATTEMPTS_MAX times."""
        with self._lock:
            lacking = {key: record for key, record in self._lacking.items() if now_ms < record.expires_ms}
            return [lacking[key] for key in self._written.due(lacking, now_ms)]

    def written_again(self, now_ms: int) -> list[str]:
        """Returns the keys of withdrawn records that another instance has written again; each again after AGAIN_MS,
        until the withdrawal is read, or ATTEMPTS_MAX times."""
        with self._lock:
            back = [key for key, record in self._back.items() if now_ms < record.expires_ms]
            return self._withdrawn_again.due(back, now_ms)

    def _expire(self, now_ms: int) -> None:
        with self._lock:
            self._versions, self._earlier, self._withdrawn = (
                _unexpired(records, now_ms) for records in (self._versions, self._earlier, self._withdrawn)
            )


def _unexpired(records: Mapping[str, Iterable[Record]], now_ms: int) -> dict[str, tuple[Record, ...]]:
    lasting = ((key, tuple(each for each in versions if now_ms < each.expires_ms)) for key, versions in records.items())
    return {key: versions for key, versions in lasting if versions}
