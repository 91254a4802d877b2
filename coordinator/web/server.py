"""The HTTP server: uvicorn's HTTP/1.1 around the ASGI application of `web`, on loopback unless configured otherwise.

Nobody who can reach the port can use the process up: connections are few, and each has a few seconds from its start or
its last answer to have an answer. No other protocol is spoken, and nothing that strangers send is logged.
"""

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.web.app import Web

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.web.connection import HttpConnections

ANSWER_TIMEOUT_S = 15
CONNECTIONS_MAX = 64
BACKLOG = 64
STOP_TIMEOUT_S = 1


class HttpAddressError(Exception):
    """The address cannot be used; the message is a sentence that names http_address."""


class HttpServer:
    """Serves one application. Start and stop once."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, address: str) -> str:
        """Listens on "host:port" and returns the address with the real port. Raises HttpAddressError."""
        host, _, port = address.rpartition(":")
        try:
            listening = await asyncio.to_thread(_listen, host.strip("[]"), int(port))
        except OSError as error:
            text = f"The HTTP server cannot listen on {address} ({error.strerror}); change http_address."
            raise HttpAddressError(text) from None
        self._task = asyncio.create_task(self._serve(listening))
        return f"{host}:{listening.getsockname()[1]}"

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _serve(self, listening: socket.socket) -> None:
        connections = await asyncio.to_thread(_connections, self._web)
        server = await asyncio.get_running_loop().create_server(connections, sock=listening, backlog=BACKLOG)
        await self._stop.wait()
        server.close()
        connections.each(lambda transport: transport.close())
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), STOP_TIMEOUT_S)
        connections.each(lambda transport: transport.abort())


def _connections(web: Web) -> "HttpConnections":
    from bellwether_kafka.coordinator.web.connection import HttpConnections  # noqa: PLC0415 - uvicorn, while groups are joined

    return HttpConnections(web, ANSWER_TIMEOUT_S, CONNECTIONS_MAX)


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
