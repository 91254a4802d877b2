"""The first connection of a process. A cluster may start after Bellwether, its name may not be in the DNS yet, and a
login may be missing for a while: none of these ends the process, as it would not if it came later."""

import asyncio
from collections.abc import Iterable

import structlog

from bellwether_kafka.coordinator.kafka.wire import Transport, UnreachableError

CONNECT_TIMEOUT_MS = 10_000
AGAIN_S, AGAIN_S_MAX = 1.0, 10.0

log = structlog.get_logger(__name__)


class Connecting:
    """`trouble` is why the last attempt failed, "" before one has. Set `stopping` to end it."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.trouble = ""

    async def connect(self, transports: Iterable[Transport]) -> bool:
        """Connects all transports, however long that takes. Returns False if the process is to stop instead."""
        asked, pause_s, stop = tuple(transports), AGAIN_S, asyncio.create_task(self.stopping.wait())
        try:
            while not self.stopping.is_set():
                attempt = asyncio.create_task(_attempt(asked))
                await asyncio.wait((attempt, stop), return_when=asyncio.FIRST_COMPLETED)
                if not attempt.done():
                    attempt.cancel()
                    return False
                self.trouble = attempt.result()
                if not self.trouble:
                    return True
                log.warning("not_connected", reason=self.trouble, next_attempt_s=pause_s)
                await asyncio.wait((stop,), timeout=pause_s)
                pause_s = min(2 * pause_s, AGAIN_S_MAX)
            return False
        finally:
            stop.cancel()


async def _attempt(transports: Iterable[Transport]) -> str:
    """Returns why one of them is not connected, "" if all are."""
    outcomes = await asyncio.gather(*(each.start(CONNECT_TIMEOUT_MS) for each in transports), return_exceptions=True)
    for error in outcomes:
        if isinstance(error, UnreachableError):
            return str(error)
        if isinstance(error, BaseException):
            raise error
    return ""
