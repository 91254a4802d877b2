"""What is asked of brokers until they answer: the first connection, the largest size of groups, the assignments of a
group to which a leader has returned, the offsets of an empty group. The pause between two attempts doubles.

A cluster may start after Bellwether, its name may not be in the DNS yet, a login or a permission may be missing for a
while: none of these ends the process, as it would not if it came later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError, UnreachableError
from bellwether_kafka.coordinator.membership import NOT_READ, Event, MembershipConfig, MembershipView, SizeLimit, State

CONNECT_TIMEOUT_MS = 10_000
CONNECT_AGAIN_S, CONNECT_AGAIN_S_MAX = 1.0, 10.0
# The first retries are soon, as a broker may just be busy or away. Later ones go on, because a permission may be
# granted at any time and the request costs little.
LIMIT_AGAIN_S, LIMIT_AGAIN_S_MAX = 5.0, 300.0
REBUILD_AGAIN_S, REBUILD_AGAIN_S_MAX = 0.5, 30.0
OFFSETS_AGAIN_S = 10.0
IN_FRONT_POLL_S = 0.02
HANDLED_S = 0.1  # a posted event has been handled after this time
BEFORE_REMOVAL_S = 1.0  # to join the group, in addition to the search for a member id

log = structlog.get_logger(__name__)


def pauses(first_s: float, max_s: float) -> Iterator[float]:
    """Yields pauses in seconds without end; each is twice the one before, up to `max_s`."""
    while True:
        yield first_s
        first_s = min(2 * first_s, max_s)


class DescribesGroup(Protocol):
    """The part of `kafka.wire.Transport` that this module uses."""

    async def describe_group(self, group_id: str) -> membership.DescribeAnswer: ...


class Joins(Protocol):
    """The part of `GroupRunner` that this module uses."""

    config: MembershipConfig

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...


class Connecting:
    """The first connection of a process. `trouble` is why the last attempt failed, "" before one has. Set `stopping` to
    end it."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.trouble = ""

    async def connect(self, starts: Iterable[Callable[[int], Awaitable[None]]]) -> bool:
        """Connects transports by their `start`, however long that takes. Returns False if the process is to stop
        instead."""
        asked, stop = tuple(starts), asyncio.create_task(self.stopping.wait())
        try:
            for pause_s in pauses(CONNECT_AGAIN_S, CONNECT_AGAIN_S_MAX):
                if self.stopping.is_set():
                    break
                attempt = asyncio.create_task(_attempt(asked))
                await asyncio.wait((attempt, stop), return_when=asyncio.FIRST_COMPLETED)
                if not attempt.done():
                    attempt.cancel()
                    break
                self.trouble = attempt.result()
                if not self.trouble:
                    return True
                log.warning("not_connected", reason=self.trouble, next_attempt_s=pause_s)
                await asyncio.wait((stop,), timeout=pause_s)
            return False
        finally:
            stop.cancel()


async def _attempt(starts: Iterable[Callable[[int], Awaitable[None]]]) -> str:
    """Returns why one of them is not connected, "" if all are."""
    outcomes = await asyncio.gather(*(start(CONNECT_TIMEOUT_MS) for start in starts), return_exceptions=True)
    for error in outcomes:
        if isinstance(error, UnreachableError):
            return str(error)
        if isinstance(error, BaseException):
            raise error
    return ""


class SizeLimitWatch:
    """Reads the brokers' group.max.size. `ask` blocks and runs in a thread. `changed` is called with each answer that
    differs from the one before."""

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
        for pause_s in pauses(LIMIT_AGAIN_S, LIMIT_AGAIN_S_MAX):
            if self.limit.members is not None:
                return
            await self._sleep(pause_s)
            before = self.limit
            try:
                if await self.refresh() != before:
                    self._changed(self.limit)
            except Exception:
                log.exception("group_size_limit_not_read")


async def rebuild_memory(
    group_id: str,
    groups: DescribesGroup,
    take: Callable[[membership.ShownGroup], Awaitable[None]],
    lasts: Callable[[], bool],
) -> None:
    """Passes the described group to `take`, which may raise. Repeats until that succeeds or `lasts` returns False,
    which means that the generation has ended. A plan made in the meantime is less sticky."""
    for again_s in pauses(REBUILD_AGAIN_S, REBUILD_AGAIN_S_MAX):
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


async def in_front(
    group: Joins, groups: DescribesGroup, seen: membership.DescribeAnswer, dead: tuple[str, ...]
) -> bool:
    """Waits until these dead members may be removed, at most roll_ms_max and one second. Returns True if Bellwether is
    in the group and will lead if the leader is one of them; False if it does not try or has failed."""
    if not _is_in(group, State.WATCHING):
        return bool(group.membership.in_front)
    group.post(membership.DeathsProven(seen, dead))
    began, limit_s = clocks.monotonic(), group.config.roll_ms_max / 1000 + BEFORE_REMOVAL_S
    while (waited_s := clocks.monotonic() - began) < limit_s:
        await asyncio.sleep(IN_FRONT_POLL_S)
        if waited_s > HANDLED_S and not _is_in(group, State.APPROACHING):
            return False
        member_id = group.membership.in_front
        if member_id and await _is_listed(group.config.group_id, groups, member_id):
            return True
    return False


def _is_in(group: Joins, state: State) -> bool:
    return group.membership.state is state


async def _is_listed(group_id: str, groups: DescribesGroup, member_id: str) -> bool:
    """Returns whether the broker has read this member's JoinGroup."""
    try:
        described = await groups.describe_group(group_id)
    except TransportError:
        return False
    return any(member.member_id == member_id for member in described.members)


def expected(error: Exception) -> bool:
    """Returns whether brokers or the network cause such an error, and not a bug."""
    return isinstance(error, (TransportError, TimeoutError, ClusterUnreachableError, membership.NotShownError))


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
        await asyncio.sleep(OFFSETS_AGAIN_S)
