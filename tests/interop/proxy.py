"""A proxy between one client and one broker that understands frames: a rule decides about each request and answer by
its API, and says what becomes of it on the wire. Two threads per connection.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Self

from tests.interop.brokers import LOOPBACK, PortLease

FRAME_MAX = 1 << 27


class Fate(Enum):
    """What becomes of a frame. CUT resets the connection instead; HALF sends half of it and nothing ever after; STUMP
    sends half of it and ends the connection; DRIP sends it byte by byte; ABSURD sends a frame of two gigabytes."""

    PASS = auto()
    DROP = auto()
    CUT = auto()
    HALF = auto()
    STUMP = auto()
    DRIP = auto()
    ABSURD = auto()


@dataclass(frozen=True, slots=True)
class Frame:
    """A request or an answer (`answer`) of this API, by Kafka's number."""

    api: int
    answer: bool
    size: int


@dataclass(frozen=True, slots=True)
class Ruling:
    fate: Fate = Fate.PASS
    delay_s: float = 0.0


Rule = Callable[[Frame], Ruling]


def honest(_: Frame) -> Ruling:
    return Ruling()


class Proxy:
    """Listens on a port of its own and forwards to `target`; a context manager. `rule` may be changed at any time."""

    def __init__(self, host: str = LOOPBACK, target_port: int = 0) -> None:
        self.host, self.target_port = host, target_port
        self.rule: Rule = honest
        self.ruled: list[tuple[Frame, Ruling]] = []  # what did not simply pass
        self._lease = PortLease()
        self.port = self._lease.port
        self._listener = socket.create_server((host, self.port))
        self._open: list[socket.socket] = []
        self._over = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._listener.close()
        for one in self._open:
            one.close()
        self._lease.release()

    def _accept(self) -> None:
        while not self._over:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection((LOOPBACK, self.target_port), timeout=10)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            pair = _Pair(self, client, broker)
            self._open += [client, broker]
            for work in (pair.forth, pair.back):
                threading.Thread(target=work, daemon=True).start()

    def decide(self, frame: Frame) -> Ruling:
        ruling = self.rule(frame)
        if ruling != Ruling():
            self.ruled.append((frame, ruling))
        return ruling


class _Pair:
    """One connection of a client and its continuation to the broker."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy, self._client, self._broker = proxy, client, broker
        self._apis: dict[int, int] = {}  # by correlation id

    def forth(self) -> None:
        self._pump(self._client, self._broker, answer=False)

    def back(self) -> None:
        self._pump(self._broker, self._client, answer=True)

    def _pump(self, source: socket.socket, sink: socket.socket, *, answer: bool) -> None:
        try:
            while (data := _frame(source)) is not None:
                ruling = self._proxy.decide(Frame(self._api(data, answer=answer), answer, len(data)))
                time.sleep(ruling.delay_s)
                if not self._send(sink, data, ruling.fate):
                    break
        except OSError:
            pass  # an end was closed or reset
        _reset(source)
        _reset(sink)

    def _api(self, data: bytes, *, answer: bool) -> int:
        if answer:
            return self._apis.pop(struct.unpack_from(">i", data)[0], -1)
        api, _, correlation = struct.unpack_from(">hhi", data)
        self._apis[correlation] = api
        return int(api)

    def _send(self, sink: socket.socket, data: bytes, fate: Fate) -> bool:
        """False when that was the end of the connection."""
        framed = struct.pack(">i", len(data)) + data
        match fate:
            case Fate.PASS:
                sink.sendall(framed)
            case Fate.DROP:
                pass
            case Fate.HALF:
                sink.sendall(framed[: len(framed) // 2])
                while not self._proxy._over:
                    time.sleep(0.2)
                return False
            case Fate.DRIP:
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(len(framed)):
                    sink.sendall(framed[at : at + 1])
                    time.sleep(0.001)
            case Fate.STUMP:
                sink.sendall(framed[: len(framed) // 2])
                return False
            case Fate.ABSURD:
                sink.sendall(struct.pack(">i", (1 << 31) - 1) + data)
            case Fate.CUT:
                return False
        return True


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    if head is None:
        return None
    (size,) = struct.unpack(">i", head)
    assert 0 <= size < FRAME_MAX, size
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


def _reset(one: socket.socket) -> None:
    """RST instead of FIN."""
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    except OSError:
        pass  # closed already
