"""Connections by name, which are opened when they are used. Each tries every address of the broker's name, for a
limited time. Calls that may hang go through `outside_calls`, because the same loop sends heartbeats.
"""

import asyncio
import errno
import ipaddress
import math
import random
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.broker_version_data import BrokerVersionData

from bellwether_kafka.coordinator.kafka.wire.connection import Connection, unsent
from bellwether_kafka.coordinator.kafka.wire.logins import Logins
from bellwether_kafka.coordinator.kafka.wire.outside_calls import LastGood, OutsideCalls
from bellwether_kafka.coordinator.membership import Node

PORT_DEFAULT = 9092
LOOKUPS_MAX = 16
CONNECT_SHARE = 0.8  # share of a connection's time; the rest is for TLS, versions and the login
TLS = "TLS"  # the only key: all connections use the same files
# A dead connection (a pod got another address, a firewall dropped an idle entry) looks open to both sides. A JoinGroup
# sent on it would wait for minutes, as long as a rebalance may take. With these options the kernel ends the connection.
# Not every system has all of them.
_SILENCE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}  # s, s, -, ms
SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _SILENCE.items() if hasattr(socket, name)),
)

Address = tuple[Any, ...]  # as socket.getaddrinfo gives it
Server = tuple[str, int]


def server_of(text: str) -> Server:
    """Returns host and port of an entry of bootstrap.servers, as librdkafka reads it."""
    name = text.rpartition("://")[2]
    if name.startswith("["):
        host, _, port = name[1:].partition("]")
    elif name.count(":") > 1:
        host, port = name, ""
    else:
        host, _, port = name.partition(":")
    return host, int(port.lstrip(":") or PORT_DEFAULT)


class Addresses:
    """Resolves names and opens sockets. For one event loop."""

    def __init__(self) -> None:
        self._addresses: LastGood[list[Address]] = LastGood(OutsideCalls("addresses", LOOKUPS_MAX))
        self._worked: dict[Server, Any] = {}

    async def connected(self, host: str, port: int, until: float) -> socket.socket:
        """Returns a socket to the first address that accepts a connection, starting with the one that worked last.
        `until` is in seconds of the loop's clock. Raises KafkaConnectionError."""
        addresses = await self._resolved(host, port, until)
        last = self._worked.get((host, port))
        why = "it has no address"
        ordered = sorted(addresses, key=lambda address: address[4] != last)
        for left in range(len(ordered), 0, -1):
            address, now = ordered[-left], asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout_at(now + (until - now) / left):
                    opened = await _opened(address)
            except OSError as failed:  # a timeout is one too
                why = f"{failed.errno} {errno.errorcode.get(failed.errno, '')}" if failed.errno else "no answer in time"
                continue
            self._worked[host, port] = address[4]
            return opened
        raise kafka_errors.KafkaConnectionError(f"unable to connect to {host}:{port}: {why}")

    async def _resolved(self, host: str, port: int, until: float) -> list[Address]:
        try:
            literal = ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            family = socket.AF_INET if literal.version == 4 else socket.AF_INET6
            rest = () if family == socket.AF_INET else (0, 0)
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, *rest))]

        def resolve() -> list[Address]:
            return list(socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM))

        try:
            return await self._addresses.of((host, port), resolve, until)
        except (OSError, UnicodeError, kafka_errors.KafkaTimeoutError) as error:
            raise kafka_errors.KafkaConnectionError(f"DNS Resolution failure of {host}: {error}") from None


async def _opened(address: Address) -> socket.socket:
    family, kind, protocol, _, target = address
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setblocking(False)
        for option in SOCKET_OPTIONS:
            opened.setsockopt(*option)
        await asyncio.get_running_loop().sock_connect(opened, target)
    except BaseException:
        opened.close()
        raise
    return opened


def tls_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """Reads the files. Raises OSError, of which SSLError is one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config.get("ssl_check_hostname", True)
    if trusted := config.get("ssl_cafile"):
        context.load_verify_locations(trusted)
    else:
        context.load_default_certs()
    if chain := config.get("ssl_certfile"):
        password = config.get("ssl_password") or ""  # without one OpenSSL would ask for it on the terminal
        context.load_cert_chain(chain, config.get("ssl_keyfile"), lambda: password)
    if revoked := config.get("ssl_crlfile"):
        context.load_verify_locations(revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


@dataclass(frozen=True, slots=True)
class Failed:
    """Attempts in a row at one address that failed. Before `until` none is made, and the last error is the answer."""

    attempts: int
    until: float
    error: Exception


class Connections:
    """Connections by name. For one event loop. `config` is that of `client_config`, with defaults."""

    def __init__(self, config: Mapping[str, Any], pinned: BrokerVersionData | None, logins: Logins | None) -> None:
        self._config = config
        self._pinned = pinned
        self._logins = logins
        self._secure = str(config.get("security_protocol", "")).endswith("SSL")
        self._servers = [server_of(text) for text in config["bootstrap_servers"]]
        random.shuffle(self._servers)  # so that not all processes ask the same one
        self._works = 0  # the bootstrap server that worked last for a first attempt
        self._addresses = Addresses()
        self._decoding = OutsideCalls("answers", 1)
        self._contexts: LastGood[ssl.SSLContext] = LastGood(OutsideCalls("certificates", 1))
        self._failed: dict[Server, Failed] = {}
        self._closed = False
        self.by_name: dict[str, tuple[Server, Connection]] = {}

    async def any_broker(self, attempt: int = 0) -> Connection:
        """Returns a connection to the first working bootstrap server, from `attempt` places after the last that
        worked. Raises the error of the last."""
        error: Exception = kafka_errors.KafkaConnectionError("bootstrap.servers names no broker")
        for offset in range(len(self._servers)):
            at = (self._works + attempt + offset) % len(self._servers)
            try:
                connection = self._named(f"bootstrap-{at}", self._servers[at])
                await connection.opened()
            except Exception as failed:  # noqa: BLE001 - whatever TLS, SASL and the library raise: try the next
                error = failed
                continue
            if attempt == 0:
                self._works = at
            return connection
        raise error

    def named(self, key: str, node: Node) -> Connection:
        """Returns the connection of this name. Opens a new one if the name now belongs to another node, or nothing was
        sent for long: its broker would close it just now. Raises the error of an attempt shortly before."""
        try:
            return self._named(key, (node.host, node.port))
        except kafka_errors.KafkaProtocolError as error:
            raise unsent(error) from None

    def drop(self, key: str) -> None:
        """Closes the connection of this name, and leaves nothing behind: each abandoned JoinGroup makes a new name."""
        if key in self.by_name:
            self.by_name[key][1].close()

    async def close(self) -> None:
        """Closes all, for good."""
        self._closed = True
        await asyncio.gather(*(connection.closed() for _, connection in tuple(self.by_name.values())))

    def _named(self, key: str, server: Server) -> Connection:
        at, connection = self.by_name.get(key, (server, None))
        if connection is not None:
            if at == server and connection.idle_s() * 1000 < (self._config["connections_max_idle_ms"] or math.inf):
                return connection
            connection.close()
        if self._closed:
            raise kafka_errors.KafkaConnectionError("the client is closed")
        failed = self._failed.get(server)
        if failed is not None and asyncio.get_running_loop().time() < failed.until:
            raise failed.error.with_traceback(None)
        return self._begun(key, server)

    def _begun(self, key: str, server: Server) -> Connection:
        connection = Connection(
            server[0],
            client_id=self._config["client_id"],
            bytes_max=self._config["receive_message_max_bytes"],
            versions=self._pinned,
            logins=self._logins,
            decoding=self._decoding,
        )

        def ended(error: Exception | None) -> None:
            if self.by_name.get(key, (None, None))[1] is connection:
                del self.by_name[key]
            if error is not None and not connection.greeted:
                self._pause(server, error)

        connection.ended = ended
        self.by_name[key] = server, connection
        connection.start(lambda: self._open(connection, server))
        return connection

    async def _open(self, connection: Connection, server: Server) -> None:
        loop, setup_s = asyncio.get_running_loop(), self._doubled("socket_connection_setup_timeout", server)
        try:
            async with asyncio.timeout(setup_s):
                await self._connect(connection, server, loop.time() + setup_s)
        except TimeoutError:
            connection.close(kafka_errors.KafkaTimeoutError(f"no answer from {server[0]}:{server[1]} in time"))
        except Exception as error:  # noqa: BLE001 - whatever TLS, SASL and the library raise ends the connection
            connection.close(error)
        else:
            self._failed.pop(server, None)

    def _pause(self, server: Server, error: Exception) -> None:
        """Begins a pause, unless there is one: connections that began together are one attempt."""
        now, last = asyncio.get_running_loop().time(), self._failed.get(server)
        if last is None or last.until <= now:
            pause_s = self._doubled("reconnect_backoff", server) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            self._failed[server] = Failed(self._attempts(server) + 1, now + pause_s, error)

    def _attempts(self, server: Server) -> int:
        return self._failed[server].attempts if server in self._failed else 0

    async def _connect(self, connection: Connection, server: Server, until: float) -> None:
        loop, (host, port) = asyncio.get_running_loop(), server
        context = await self._context(until) if self._secure else None
        connect_until = loop.time() + (until - loop.time()) * CONNECT_SHARE
        opened = await self._addresses.connected(host, port, connect_until)
        name = host.rstrip(".") if context is not None else None
        try:
            await loop.create_connection(lambda: connection, sock=opened, ssl=context, server_hostname=name)
        except (OSError, ValueError) as error:  # a name that cannot be checked is a ValueError
            if isinstance(error, TimeoutError):
                raise
            why = str(error) or type(error).__name__
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {why}") from None
        await connection.greet(until)

    async def _context(self, until: float) -> ssl.SSLContext:
        """Returns the TLS context of the certificate files, or the previous one while reading them takes long."""
        try:
            return await self._contexts.of(TLS, lambda: tls_context(self._config), until)
        except (OSError, kafka_errors.KafkaTimeoutError) as error:
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from None

    def _doubled(self, setting: str, server: Server) -> float:
        """Returns the seconds of a setting, doubled for each attempt in a row that has failed, up to its maximum."""
        least, most = self._config[f"{setting}_ms"], self._config[f"{setting}_max_ms"]
        return float(min(max(least, most), least * 2 ** min(self._attempts(server), 30))) / 1000
