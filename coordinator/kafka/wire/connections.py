"""kafka-python's connection manager with connections named by Bellwether, which try every address of a broker's name,
each for a limited time. Only `transport` uses it.

It runs on the I/O thread, which also sends heartbeats, so calls that may hang go through `outside_calls`.
"""

import errno
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.broker_version_data import BrokerVersionData

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.wire.group_messages import GROUP_KEY_TYPE
from bellwether_kafka.coordinator.kafka.wire.logins import Connection, Logins
from bellwether_kafka.coordinator.kafka.wire.outside_calls import LastGood, OutsideCalls
from bellwether_kafka.coordinator.kafka.wire.tokens import TokenKeeper
from bellwether_kafka.coordinator.membership import Node

LOOKUPS_MAX = 16
CONNECT_SHARE = 0.8  # share of a connection's time; the rest is for TLS, versions and the login
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)

Address = tuple[Any, ...]  # as socket.getaddrinfo gives it


class Addresses:
    """Resolves names and opens sockets. For the I/O thread only."""

    def __init__(self, net: Any, options: Sequence[tuple[int, int, int]]) -> None:
        self._net = net
        self._options = options
        self._addresses: LastGood[list[Address]] = LastGood(OutsideCalls(net, "addresses", LOOKUPS_MAX))
        self._worked: dict[tuple[str, int], Any] = {}

    async def connected(self, host: str, port: int, until: float) -> socket.socket:
        """Returns a socket to the first address that accepts a connection, starting with the one that worked last.
        Raises KafkaConnectionError."""
        addresses = await self._resolved(host, port, until)
        last = self._worked.get((host, port))
        error: Exception = kafka_errors.KafkaConnectionError(f"{host} has no address")
        ordered = sorted(addresses, key=lambda address: address[4] != last)
        ends = clocks.monotonic() + (until - clocks.monotonic()) * CONNECT_SHARE
        for left in range(len(ordered), 0, -1):
            address, now = ordered[-left], clocks.monotonic()
            try:
                opened = await self._open(address, now + (ends - now) / left)
            except (OSError, kafka_errors.KafkaError) as failed:
                error = failed
                continue
            self._worked[host, port] = address[4]
            return opened
        raise kafka_errors.KafkaConnectionError(f"unable to connect to {host}:{port}: {error}")

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

    async def _open(self, address: Address, until: float) -> socket.socket:
        family, kind, protocol, _, target = address
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setblocking(False)
            for option in self._options:
                opened.setsockopt(*option)
            while (code := opened.connect_ex(target)) in _UNDER_WAY:
                await self._net.wait_write(opened, timeout_at=until)
        except BaseException:
            opened.close()
            raise
        if code in (0, errno.EISCONN):
            return opened
        opened.close()
        raise kafka_errors.KafkaConnectionError(f"{code} {errno.errorcode.get(code, 'UNKNOWN')}")


TLS = "TLS"  # the only key: all connections use the same files


DELETE_GROUPS, DELETE_GROUPS_OF_4_4 = 42, 3  # the number of a request, and its newest version in 4.4


def release_of(connection: Any) -> tuple[int, ...]:
    """Returns the release of a connection's broker, derived from the request versions that it supports; () if they are
    not known. The library knows none after 4.3."""
    answered = connection.broker_version_data
    return () if answered is None else release_of_versions(answered)


def release_of_versions(answered: BrokerVersionData) -> tuple[int, ...]:
    """Returns the release of a broker that supports these versions."""
    _, newest = answered.api_versions.get(DELETE_GROUPS, (0, 0))
    return (4, 4) if newest >= DELETE_GROUPS_OF_4_4 else tuple(answered.broker_version)


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Named connections to brokers. For the I/O thread only."""

    def __init__(self, net: Any, keeper: TokenKeeper | None = None, **config: Any) -> None:
        super().__init__(net, **config)
        self._works = 0  # the bootstrap server that worked last for a first attempt
        self._behind: dict[str, Node] = {}
        self._addresses = Addresses(net, self.config["socket_options"])
        self._logins = Logins(net, keeper)
        self._contexts: LastGood[ssl.SSLContext] = LastGood(OutsideCalls(net, "certificates", 1))

    async def any_broker(self, attempt: int = 0) -> Any:
        """Returns a connection to the first working bootstrap server, from `attempt` places after the last that
        worked."""
        brokers = self.cluster.bootstrap_brokers()
        error: Exception = kafka_errors.KafkaConnectionError("bootstrap.servers names no broker")
        for offset in range(len(brokers)):
            at = (self._works + attempt + offset) % len(brokers)
            try:
                connection = await self._opened(brokers[at].node_id)
            except Exception as failed:  # noqa: BLE001 - whatever TLS, SASL and the library raise: try the next
                error = failed
                continue
            if attempt == 0:
                self._works = at
            return connection
        raise error

    def named(self, key: str, node: Node) -> Any:
        """Returns the connection of this name. Opens a new one if the name now belongs to another node."""
        if self._behind.get(key) != node:
            self.drop(key)
            self._behind[key] = node
            # The library offers no other way to add a node that it did not learn from Metadata.
            broker = SimpleNamespace(node_id=key, host=node.host, port=node.port, error_code=0)
            self.cluster.add_coordinator(broker, GROUP_KEY_TYPE, key, synthesize_node_id=False)
        return self._opened(key)

    def drop(self, key: str) -> None:
        """Closes the connection of this name, and leaves nothing behind: each abandoned JoinGroup makes a new name."""
        self._behind.pop(key, None)
        self.close(node_id=key)
        self._conns.pop(key, None)
        self._auth_failures.pop(key, None)
        self.reset_backoff(key)
        self.cluster._coordinators.pop((GROUP_KEY_TYPE, key), None)  # noqa: SLF001 - the library only adds
        self.cluster._coordinator_brokers.pop(key, None)  # noqa: SLF001 - as above

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        until = clocks.monotonic() + self.config["request_timeout_ms"] / 1000 if timeout_at is None else timeout_at
        context = await self._context(until) if self.ssl_enabled else None
        opened = await self._addresses.connected(node.host, node.port, until)
        if context is None:
            transport = KafkaTCPTransport(self._net, opened, host=node.host)
        else:
            transport = KafkaSSLTransport(self._net, opened, host=node.host, ssl_context=context)
            await self._handshake(transport, until)
        _read_last_words_first(transport)
        return transport

    async def _context(self, until: float) -> ssl.SSLContext:
        """Returns the TLS context of the certificate files, or the previous one while reading them takes long."""
        files = {name: value for name, value in self.config.items() if name.startswith("ssl_")}
        build = KafkaSSLTransport._build_ssl_context  # noqa: SLF001 - what the library would do, elsewhere
        try:
            return await self._contexts.of(TLS, lambda: build(files), until)
        except (OSError, kafka_errors.KafkaTimeoutError) as error:
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from None

    async def _handshake(self, transport: Any, until: float) -> None:
        sock = transport._sock  # noqa: SLF001 - the library's own handshake has no timeout
        while True:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                waiting = self._net.wait_read
            except ssl.SSLWantWriteError:
                waiting = self._net.wait_write
            except Exception as error:  # noqa: BLE001 - as the library reports it
                transport.close()
                raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from None
            else:
                return
            try:
                await waiting(sock, timeout_at=until)
            except BaseException:
                transport.close()
                raise

    def _opened(self, key: str) -> Any:
        """Replaces the library's `get_connection`; its connections log in outside of this thread."""
        # The library never retries a refused login. Credentials can be corrected, and there is a backoff anyway.
        self._auth_failures.pop(key, None)
        if self.connection_delay(key) > 0:
            raise kafka_errors.NodeNotReadyError(key)
        if key in self._conns:
            return self._conns[key]
        node = self.cluster.broker_metadata(key)
        if node is None:
            raise kafka_errors.UnknownBrokerIdError(key)
        # Unless it is pinned, each broker states its own: the library would limit all to the first one's, for good.
        version = self.broker_version_data if self.config["api_version"] is not None else None
        connection = Connection(self._net, self._logins, node_id=key, broker_version_data=version, **self.config)
        connection.close_future.add_both(lambda _: self._conns.pop(node.node_id, None))
        self._conns[key] = connection
        until = clocks.monotonic() + self.socket_connection_setup_timeout_ms(key) / 1000
        self._net.call_soon(lambda: self._connect(node, connection, timeout_at=until))
        return connection


def _read_last_words_first(transport: Any) -> None:
    """Makes the transport report the end of the stream one read later. The library drops data if the same read also
    finds the end, but a broker that refuses a login sends one answer with the reason and closes."""
    receive = transport._sock_recv  # noqa: SLF001 - only here both are available

    def last_words_first() -> tuple[bytes, Exception | None]:
        data, error = receive()
        return data, None if data else error

    transport._sock_recv = last_words_first  # noqa: SLF001 - as above
