"""A proxy between clients and brokers that understands frames: a rule decides about each request and answer by its
API, and says what becomes of it on the wire. One door per broker, two threads per connection.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from tests.interop.support.ports import LOOPBACK, PortLease

FRAME_MAX = 1 << 27


class Delivery(Enum):
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
    """`bytes_per_s`: how fast a frame that passes is sent; 0 for no limit."""

    delivery: Delivery = Delivery.PASS
    delay_s: float = 0.0
    bytes_per_s: int = 0


Rule = Callable[[Frame], Ruling]


def honest(_: Frame) -> Ruling:
    return Ruling()


class Proxy:
    """Listens on a port of its own for each of `targets` (ports on loopback) and forwards to it; a context manager.

    `rule` holds for all of them and may be changed at any time. Not `frames`: bytes pass as they come, encrypted ones
    for example, and nothing but `cut` can happen to them.
    """

    def __init__(self, targets: Sequence[int], host: str = LOOPBACK, *, frames: bool = True) -> None:
        self.host, self.frames = host, frames
        self.rule: Rule = honest
        self.ruled: list[tuple[Frame, Ruling]] = []  # what did not simply pass
        self.over = False
        self._leases = [PortLease() for _ in targets]
        self.ports = tuple(lease.port for lease in self._leases)
        self._listeners = [socket.create_server((host, port)) for port in self.ports]
        self._open: list[socket.socket] = []
        for listener, target in zip(self._listeners, targets, strict=True):
            threading.Thread(target=self._accept, args=(listener, target), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over = True
        for listener in self._listeners:
            listener.close()
        self.cut()
        for lease in self._leases:
            lease.release()

    @property
    def addresses(self) -> str:
        """As bootstrap servers."""
        return ",".join(f"{self.host}:{port}" for port in self.ports)

    def cut(self) -> None:
        """Resets every connection that is open now."""
        connections, self._open = self._open, []
        for connection in connections:
            reset(connection)

    def _accept(self, listener: socket.socket, target: int) -> None:
        while not self.over:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection((LOOPBACK, target), timeout=10)
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
        late: _Late | None = None
        try:
            if not self._proxy.frames:
                _copy(source, sink)
            while self._proxy.frames and (data := _frame(source)) is not None:
                ruling = self._proxy.decide(Frame(self._api(data, answer=answer), answer, len(data)))
                if ruling.delay_s and late is None:
                    late = _Late(lambda frame, of: self._send(sink, frame, of), lambda: reset(source))
                if late is not None:
                    late.put(data, ruling)
                elif not self._send(sink, data, ruling):
                    break
        except OSError:
            pass  # an end was closed or reset
        if late is not None:
            late.end()
        reset(source)
        reset(sink)

    def _api(self, data: bytes, *, answer: bool) -> int:
        if answer:
            return self._apis.pop(struct.unpack_from(">i", data)[0], -1)
        api, _, correlation = struct.unpack_from(">hhi", data)
        self._apis[correlation] = api
        return int(api)

    def _send(self, sink: socket.socket, data: bytes, ruling: Ruling) -> bool:
        """False when that was the end of the connection."""
        framed = struct.pack(">i", len(data)) + data
        match ruling.delivery:
            case Delivery.PASS if ruling.bytes_per_s:
                slice_bytes = max(1, ruling.bytes_per_s // 20)
                for at in range(0, len(framed), slice_bytes):
                    sink.sendall(framed[at : at + slice_bytes])
                    time.sleep(slice_bytes / ruling.bytes_per_s)
            case Delivery.PASS:
                sink.sendall(framed)
            case Delivery.DROP:
                pass
            case Delivery.HALF:
                sink.sendall(framed[: len(framed) // 2])
                while not self._proxy.over:
                    time.sleep(0.2)
                return False
            case Delivery.DRIP:
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(len(framed)):
                    sink.sendall(framed[at : at + 1])
                    time.sleep(0.001)
            case Delivery.STUMP:
                sink.sendall(framed[: len(framed) // 2])
                return False
            case Delivery.ABSURD:
                sink.sendall(struct.pack(">i", (1 << 31) - 1) + data)
            case Delivery.CUT:
                return False
        return True


class _Late:
    """Sends the frames of one direction in a thread of its own, each when its delay is over, in their order. So delays
    do not add up, as on a long way."""

    def __init__(self, send: Callable[[bytes, Ruling], bool], over: Callable[[], None]) -> None:
        self._send, self._over = send, over
        self._frames: SimpleQueue[tuple[float, bytes, Ruling] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, data: bytes, ruling: Ruling) -> None:
        self._frames.put((time.monotonic() + ruling.delay_s, data, ruling))

    def end(self) -> None:
        """Waits until what has come has been sent."""
        self._frames.put(None)
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):  # an end was closed or reset
            while (entry := self._frames.get()) is not None:
                at, data, ruling = entry
                time.sleep(max(0.0, at - time.monotonic()))
                if not self._send(data, ruling):
                    break
        self._over()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    while data := source.recv(1 << 16):
        sink.sendall(data)


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


def reset(connection: socket.socket) -> None:
    """RST instead of FIN, also where another thread waits for bytes."""
    with suppress(OSError):  # closed already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(OSError):  # not connected any more
            connection.shutdown(socket.SHUT_RD)
        connection.close()
