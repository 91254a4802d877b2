"""The records of the control topic that were read last. A topic that was deleted and created again gets them again:
they remain in force, and without them no command would show or withdraw them. Pure."""

from bellwether_kafka.coordinator.control.records import InstanceHeartbeat, Record


class KeptRecords:
    """All records but heartbeats, which are written anew in any case."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._lacking: dict[str, Record] = {}  # of the new log, as far as it was read

    def take(self, key: str, record: Record | None) -> None:
        """Takes one record in the order of the log; None for one that withdraws the key."""
        if isinstance(record, InstanceHeartbeat):
            return
        self._lacking.pop(key, None)
        self._records.pop(key, None)
        if record is not None:
            self._records[key] = record

    def begin_anew(self) -> None:
        """Call it where the log is read from its start again."""
        self._lacking = dict(self._records)

    def lacking(self, now_ms: int) -> list[Record]:
        """Returns once, at the end of a new log, the records that it lacks and that have not expired."""
        lacking, self._lacking = self._lacking, {}
        for key in lacking:
            del self._records[key]  # until they are read again
        return [record for record in lacking.values() if now_ms < record.expires_ms]
