"""What every Python member program shares: lines on stdin start and stop members, JSON lines on stdout report.

Stdin, tab separated: `join`, then key=value pairs (name, group, topics, assignors, rack, instance, session_ms, ...);
and `leave`, then name=... End of input or SIGTERM stops every member in good order. A report of consumed records is
written before these records can be committed, so that even a killed process has reported whatever it committed.
"""

import json
import signal
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType

_WRITING = threading.Lock()


def emit(event: str, member: str, **rest: object) -> None:
    line = json.dumps({"event": event, "member": member, **rest, "t_ms": int(time.time() * 1000)})
    with _WRITING:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def ranges(records: Iterable[tuple[str, int, int]]) -> list[list[str | int]]:
    """Folds (topic, partition, offset), in the order of consumption, into gapless [topic, partition, first, last]."""
    open_at: dict[tuple[str, int], list[str | int]] = {}
    folded: list[list[str | int]] = []
    for topic, partition, offset in records:
        current = open_at.get((topic, partition))
        if current is not None and current[3] == offset - 1:
            current[3] = offset
            continue
        current = [topic, partition, offset, offset]
        open_at[topic, partition] = current
        folded.append(current)
    return folded


class HostedMember(threading.Thread):
    """One consumer in one thread. A subclass consumes until `stopping` is set, and then leaves the group."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(name=fields["name"], daemon=True)
        self.fields = fields
        self.stopping = threading.Event()

    @abstractmethod
    def consume(self) -> None:
        """Joins, polls and reports until it is stopped; then leaves."""

    def run(self) -> None:
        try:
            self.consume()
        except Exception as error:  # noqa: BLE001 - whatever a client library raises is what the test wants to see
            emit("error", self.name, text=repr(error))
        emit("stopped", self.name)

    def moved(self, event: str, partitions: Iterable[tuple[str, int]]) -> None:
        emit(event, self.name, partitions=sorted([t, p] for t, p in partitions))

    def consumed(self, records: Sequence[tuple[str, int, int]]) -> None:
        """Reports these records. With the field `record_microseconds` each takes so many microseconds of work first."""
        if not records:
            return
        time.sleep(len(records) * int(self.fields.get("record_microseconds", "0")) / 1e6)
        emit("consumed", self.name, ranges=ranges(records))


def serve(make: Callable[[Mapping[str, str]], HostedMember]) -> None:
    """Runs members as stdin asks, until its end."""
    members: dict[str, HostedMember] = {}

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    try:
        for line in sys.stdin:
            verb, *pairs = line.rstrip("\n").split("\t")
            fields = dict(pair.split("=", 1) for pair in pairs)
            if verb == "join":
                members[fields["name"]] = make(fields)
                members[fields["name"]].start()
            elif verb == "leave" and fields["name"] in members:
                members.pop(fields["name"]).stopping.set()
    except SystemExit:
        pass  # SIGTERM: the same as the end of input
    for member in members.values():
        member.stopping.set()
    for member in members.values():
        member.join(timeout=10)
