"""One HTTP/1.1 connection with a deadline, on uvicorn's protocol. Imported late: importing uvicorn takes as long as
joining a group does.

uvicorn waits for ever for the rest of a request and for a reader of its answer; here a connection that has had no
answer for `timeout_s` since it was made or last answered is cut, whatever it is doing. Where there are too many, the
one that has waited longest for a request makes way: connections that say nothing shut no probe out.
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
    """Makes a protocol for each connection and knows those that are open, `most` at a time."""

    def __init__(self, web: Web, timeout_s: float, most: int) -> None:
        self.timeout_s = timeout_s
        self.most = most
        self.state = ServerState()
        # No log at all: strangers would write into it. No other protocols, and no header of a proxy is believed.
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
        """Does something to the transport of every open connection."""
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
        """Whether nothing of it is being answered."""
        if self.transport.is_closing():
            return False
        answering = cast("RequestResponseCycle | None", self.cycle)  # none yet before the first request
        return answering is None or answering.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn hangs up on who has only stopped asking
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
