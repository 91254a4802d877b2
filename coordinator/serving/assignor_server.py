"""The server for brokers' assignors: on a Unix socket, or on a TCP port of the loopback interface, because there is no
authentication.

One thread accepts connections, and each connection has its own thread: a broker keeps one connection for each thread of
its group coordinator and waits only for milliseconds, so nothing here uses an event loop. The memberships' loop is not
involved. The number of connections is limited; a new one replaces the one that has been idle for longest.
"""

import errno
import ipaddress
import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from bellwether_kafka.coordinator.serving import wire
from bellwether_kafka.coordinator.watching import Troubles

UNIX = "unix:"
CONNECTIONS_MAX = 128
BACKLOG = 64
REQUEST_S_MAX = 5.0  # between the first byte of a request and the last one of its answer
# Plans of applications take longer, so they do not occupy the places of those of consumers.
PLANS_AT_ONCE = {wire.CONSUMERS: 2, wire.TASKS: 1}
ACCEPT_AGAIN_S = 0.1
FILE_POLL_S = 2.0  # whether the socket still has its file
SOCKET_MODE = 0o660
# What a connection ends with where a process listens, if only to datagrams.
LISTENS = (0, errno.EAGAIN, errno.EINPROGRESS, errno.EPROTOTYPE)

Answer = Callable[[bytes], tuple[bytes, Callable[[bool], None]]]

log = structlog.get_logger(__name__)


class AssignorAddressError(Exception):
    """Raised if the address cannot be used; the message is a sentence that names assignor_address."""


class AssignorServer:
    """The server. Start and stop it once. `answer` is called by several threads, each with a request without its
    size; what it returns besides is called with whether the answer was sent."""

    def __init__(self, address: str, answer: Answer) -> None:
        self._address = address
        self._path = Path(address.removeprefix(UNIX))
        self._answer = answer
        self._listening: socket.socket | None = None
        self._file: tuple[int, int] | None = None  # the socket's own
        self._troubles = Troubles()  # why a removed file cannot be made again
        self._connections: dict[socket.socket, None] = {}  # the last one was used last
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._planning = {kind: threading.Semaphore(plans) for kind, plans in PLANS_AT_ONCE.items()}

    def start(self) -> str:
        """Listens, and returns the address with the actual port. Raises AssignorAddressError."""
        try:
            unix = self._address.startswith(UNIX)
            listening = _unix(self._path) if unix else _tcp(self._address)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            text = f"No broker can ask for plans at {self._address} ({reason}); change assignor_address."
            raise AssignorAddressError(text) from None
        listening.listen(BACKLOG)
        listening.settimeout(FILE_POLL_S if unix else None)
        self._listening = listening
        self._file = _file_at(self._path) if unix else None
        threading.Thread(target=self._accept, name="bellwether-serving", daemon=True).start()
        return self._address if unix else _called(listening)

    def stop(self) -> None:
        self._stopping.set()
        with self._changing:
            if self._listening is None:
                return
            if self._file is not None and self._file == _file_at(self._path):
                self._path.unlink(missing_ok=True)  # not that of a successor
            _end(self._listening)
            for connection in self._connections:
                _shut(connection)

    def _accept(self) -> None:
        while not self._stopping.is_set() and self._listening is not None:
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                self._listen_again()
                continue
            except OSError:  # the client has gone already, the server is stopping, or there are too many open files
                self._stopping.wait(ACCEPT_AGAIN_S)
                continue
            with self._changing:
                if len(self._connections) >= CONNECTIONS_MAX:
                    _shut(next(iter(self._connections)))
                self._connections[connection] = None
            try:
                threading.Thread(target=self._serve, args=(connection,), name="bellwether-plan", daemon=True).start()
            except RuntimeError as error:  # as many threads as the system allows: the broker asks again later
                log.warning("plan_not_served", reason=str(error))
                self._ended(connection)
                self._stopping.wait(ACCEPT_AGAIN_S)

    def _listen_again(self) -> None:
        """Makes the socket again if its file was removed, as when a folder is cleaned or a broker's container begins
        with an empty one: no broker could connect any more."""
        with self._changing:
            if self._stopping.is_set() or _file_at(self._path) is not None:
                return
            try:
                again = _unix(self._path)
                again.listen(BACKLOG)
                again.settimeout(FILE_POLL_S)
            except (OSError, ValueError) as error:
                self._troubles.report(log.warning, "assignor_socket_removed", str(error), address=self._address)
                return
            removed, self._listening, self._file = self._listening, again, _file_at(self._path)
            self._troubles.over()
        if removed is not None:
            _end(removed)
        log.warning("assignor_socket_made_again", address=self._address, reason="its file was removed")

    def _ended(self, connection: socket.socket) -> None:
        connection.close()
        with self._changing:
            self._connections.pop(connection, None)

    def _serve(self, connection: socket.socket) -> None:
        try:
            while self._exchange(connection):
                pass
        except OSError:
            pass  # the client has gone or is silent
        except Exception:
            log.exception("plan_not_served")
        finally:
            self._ended(connection)

    def _exchange(self, connection: socket.socket) -> bool:
        """Answers one request. Returns False if the connection cannot be used any more."""
        connection.settimeout(None)
        head = connection.recv(1)
        connection.settimeout(REQUEST_S_MAX)
        if not head:
            return False
        with self._changing:
            self._connections[connection] = self._connections.pop(connection, None)
        (size,) = wire.SIZE.unpack(head + _exactly(connection, wire.SIZE.size - 1))
        if not 0 < size <= wire.REQUEST_BYTES_MAX:
            log.warning("assignor_request_unreadable", reason=f"a request claims {size} bytes")
            return False
        request = _exactly(connection, size)
        with self._planning[wire.TASKS if wire.kind_of(request) == wire.TASKS else wire.CONSUMERS]:
            answer, done = self._answer(request)
        sent = False
        try:
            connection.sendall(answer)
            sent = True
        finally:
            done(sent)
        return True


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Reads this many bytes. Raises OSError if the connection ends before."""
    data = bytearray()
    while len(data) < size:
        more = connection.recv(min(size - len(data), 1 << 20))
        if not more:
            raise ConnectionError
        data += more
    return bytes(data)


def _unix(path: Path) -> socket.socket:
    """Returns a bound socket. Replaces a socket file on which no process listens any more."""
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # a stopped process accepts nothing
            code = probe.connect_ex(str(path))
            if code in LISTENS:
                raise ValueError("another process listens there")
            if code not in (errno.ECONNREFUSED, errno.ENOENT):
                raise OSError(code, os.strerror(code))
        path.unlink()
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        path.chmod(SOCKET_MODE)  # before it listens
    except OSError:
        listening.close()
        raise
    return listening


def _file_at(path: Path) -> tuple[int, int] | None:
    """Returns what identifies the file of a Unix socket, None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _called(listening: socket.socket) -> str:
    """Returns host:port of a socket, as in a setting."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if listening.family == socket.AF_INET6 else f"{host}:{port}"


def _tcp(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    resolved = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    # Of a name such as localhost that has addresses of both families, Java takes the one of IPv4.
    family, kind, protocol, _, where = min(resolved, key=lambda each: each[0] != socket.AF_INET)
    if not ipaddress.ip_address(where[0]).is_loopback:
        raise ValueError("it is not an address of the loopback interface, and there is no login")
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
    except OSError:
        listening.close()
        raise
    return listening


def _shut(connection: socket.socket) -> None:
    """Wakes the thread that reads from the connection, which then closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _end(listening: socket.socket) -> None:
    """Wakes the thread that accepts connections: on Linux only a shutdown does."""
    _shut(listening)
    listening.close()
