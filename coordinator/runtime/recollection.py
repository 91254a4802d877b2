"""Reads from brokers what a runner has to know of its group: the members' assignments after a leader has returned
without a rebalance, whether a member is listed, and whether an empty group has committed offsets."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError

ASK_AGAIN_S = 10.0
AGAIN_S, AGAIN_S_MAX = 0.5, 30.0

log = structlog.get_logger(__name__)


class DescribesGroup(Protocol):
    """The part of `coordinator.kafka.wire.Transport` that this module uses."""

    async def describe_group(self, group_id: str) -> membership.DescribeAnswer: ...


async def rebuild_memory(
    group_id: str,
    groups: DescribesGroup,
    take: Callable[[membership.ShownGroup], Awaitable[None]],
    lasts: Callable[[], bool],
) -> None:
    """Passes the described group to `take`, which may raise. Repeats until that succeeds or `lasts` returns False,
    which means that the generation has ended. A plan made in the meantime is less sticky."""
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


async def is_listed(group_id: str, groups: DescribesGroup, member_id: str) -> bool:
    """Returns whether the broker has read this member's JoinGroup."""
    try:
        described = await groups.describe_group(group_id)
    except TransportError:
        return False
    return any(member.member_id == member_id for member in described.members)


def expected(error: Exception) -> bool:
    """Returns whether brokers or the network cause such an error, and not a bug."""
    return isinstance(error, (TransportError, TimeoutError, ClusterUnreachableError, membership.NotShownError))


def _pauses() -> Iterator[float]:
    """Yields pauses in seconds without end; each is twice the one before, up to a maximum."""
    pause_s = AGAIN_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, AGAIN_S_MAX)


async def find_offsets(group_id: str, transport: Transport, found: Callable[[], None]) -> None:
    """Reads the group's committed offsets until a broker has answered. Calls `found` if there are any."""
    while True:
        try:
            answer = await transport.any_committed(group_id)
        except TransportError as error:
            reason = str(error)
        else:
            if answer.committed:
                found()
            if not answer.error:
                return
            reason = membership.name_of(answer.error)
        log.info("offsets_not_found_out", group=group_id, reason=reason)
        await asyncio.sleep(ASK_AGAIN_S)
