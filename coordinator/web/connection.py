"""An HTTP/1.1 connection with a deadline, based on uvicorn's protocol. Imported late, because importing uvicorn takes
as long as joining a group.

uvicorn waits without limit for the rest of a request and for a client to read its answer. Here a connection is aborted
`timeout_s` after its start or its last complete answer. If there are too many connections, the one that has been idle
longest is aborted, so that silent connections cannot block probes.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from bellwether_kafka.coordinator.web.app import Web

HEAD_BYTES_MAX = 8_192


class HttpConnections:
    """Makes a protocol for each connection and keeps at most `most` of them open."""

    def __init__(self, web: Web, timeout_s: float, most: int) -> None:
        self.timeout_s = timeout_s
        self.most = most
        self.state = ServerState()
        # Logs are off, since clients could fill them. Other protocols are off, and headers of proxies are ignored.
        self.config = Config(
            web,
            lifespan="off",
            ws="none",
            http="h11",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self)

    def each(self, act: Callable[[asyncio.Transport], None]) -> None:
        """Calls `act` with the transport of each open connection."""
        for connection in list(self.state.connections):
            act(connection.transport)


class _Connection(H11Protocol):
    def __init__(self, connections: HttpConnections) -> None:
        super().__init__(connections.config, connections.state, {}, asyncio.get_running_loop())
        self._timeout_s = connections.timeout_s
        self._most = connections.most
        self._deadline: asyncio.TimerHandle | None = None
        self._ended = False
        self.waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._most:
            idle = [each for each in self.connections if isinstance(each, _Connection) and each.idle]
            min(idle, key=lambda each: each.waits_since).transport.abort()  # at least this one is idle

    @property
    def idle(self) -> bool:
        """Whether the connection is open and no request is being answered."""
        if self.transport.is_closing():
            return False
        answering = cast("RequestResponseCycle | None", self.cycle)  # none yet before the first request
        return answering is None or answering.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn closes half-closed connections
        self._ended = True
        answering = cast("RequestResponseCycle | None", self.cycle)  # none yet before the first request
        return answering is not None and not answering.response_complete

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()
        if self._ended and self.cycle.response_complete:
            self.transport.close()

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.waits_since = self.loop.time()
        self._deadline = self.loop.call_later(self._timeout_s, self.transport.abort)
