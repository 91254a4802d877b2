"""Connects to a broker's name and port. Tries every address of the name, each for a limited time."""

import errno
import ipaddress
import socket
from collections.abc import Sequence
from typing import Any

from kafka import errors as kafka_errors

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.wire.outside.calls import LastGood, OutsideCalls

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
