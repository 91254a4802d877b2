"""Reads the brokers' group.max.size until it is known: at the start, and repeatedly if that fails."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from bellwether_kafka.coordinator.membership import NOT_READ, SizeLimit

# The first retries are soon, as a broker may just be busy or away. Later ones go on, because a permission may be
# granted at any time and the request costs little.
AGAIN_S, AGAIN_S_MAX = 5.0, 300.0

log = structlog.get_logger(__name__)


class SizeLimitWatch:
    """`ask` blocks and runs in a thread. `changed` is called with each answer that differs from the one before."""

    def __init__(
        self,
        ask: Callable[[], SizeLimit],
        changed: Callable[[SizeLimit], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limit = NOT_READ
        self._ask = ask
        self._changed = changed
        self._sleep = sleep

    async def refresh(self) -> SizeLimit:
        before, self.limit = self.limit, await asyncio.to_thread(self._ask)
        if self.limit.members is None and self.limit != before:
            log.warning("group_size_limit_unknown", reason=f"{self.limit.unknown}; {self.limit.remedy}")
        return self.limit

    async def run(self) -> None:
        """Runs until the limit is known. Logs its own errors and goes on."""
        pause_s = AGAIN_S
        while self.limit.members is None:
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S_MAX)
            before = self.limit
            try:
                if await self.refresh() != before:
                    self._changed(self.limit)
            except Exception:
                log.exception("group_size_limit_not_read")
