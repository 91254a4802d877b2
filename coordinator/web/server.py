"""The HTTP server: uvicorn's HTTP/1.1 around the ASGI application of `web`, on loopback unless configured otherwise.

It has its own thread and event loop, so that pages do not delay heartbeats and rebalances do not delay probes. Clients
cannot exhaust the process: the number of connections is limited, a new one replaces the one that has been idle longest,
and each must complete an answer within ANSWER_TIMEOUT_S of its start or its last answer. No other protocol is served,
and nothing that clients send is logged.
"""

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.web.app import Web

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.web.connection import HttpConnections

ANSWER_TIMEOUT_S = 15
CONNECTIONS_MAX = 512
BACKLOG = 512
STOP_TIMEOUT_S = 1


class HttpAddressError(Exception):
    """The address cannot be used. The message is a sentence that names http_address."""


class HttpServer:
    """Serves one application in its own thread. It can be started and stopped once."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def start(self, address: str) -> str:
        """Listens on "host:port" and returns the address with the real port. Raises HttpAddressError."""
        host, _, port = address.rpartition(":")
        try:
            listening = await asyncio.to_thread(_listen, host.strip("[]"), int(port))
        except OSError as error:
            text = f"The HTTP server cannot listen on {address} ({error.strerror}); change http_address."
            raise HttpAddressError(text) from None
        self._stop, self._loop = asyncio.Event(), asyncio.new_event_loop()
        run = (self._loop, listening, self._stop)
        self._thread = threading.Thread(target=self._run, args=run, name="bellwether-http", daemon=True)
        self._thread.start()
        return f"{host}:{listening.getsockname()[1]}"

    async def stop(self) -> None:
        if self._thread is None or self._stop is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, 2 * STOP_TIMEOUT_S)

    def _run(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, stop: asyncio.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve(listening, stop))

    async def _serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        connections = _connections(self._web)
        server = await asyncio.get_running_loop().create_server(connections, sock=listening, backlog=BACKLOG)
        await stop.wait()
        server.close()
        connections.each(lambda transport: transport.close())
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await server.wait_closed()
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
