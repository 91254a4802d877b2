"""The records of the control topic that were read last. A topic that was deleted and created again gets them again:
they remain in force, and without them no command would show or withdraw them.

An instance that had not read a withdrawal before the topic was deleted writes the record again, so the others withdraw
it again. A withdrawal that none of them had read is lost; so is the newest version of a record if an instance that had
read only an older one writes that, since the clocks of operators cannot tell which is newer. Any thread may call
this."""

import threading

from bellwether_kafka.coordinator.control.records import InstanceHeartbeat, Record

AGAIN_MS = 5_000  # a producer may not know a new topic yet, so what is not read back is written again
ATTEMPTS_MAX = 12


class KeptRecords:
    """All records but heartbeats, which are written anew in any case."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._lacking: dict[str, Record] = {}  # of the new log, as far as it was read
        self._withdrawn: dict[str, Record] = {}
        self._attempts = 0
        self._due_ms = 0
        self._withdrawn_again: dict[str, tuple[int, int]] = {}  # by key: how often, and when last
        self._lock = threading.Lock()

    def take(self, key: str, record: Record | None) -> None:
        """Takes one record in the order of the log; None for one that withdraws the key."""
        if record is None:
            self.withdraw(key)
        elif not isinstance(record, InstanceHeartbeat):
            with self._lock:
                self._lacking.pop(key, None)
                self._records[key] = record

    def withdraw(self, key: str) -> None:
        """Withdraws a key at once: the log may be deleted before its tombstone is written."""
        with self._lock:
            self._lacking.pop(key, None)
            record = self._records.pop(key, None)
            if record is not None:
                self._withdrawn[key] = record

    def begin_anew(self) -> None:
        """Begins a new log. Call this when the log is read from its start again."""
        with self._lock:
            self._lacking, self._attempts, self._due_ms = dict(self._records), 0, 0
            self._withdrawn_again.clear()

    def due(self, now_ms: int) -> list[tuple[str, Record | None]]:
        """Returns, at the end of a log, what is to be written: records by key, None for those to withdraw again."""
        again: list[tuple[str, Record | None]] = [(key, None) for key in self.written_again(now_ms)]
        return [*again, *((record.key, record) for record in self.lacking(now_ms))]

    def lacking(self, now_ms: int) -> list[Record]:
        """Returns, at the end of a new log, the records that it lacks and that have not expired; the same again after
        AGAIN_MS, until they are read, or ATTEMPTS_MAX times."""
        with self._lock:
            if not self._lacking or self._attempts >= ATTEMPTS_MAX or 0 < self._due_ms - now_ms <= AGAIN_MS:
                return []
            self._attempts, self._due_ms = self._attempts + 1, now_ms + AGAIN_MS
            return [record for record in self._lacking.values() if now_ms < record.expires_ms]

    def written_again(self, now_ms: int) -> list[str]:
        """Returns the keys of withdrawn records that another instance has written again; each again after AGAIN_MS,
        until the withdrawal is read, or ATTEMPTS_MAX times."""
        with self._lock:
            self._withdrawn = {key: record for key, record in self._withdrawn.items() if now_ms < record.expires_ms}
            back = [key for key, record in self._withdrawn.items() if self._records.get(key) == record]
            due = [key for key in back if self._is_due(key, now_ms)]
            for key in due:
                self._withdrawn_again[key] = (self._withdrawn_again.get(key, (0, 0))[0] + 1, now_ms)
            return due

    def _is_due(self, key: str, now_ms: int) -> bool:
        times, last_ms = self._withdrawn_again.get(key, (0, now_ms - AGAIN_MS))
        return times < ATTEMPTS_MAX and not 0 <= now_ms - last_ms < AGAIN_MS
