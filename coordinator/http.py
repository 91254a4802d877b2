"""Read-only HTTP for Prometheus and for probes: /metrics, /livez, /readyz. GET and HEAD, nothing else.

Loopback unless told otherwise. A request has a few seconds and a few kilobytes, connections are few, bodies are not
read: whoever can reach the port can learn what the metrics say and can do nothing.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

REQUEST_SECONDS = 5.0
HEAD_BYTES_MAX = 8_192
CONNECTIONS_MAX = 32
PLAIN = "text/plain; charset=utf-8"

Answer = tuple[HTTPStatus, str, bytes]

log = structlog.get_logger(__name__)


class HttpAddressError(Exception):
    """The address cannot be used; the message is a sentence that names http_address."""


class HttpServer:
    """Serves one registry. `ready` says why the service is not ready, None if it is; it must answer at once.

    Alive means that the event loop turns. A leader that waits in JoinGroup is alive and may be not ready.
    """

    def __init__(self, registry: CollectorRegistry, ready: Callable[[], str | None]) -> None:
        self._registry = registry
        self._ready = ready
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, address: str) -> str:
        """Listens on "host:port" and returns the address with the real port. Raises HttpAddressError."""
        host, _, port = address.rpartition(":")
        try:
            self._server = await asyncio.start_server(self._serve, host.strip("[]"), int(port), limit=HEAD_BYTES_MAX)
        except OSError as error:
            raise HttpAddressError(
                f"The HTTP server cannot listen on {address} ({error.strerror}); change http_address."
            ) from None
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._exchange(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is slow, gone or too long: there is nobody to tell
        finally:
            self._open -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.split("\r\n")
        method, path = (*request.split(" "), "", "")[:2]
        accept = next((line.split(":", 1)[1] for line in lines if line.lower().startswith("accept:")), "")
        status, kind, body = self._answer(method, path.split("?", 1)[0], accept.strip())
        allow = "Allow: GET, HEAD\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        writer.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"{allow}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(b"" if method == "HEAD" else body)
        await writer.drain()

    def _answer(self, method: str, path: str, accept: str) -> Answer:
        if method not in ("GET", "HEAD"):
            return (HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, b"Only GET and HEAD.\n")
        if path == "/metrics":
            encode, kind = choose_encoder(accept)
            return (HTTPStatus.OK, kind, encode(self._registry))
        if path == "/livez":
            return (HTTPStatus.OK, PLAIN, b"ok\n")
        if path == "/readyz":
            reason = self._ready()
            if reason is None:
                return (HTTPStatus.OK, PLAIN, b"ok\n")
            return (HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, f"{reason}\n".encode())
        return (HTTPStatus.NOT_FOUND, PLAIN, b"There are /metrics, /livez and /readyz.\n")
