"""What is true of groups, read with sockets and struct alone and with patience: a broker that does not answer is asked
again, and what lies between two answers is anything between them."""

import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.interop.support.raw import (
    DESCRIBE,
    FIND_COORDINATOR,
    METADATA,
    VERSIONS,
    Connection,
    GroupState,
    RawError,
    read_coordinator,
    read_description,
    read_metadata,
    request_coordinator,
    request_description,
    request_metadata,
    text,
)

OFFSET_FETCH, LIST_OFFSETS = 9, 2
VERSIONS |= {OFFSET_FETCH: 2, LIST_OFFSETS: 1}
ASK_S = 2.0
EVERY_S = 1.0
LATEST = -1

Partition = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample:
    """A group between `begun` and `ended` (epoch seconds); each of its parts may have been read at any moment of it."""

    begun: float
    ended: float
    state: str
    members: frozenset[str]
    instances: frozenset[str]
    committed: Mapping[Partition, int]
    ends: Mapping[Partition, int]


class Truth(threading.Thread):
    """Reads all groups about once a second until `end`. `topics_of` are what each group reads."""

    def __init__(self, bootstrap: str, topics_of: Mapping[str, Sequence[str]]) -> None:
        super().__init__(daemon=True)
        self._addresses = bootstrap.split(",")
        self._topics_of = topics_of
        self._connections: dict[tuple[str, int], Connection] = {}
        self._silent: set[tuple[str, int]] = set()  # not asked again before the next turn
        self._samples: dict[str, list[Sample]] = {group: [] for group in topics_of}
        self._over = threading.Event()
        self.failed: list[str] = []

    def end(self) -> None:
        self._over.set()
        self.join(60)

    def samples(self, group: str) -> Sequence[Sample]:
        return self._samples[group]

    def run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._read_all()
            except OSError as error:
                self.failed.append(f"{time.time():.0f}: {error!r}")
            self._over.wait(max(0.0, EVERY_S - (time.monotonic() - began)))

    def _read_all(self) -> None:
        begun = time.time()
        self._silent.clear()
        leaders, nodes = self._metadata()
        ends: dict[Partition, int] = {}
        for node, partitions in leaders.items():
            ends |= self._tried(lambda: self._ends(nodes[node], partitions)) or {}  # noqa: B023 - called at once
        for group in self._topics_of:
            answers = self._tried(lambda: self._group(group))  # noqa: B023 - called at once
            if answers is None:
                continue
            described, committed = answers
            members = frozenset(m.member_id for m in described.members)
            instances = frozenset(m.instance_id for m in described.members if m.instance_id)
            own = {p: end for p, end in ends.items() if p[0] in self._topics_of[group]}
            sample = Sample(begun, time.time(), described.state, members, instances, committed, own)
            self._samples[group].append(sample)

    @staticmethod
    def _tried(ask: Callable[[], T]) -> T | None:
        """None where a broker does not answer now, or answers with an error."""
        try:
            return ask()
        except (OSError, RawError):
            return None

    def _ask(self, address: tuple[str, int], key: int, body: bytes) -> Any:
        """Raises OSError."""
        if address in self._silent:
            raise OSError(f"{address} did not answer a moment ago")
        try:
            if address not in self._connections:
                self._connections[address] = Connection(*address, timeout_s=ASK_S)
            return self._connections[address].ask(key, body)
        except OSError:
            self._silent.add(address)
            broken = self._connections.pop(address, None)
            if broken is not None:
                broken.close()
            raise

    def _metadata(self) -> tuple[dict[int, list[Partition]], dict[int, tuple[str, int]]]:
        """(the partitions that each node leads, the addresses of nodes), by the first broker that answers."""
        for address in self._addresses:
            host, port = address.rsplit(":")
            metadata = self._tried(lambda: self._metadata_of((host, int(port))))  # noqa: B023 - called at once
            if metadata is not None:
                return metadata
        raise OSError("no broker answers")

    def _metadata_of(self, address: tuple[str, int]) -> tuple[dict[int, list[Partition]], dict[int, tuple[str, int]]]:
        topics = sorted({topic for topics in self._topics_of.values() for topic in topics})
        leaders, nodes = read_metadata(self._ask(address, METADATA, request_metadata(topics)))
        return {node: partitions for node, partitions in leaders.items() if node in nodes}, nodes

    def _ends(self, address: tuple[str, int], partitions: Iterable[Partition]) -> dict[Partition, int]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        body = struct.pack(">ii", -1, len(by_topic))
        for topic, numbers in by_topic.items():
            body += text(topic) + struct.pack(">i", len(numbers))
            body += b"".join(struct.pack(">iq", number, LATEST) for number in numbers)
        answer, ends = self._ask(address, LIST_OFFSETS, body), dict[Partition, int]()
        for _ in range(answer.take("i")):
            topic = answer.text() or ""
            for _ in range(answer.take("i")):
                partition, error, _, end = answer.take("i"), answer.take("h"), answer.take("q"), answer.take("q")
                if not error:
                    ends[topic, partition] = end
        return ends

    def _group(self, group: str) -> tuple[GroupState, dict[Partition, int]]:
        coordinator = self._coordinator(group)
        described = read_description(self._ask(coordinator, DESCRIBE, request_description(group)))
        answer, committed = self._ask(coordinator, OFFSET_FETCH, text(group) + struct.pack(">i", -1)), {}
        for _ in range(answer.take("i")):
            topic = answer.text() or ""
            for _ in range(answer.take("i")):
                partition, offset = answer.take("i"), answer.take("q")
                answer.text()
                if not answer.take("h") and offset >= 0:
                    committed[topic, partition] = offset
        error = answer.take("h")
        if error:
            raise RawError("OffsetFetch", error)
        return described, committed

    def _coordinator(self, group: str) -> tuple[str, int]:
        for address in self._addresses:
            host, port = address.rsplit(":")
            body = request_coordinator(group)
            answer = self._tried(lambda: self._ask((host, int(port)), FIND_COORDINATOR, body))  # noqa: B023 - at once
            if answer is not None and (coordinator := read_coordinator(answer)) is not None:
                return coordinator[1:]
        raise OSError(f"no broker names the coordinator of {group}")
