"""A group member made of sockets and struct alone: for bytes that no honest client sends, and for asking the broker
what each member was given. Old, non-flexible versions that know static membership; blocking, loopback only.
"""

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.patience import PATIENCE

METADATA, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE = 3, 10, 11, 12, 13, 14, 15
VERSIONS = {METADATA: 1, FIND_COORDINATOR: 1, JOIN: 5, HEARTBEAT: 3, LEAVE: 1, SYNC: 3, DESCRIBE: 4}
RETRIABLE = {14, 15, 16}
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


class RawError(Exception):
    """An error code of the broker; `code` is Kafka's number."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what} failed with error {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as DescribeGroups shows it; the bytes are as the broker stores them."""

    member_id: str
    instance_id: str | None
    client_id: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as DescribeGroups shows it."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return int(value)

    def raw(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str | None:
        size = self.take("h")
        return None if size < 0 else self.raw(size).decode()

    def blob(self) -> bytes:
        return self.raw(max(0, self.take("i")))


def _text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


text = _text


def _blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


class Connection:
    """One request at a time to one node."""

    def __init__(self, host: str, port: int, timeout_s: float = 60.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._number = 0

    def ask(self, key: int, body: bytes) -> _Cursor:
        self.send(key, body)
        return self.receive()

    def send(self, key: int, body: bytes) -> None:
        """Sends a request whose answer `receive` takes later, before the next one is sent."""
        self._number += 1
        head = struct.pack(">hhi", key, VERSIONS[key], self._number) + _text("raw")
        self._socket.sendall(_blob(head + body))

    def receive(self) -> _Cursor:
        answer = _Cursor(self._receive(struct.unpack(">i", self._receive(4))[0]))
        assert answer.take("i") == self._number
        return answer

    def close(self) -> None:
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def led_partitions(host: str, port: int, topic: str) -> int:
    """How many partitions of a topic have a leader as far as this one node knows; 0 while it does not know it."""
    connection = Connection(host, port)
    try:
        leaders, _ = read_metadata(connection.ask(METADATA, request_metadata([topic])))
    finally:
        connection.close()
    return sum(map(len, leaders.values()))


def request_metadata(topics: Sequence[str]) -> bytes:
    """The body of a Metadata request for these topics."""
    return struct.pack(">i", len(topics)) + b"".join(map(_text, topics))


def read_metadata(answer: _Cursor) -> tuple[dict[int, list[tuple[str, int]]], dict[int, tuple[str, int]]]:
    """The partitions that each node leads, and the addresses of nodes."""
    nodes: dict[int, tuple[str, int]] = {}
    for _ in range(answer.take("i")):
        node, host, port = answer.take("i"), answer.text() or "", answer.take("i")
        nodes[node] = host, port
        answer.text()
    answer.take("i")
    leaders: dict[int, list[tuple[str, int]]] = {}
    for _ in range(answer.take("i")):
        _, topic, _ = answer.take("h"), answer.text() or "", answer.take("b")
        for _ in range(answer.take("i")):
            _, partition, leader = answer.take("h"), answer.take("i"), answer.take("i")
            if leader >= 0:
                leaders.setdefault(leader, []).append((topic, partition))
            for _ in ("replicas", "in sync"):
                answer.raw(4 * answer.take("i"))
    return leaders, nodes


def find_coordinator(bootstrap: str, group_id: str, limit_s: float = 30.0) -> tuple[int, str, int]:
    """Node id, host and port of the broker that coordinates the group."""
    deadline = time.monotonic() + limit_s * PATIENCE
    while True:
        for address in bootstrap.split(","):
            host, port = address.rsplit(":", 1)
            try:
                coordinator = _coordinator(Connection(host, int(port)), group_id)
            except OSError:
                continue
            if coordinator is not None:
                return coordinator
        if time.monotonic() > deadline:
            raise TimeoutError(f"no coordinator for {group_id}")
        time.sleep(0.2)


def connect_to_coordinator(bootstrap: str, group_id: str) -> Connection:
    """A connection to the broker that coordinates the group."""
    _, host, port = find_coordinator(bootstrap, group_id)
    return Connection(host, port)


def _coordinator(connection: Connection, group_id: str) -> tuple[int, str, int] | None:
    try:
        return read_coordinator(connection.ask(FIND_COORDINATOR, request_coordinator(group_id)))
    finally:
        connection.close()


def request_coordinator(group_id: str) -> bytes:
    """The body of a FindCoordinator request."""
    return _text(group_id) + b"\0"


def read_coordinator(answer: _Cursor) -> tuple[int, str, int] | None:
    """Node id, host and port; None where the broker does not know it now."""
    answer.take("i")
    code = answer.take("h")
    answer.text()
    node_id, host, port = answer.take("i"), answer.text(), answer.take("i")
    return None if code or host is None else (node_id, host, port)


def describe(bootstrap: str, group_id: str) -> GroupState:
    """What the broker says of a classic group, bytes included. Raises RawError."""
    connection = connect_to_coordinator(bootstrap, group_id)
    try:
        return read_description(connection.ask(DESCRIBE, request_description(group_id)))
    finally:
        connection.close()


def member_ids(answer: _Cursor) -> list[str]:
    """The members of a DescribeGroups answer, in the broker's order. Raises RawError."""
    return [member.member_id for member in read_description(answer).members]


def request_description(group_id: str) -> bytes:
    """The body of a DescribeGroups request for one group."""
    return struct.pack(">i", 1) + _text(group_id) + b"\0"


def read_description(answer: _Cursor) -> GroupState:
    """The only group of a DescribeGroups answer. Raises RawError."""
    answer.take("i")
    answer.take("i")
    code = answer.take("h")
    if code:
        raise RawError("DescribeGroups", code)
    answer.text()
    state, kind, protocol = (answer.text() or "" for _ in range(3))
    members = tuple(_member(answer) for _ in range(answer.take("i")))
    return GroupState(state, kind, protocol, members)


def _member(answer: _Cursor) -> GroupMember:
    member_id, instance_id, client_id = answer.text() or "", answer.text(), answer.text() or ""
    answer.text()
    return GroupMember(member_id, instance_id, client_id, answer.blob(), answer.blob())


def _joined(answer: _Cursor) -> tuple[str, bytes]:
    member_id, _, metadata = answer.text() or "", answer.text(), answer.blob()
    return member_id, metadata


class RawMember:
    """Joins with any bytes and follows: call `rebalance` until it returns, `heartbeat` in between."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        protocols: Sequence[tuple[str, bytes]],
        *,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
    ) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.members: dict[str, bytes] = {}  # of all members, where this one leads
        self._protocols = protocols
        self._protocol_type = protocol_type
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._connection = connect_to_coordinator(bootstrap, group_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.member_id:
                self._connection.ask(LEAVE, _text(self.group_id) + _text(self.member_id))
        finally:
            self._connection.close()

    def rebalance(self, limit_s: float = 40.0) -> bytes:
        """Joins and syncs, again while the group rebalances; returns the assignment bytes. Raises RawError.

        As leader it gives what `plan` says. Unless a subclass makes one, nobody gets anything, and members would find
        zero bytes: join led groups only.
        """
        deadline = time.monotonic() + limit_s * PATIENCE
        while time.monotonic() < deadline:
            self._join()
            head = _text(self.group_id) + struct.pack(">i", self.generation) + _text(self.member_id) + _text(None)
            plan = self.plan()
            body = struct.pack(">i", len(plan)) + b"".join(_text(m) + _blob(given) for m, given in plan.items())
            answer = self._connection.ask(SYNC, head + body)
            answer.take("i")
            code = answer.take("h")
            if code == 0:
                return answer.blob()
            if code != REBALANCE_IN_PROGRESS:
                raise RawError("SyncGroup", code)
        raise TimeoutError(f"{self.group_id} did not settle")

    def plan(self) -> dict[str, bytes]:
        """Assignments by member id, for a rebalance that this member leads."""
        return {}

    def heartbeat(self) -> bool:
        """Whether no rebalance has begun since."""
        head = _text(self.group_id) + struct.pack(">i", self.generation) + _text(self.member_id) + _text(None)
        answer = self._connection.ask(HEARTBEAT, head)
        answer.take("i")
        code = answer.take("h")
        if code not in (0, REBALANCE_IN_PROGRESS):
            raise RawError("Heartbeat", code)
        return code == 0

    def _join(self) -> None:
        while True:
            times = struct.pack(">ii", self._session_ms, self._rebalance_ms)
            body = _text(self.group_id) + times + _text(self.member_id)
            body += _text(None) + _text(self._protocol_type) + struct.pack(">i", len(self._protocols))
            body += b"".join(_text(name) + _blob(metadata) for name, metadata in self._protocols)
            answer = self._connection.ask(JOIN, body)
            answer.take("i")
            code = answer.take("h")
            self.generation = answer.take("i")
            answer.text()
            answer.text()
            self.member_id = answer.text() or ""
            if code == 0:
                self.members = dict(_joined(answer) for _ in range(answer.take("i")))
                return
            if code in RETRIABLE:
                time.sleep(0.2)
            elif code != MEMBER_ID_REQUIRED:
                raise RawError("JoinGroup", code)
