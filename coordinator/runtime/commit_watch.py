"""Reads, at intervals, the committed offsets of groups that Bellwether watches while they have no members. Consumers
that assign themselves partitions, or a mirror of another cluster, write them then; the membership decides what follows.

The reads run beside the membership.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, TransportError
from bellwether_kafka.coordinator.observation import MemberlessCommits
from bellwether_kafka.coordinator.watching import Troubles, every

TICK_S = 1.0
INTERVAL_S = 10.0
GROUPS_AT_ONCE = 20  # per tick; with more groups, each is read less often

log = structlog.get_logger(__name__)


class Watcher(Protocol):
    """The part of `GroupRunner` that this module uses."""

    def post(self, event: membership.Event) -> None: ...

    @property
    def membership(self) -> membership.MembershipView: ...


class CommitReader(Protocol):
    """The part of `kafka.Transport` that this module uses."""

    def any_committed(self, group_id: str) -> Awaitable[AnyCommitted]: ...

    def describe_group(self, group_id: str) -> Awaitable[membership.DescribeAnswer]: ...


def read_of(commits: MemberlessCommits, *, committed: bool) -> membership.OffsetsRead:
    return membership.OffsetsRead(committed, commits.moves, commits.rest_ms / 1000)


class CommitWatch:
    """Watches the groups to lead of one process. `clock` is in seconds, monotonic."""

    def __init__(
        self, watchers: Mapping[str, Watcher], brokers: CommitReader, *, clock: Callable[[], float] = clocks.monotonic
    ) -> None:
        self._watchers = watchers
        self._brokers = brokers
        self._clock = clock
        self._due: dict[str, float] = {}
        self._commits: dict[str, MemberlessCommits] = {}
        self._troubles = Troubles()

    async def run(self) -> None:
        """Runs until cancelled. Logs its own errors and goes on."""
        await every(TICK_S, self.turn, log, "commits_not_watched")

    async def turn(self) -> None:
        """Reads the offsets of the groups that have waited longest."""
        now = self._clock()
        for group, watcher in self._watchers.items():
            if not watcher.membership.watches_memberless:
                self._due.pop(group, None)
                self._commits.pop(group, None)
            else:
                self._due.setdefault(group, now)
        due = sorted((at, group) for group, at in self._due.items() if at <= now)[:GROUPS_AT_ONCE]
        self._due |= {group: now + INTERVAL_S for _, group in due}
        await asyncio.gather(*(self._read(group) for _, group in due))

    async def _read(self, group: str) -> None:
        try:
            read = await self._next(group)
        except TransportError as error:
            self._report(group, str(error))
            return
        if read is not None and self._watchers[group].membership.watches_memberless:
            self._watchers[group].post(read)

    async def _next(self, group: str) -> membership.OffsetsRead | None:
        """Returns one more reading since the group has had no members; None if a member may have committed meanwhile,
        or nothing could be read. Raises TransportError."""
        answer = await self._brokers.any_committed(group)
        if answer.error:
            self._report(group, membership.name_of(answer.error))
            return None
        self._report(group, "")
        at_ms = int(self._clock() * 1000)
        before = self._commits.get(group) or MemberlessCommits(at_ms)
        after = before.after(answer.offsets, at_ms)
        if after.moves > before.moves and not await self._is_memberless(group):
            self._commits.pop(group, None)
            return None
        if after.moves == 1 and not before.moves:
            log.info("offsets_committed_without_members", group=group)
        if self._watchers[group].membership.watches_memberless:
            self._commits[group] = after
        return read_of(after, committed=answer.committed)

    async def _is_memberless(self, group: str) -> bool:
        described = await self._brokers.describe_group(group)
        return not described.error and described.state == membership.GroupState.EMPTY and not described.members

    def _report(self, group: str, why: str) -> None:
        self._troubles.report(log.info, "commits_not_read", why, of=group, group=group)
