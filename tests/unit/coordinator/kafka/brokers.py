"""A broker of few words that real connections log in to, and outside systems that can be made to hang."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS, HEARTBEAT = 17, 36, 18, 12
VERSIONS = ((11, 0, 5), (HEARTBEAT, 0, 3), (SASL_HANDSHAKE, 0, 1), (API_VERSIONS, 0, 2), (SASL_AUTHENTICATE, 0, 1))


class Broker:
    """Knows ApiVersions, SASL and Heartbeat. `answers` are its bytes in a login; `lives_ms` how long that holds."""

    def __init__(
        self,
        mechanism: str = "",
        answers: tuple[bytes, ...] = (b"",),
        lives_ms: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._answers = answers
        self._lives_ms = lives_ms
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.logins: list[float] = []
        self.heartbeats: list[float] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Ends every connection, as a broker that restarts."""
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            stream = self._tls.wrap_socket(connection, server_side=True) if self._tls is not None else connection
            self._open.append(connection)
            step = 0
            with stream, stream.makefile("rb") as reader:
                while size := reader.read(4):
                    sent = reader.read(struct.unpack(">i", size)[0])
                    key, version, correlation = struct.unpack_from(">hhi", sent)
                    step += key == SASL_AUTHENTICATE
                    body = struct.pack(">i", correlation) + self._answer(key, version, step)
                    stream.sendall(struct.pack(">i", len(body)) + body)

    def _answer(self, key: int, version: int, step: int) -> bytes:
        if key == API_VERSIONS:
            ranges = b"".join(struct.pack(">hhh", *each) for each in VERSIONS)
            return struct.pack(">hi", 0, len(VERSIONS)) + ranges + struct.pack(">i", 0)
        if key == SASL_HANDSHAKE:
            return struct.pack(">hih", 0, 1, len(self._mechanism)) + self._mechanism.encode()
        if key == SASL_AUTHENTICATE:
            message = self._answers[(step - 1) % len(self._answers)]
            if step % len(self._answers) == 0:
                self.logins.append(time.monotonic())
            lifetime = struct.pack(">q", self._lives_ms) if version else b""
            return struct.pack(">hhi", 0, -1, len(message)) + message + lifetime
        self.heartbeats.append(time.monotonic())
        return struct.pack(">ih", 0, 0)


@contextmanager
def broker(**how: object) -> Iterator[Broker]:
    made = Broker(**how)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


class Hanging:
    """A call that goes through until `hang`, and then waits until `release`."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._released.set()
        self.waited = 0

    def hang(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def wait(self) -> None:
        if not self._released.is_set():
            self.waited += 1
            self._released.wait(60)

    def before(
        self, call: Callable[..., object], *, when: Callable[..., bool] = lambda *_: True
    ) -> Callable[..., object]:
        def waits(*arguments: object, **more: object) -> object:
            if when(*arguments):
                self.wait()
            return call(*arguments, **more)

        return waits
