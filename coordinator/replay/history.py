"""Reads and writes history files, to which `bellwether debug history` copies the events topic.

A history file consists of Avro events in single-object encoding, each preceded by its length as 4 bytes, big endian. Or
it is JSON for other tools, with one event per line, its name as "event", and bytes as hexadecimal. Records that are not
events are counted and skipped.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.bounded import OutsideTextError, json_of, lines_of, read_small, records_of
from bellwether_kafka.coordinator.events import EventError, SchemaSet
from bellwether_kafka.protocol.primitives import TopicPartition

LENGTH_BYTES = 4
RECORD_BYTES_MAX = 64 << 20
LINE_BYTES_MAX = 2 * RECORD_BYTES_MAX  # bytes are hexadecimal in JSON


class HistoryError(Exception):
    """A history cannot be used. The message is one sentence."""


@dataclass(slots=True)
class History:
    """The events of a history file. `snapshots` (of consumer groups), `rebalances` (of applications), `assignments`
    (parts of plans) and `decisions` are by group. `sources` are those of decisions by group, generation and time.
    `refused` counts skipped records by reason. The traffic of partitions is summed up for `weights`."""

    snapshots: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    rebalances: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    assignments: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    sources: dict[tuple[str, int, int], str] = field(default_factory=dict)
    decisions: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[str] = field(default_factory=Counter)
    _bytes: Counter[TopicPartition] = field(default_factory=Counter)
    _ms: Counter[TopicPartition] = field(default_factory=Counter)

    def take(self, schemas: SchemaSet, value: bytes) -> None:
        try:
            event, record = schemas.decode(value)
        except EventError as error:
            self.refused[error.kind] += 1
            return
        self._take(event, record)

    def take_json(self, line: bytes) -> None:
        try:
            record = json_of(line)
            event = record.pop("event")
            if event == "snapshot":
                for member in record["members"]:
                    member["metadata"] = bytes.fromhex(member["metadata"])
            if event == "round":
                record["inputs"] = bytes.fromhex(record["inputs"])
            self._take(event, record)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.refused["not an event"] += 1

    def _take(self, event: str, record: dict[str, Any]) -> None:
        by_group = {"snapshot": self.snapshots, "round": self.rebalances, "assignment": self.assignments}
        if event in by_group:
            by_group[event][record["group"]].append(record)
        elif event == "decision":
            self.sources[record["group"], record["generation"], record["decided_at_ms"]] = record["source"]
            self.decisions[record["group"]].append(record)
        elif event == "traffic":
            for entry in record["entries"]:
                if entry["bytes"] >= 0 and record["sampled_at_ms"] > record["since_ms"]:
                    partition = TopicPartition(entry["topic"], entry["partition"])
                    self._bytes[partition] += entry["bytes"]
                    self._ms[partition] += record["sampled_at_ms"] - record["since_ms"]

    def weights(self) -> Weights:
        """Returns the mean bytes per second of each partition over all its recorded traffic."""
        return Weights({p: 1000.0 * total / self._ms[p] for p, total in self._bytes.items()})


def read_history(path: Path) -> History:
    """Reads a history file. Raises HistoryError if it cannot be read, ends within a record or has no snapshot."""
    history, schemas = History(), SchemaSet.load()
    try:
        if _is_json(path):
            for line in lines_of(path, LINE_BYTES_MAX):
                history.take_json(line)
        else:
            for value in records_of(path, LENGTH_BYTES, RECORD_BYTES_MAX):
                history.take(schemas, value)
    except OSError as error:
        raise HistoryError(f"The history {path} cannot be read ({error.strerror}); check the path.") from error
    except OutsideTextError as error:
        raise HistoryError(f"The history {path} is damaged: {error}; record it again.") from None
    if not history.snapshots and not history.rebalances:
        raise HistoryError(f"The history {path} holds no snapshot; record one with `bellwether debug history`.")
    return history


def write_history(path: Path, values: Iterable[bytes]) -> int:
    """Writes records to a history file. Returns their number."""
    count = 0
    with path.open("wb") as out:
        for value in values:
            out.write(len(value).to_bytes(LENGTH_BYTES, "big") + value)
            count += 1
    return count


def write_json_lines(path: Path, values: Iterable[bytes]) -> int:
    """Writes records as JSON lines. Returns their number."""
    count, schemas = 0, SchemaSet.load()
    with path.open("w", encoding="utf-8") as out:
        for value in values:
            event, record = schemas.decode(value)
            out.write(json.dumps({"event": event, **record}, default=bytes.hex) + "\n")
            count += 1
    return count


def _is_json(path: Path) -> bool:
    """Returns whether the file is JSON. A binary file never begins with "{", since its first length would exceed the
    limit."""
    return read_small(path, 1)[0] == b"{"
