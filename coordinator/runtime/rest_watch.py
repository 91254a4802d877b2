"""Describes led, stable groups at intervals to detect members that have changed without a rebalance.

Groups that are due are described together, with one request to each coordinator node. Groups without static members
cannot change and are not described.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.observation import notify
from bellwether_kafka.coordinator.watching import Troubles, every

TICK_S = 1.0
INTERVAL_S = 5.0
# Large groups have large answers and are described less often.
BYTES_PER_SECOND_MAX = 1_000_000

OnShown = Callable[[str, membership.ShownGroup], None]

log = structlog.get_logger(__name__)


class LedGroup(Protocol):
    """The part of `GroupRunner` that this module uses."""

    @property
    def membership(self) -> membership.MembershipView: ...


class RestingGroup(LedGroup, Protocol):
    """The same, of a group that may be rebalanced."""

    @property
    def uses_racks(self) -> bool: ...
    def post(self, event: membership.Event) -> None: ...


class DescribesGroups(Protocol):
    """The part of `observation.SharedGroups` that this module uses. It combines simultaneous requests to a node."""

    def describe_group(self, group_id: str) -> Awaitable[membership.DescribeAnswer]: ...


class RestWatch:
    """Watches all led groups of a process. `on_shown` receives each description that shows members."""

    def __init__(
        self,
        led: Mapping[str, RestingGroup],
        groups: DescribesGroups,
        on_shown: Sequence[OnShown] = (),
        *,
        clock: Callable[[], float] = clocks.monotonic,
    ) -> None:
        self._led = led
        self._groups = groups
        self._on_shown = on_shown
        self._clock = clock
        self._due: dict[str, float] = {}
        self._duels: dict[str, membership.Duels] = {}
        self._reported: dict[str, tuple[membership.MemberChange, ...]] = {}
        self._troubles = Troubles()

    async def run(self) -> None:
        """Runs until cancelled. Logs its own errors and goes on."""
        await every(TICK_S, self.turn, log, "groups_at_rest_not_watched")

    async def turn(self) -> None:
        now = self._clock()
        due = [group for group in self._led if self._rests(group) and self._next(group, now) <= now]
        self._due |= dict.fromkeys(due, now + INTERVAL_S)
        await asyncio.gather(*map(self._refresh, due))

    def _next(self, group: str, now: float) -> float:
        """Returns when the group is due. The first turns of many groups are spread over an interval."""
        return self._due.setdefault(group, now + zlib.crc32(group.encode()) % 1000 / 1000 * INTERVAL_S)

    def _rests(self, group: str) -> bool:
        member = self._led[group].membership
        rests = member.state is membership.State.STABLE and not member.alone
        return rests and membership.may_change(member.members, member.member_id)

    async def _refresh(self, group: str) -> None:
        generation = self._led[group].membership.generation
        try:
            described = membership.shown(await self._groups.describe_group(group))
        except (TransportError, membership.NotShownError) as error:
            self._troubled(group, str(error))
            return
        self._troubled(group, "")
        size = sum(len(m.metadata) + len(m.assignment) for m in described.members)
        self._due[group] = self._clock() + max(INTERVAL_S, size / BYTES_PER_SECOND_MAX)
        member = self._led[group].membership
        if member.generation != generation or not self._rests(group) or described.state != membership.GroupState.STABLE:
            return
        for observer in self._on_shown:
            notify(observer, group, described)
        led = self._led[group]
        for duel in self._duels.setdefault(group, membership.Duels()).shown(described, member.member_id):
            led.post(membership.WorkSuspected(duel))
        changes = membership.changed_members(member.members, described, member.member_id, racks=led.uses_racks)
        # A plan for exactly these changes has not helped, and another one would not.
        for change in changes if changes != self._reported.get(group) else ():
            led.post(change.wanted)
        self._reported[group] = changes

    def _troubled(self, group: str, why: str) -> None:
        self._troubles.report(log.info, "group_at_rest_not_shown", why, of=group, group=group)
