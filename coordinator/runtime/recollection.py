"""What members hold, read again by a leader that has returned quietly. An error answer says nothing, so it is tried
again; a plan that is made meanwhile is less sticky."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka import ClusterUnreachableError, TransportError

AGAIN_S, AGAIN_S_MAX = 0.5, 30.0

log = structlog.get_logger(__name__)


class DescribesGroup(Protocol):
    """What is needed of `coordinator.kafka.Transport`."""

    async def describe_group(self, group_id: str) -> membership.DescribeAnswer: ...


async def recollect(
    group_id: str,
    groups: DescribesGroup,
    take: Callable[[membership.ShownGroup], Awaitable[None]],
    lasts: Callable[[], bool],
) -> None:
    """Hands what the group shows to `take`, which may raise, until that succeeds or the generation no longer lasts."""
    for again_s in _pauses():
        try:
            group = membership.shown(await groups.describe_group(group_id))
            if lasts():
                await take(group)
        except Exception as error:
            failure = {"reason": str(error) or type(error).__name__, "again_in_s": again_s}
            log.warning("memory_not_rebuilt", group=group_id, **failure, exc_info=not expected(error))
        else:
            return
        await asyncio.sleep(again_s)
        if not lasts():
            log.warning("memory_given_up", group=group_id, reason="another generation has begun")
            return


def expected(error: Exception) -> bool:
    """What brokers or the network cause, and no defect does."""
    return isinstance(error, (TransportError, TimeoutError, ClusterUnreachableError, membership.NotShownError))


def _pauses() -> Iterator[float]:
    """Without end, each twice as long as the one before."""
    pause_s = AGAIN_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, AGAIN_S_MAX)
