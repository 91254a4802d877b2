"""The HTTP server: Hypercorn around the ASGI application of `web`, on loopback unless told otherwise.

A request has a few seconds and connections are few, so that whoever can reach the port cannot use the process up.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from coordinator.web import Web

READ_TIMEOUT_S = 5
KEEP_ALIVE_TIMEOUT_S = 15
HEAD_BYTES_MAX = 8_192
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
            raise HttpAddressError(
                f"The HTTP server cannot listen on {address} ({error.strerror}); change http_address."
            ) from None
        found = f"{host}:{listening.getsockname()[1]}"
        self._task = asyncio.create_task(self._serve(listening))
        return found

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _serve(self, listening: socket.socket) -> None:
        """Hypercorn is imported while the first groups are joined: that takes as long as joining them does."""
        serving = await asyncio.to_thread(_serving, self._web, listening)
        # Our own trigger: the process has its own idea of what SIGTERM means.
        await serving(self._stop.wait)


def _serving(web: Web, listening: socket.socket) -> Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]:
    """How to serve, given what ends it."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.accesslog = config.errorlog = None
    config.include_server_header = False
    config.read_timeout = READ_TIMEOUT_S
    config.keep_alive_timeout = KEEP_ALIVE_TIMEOUT_S
    config.h11_max_incomplete_size = HEAD_BYTES_MAX
    config.graceful_timeout = STOP_TIMEOUT_S
    config.shutdown_timeout = STOP_TIMEOUT_S
    return lambda ends: serve(web, config, shutdown_trigger=ends)  # type: ignore[arg-type]  # its types ask for one class per ASGI scope


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
