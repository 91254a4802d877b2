"""Looks at one group on a timer and never joins it: the IO around `observe`."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from coordinator.events import DescribeAnswer
from coordinator.transport import Transport, TransportError

INTERVAL_S = 10.0

GroupObserverCallback = Callable[[str, DescribeAnswer], None]

log = structlog.get_logger(__name__)


class GroupObserver:
    """One group's. `run` returns 0 after `stop`; silence of brokers is a log line and not the end."""

    def __init__(
        self,
        group_id: str,
        transport: Transport,
        *,
        interval_s: float = INTERVAL_S,
        on_seen: Sequence[GroupObserverCallback] = (),
    ) -> None:
        self.group_id = group_id
        self.last: DescribeAnswer | None = None
        self._transport = transport
        self._interval_s = interval_s
        self._on_seen = on_seen
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> int:
        while not self._stopping.is_set():
            try:
                self.last = await self._transport.describe_group(self.group_id)
            except TransportError as error:
                log.warning("group_not_observed", group=self.group_id, reason=str(error))
            else:
                for observer in self._on_seen:
                    observer(self.group_id, self.last)
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._stopping.wait()
            except TimeoutError:
                continue
        return 0
