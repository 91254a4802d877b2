"""Keeps the configured racks of led groups up to date: reads the rack file again, asks where new members are, and asks
for a rebalance if racks that have become known would save reads from other racks.

A plan does not wait for this. Groups are described while they rebalance, so that the hosts of new members are mostly
known in time, and at rest until every member has been shown.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from bellwether_kafka.assignors.shared import RefusalError
from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.planning import Planner, RackFile, RackRules
from bellwether_kafka.coordinator.runtime.rest_watch import DescribesGroups, LedGroup

TICK_S = 1.0
AGAIN_S = 10.0  # after a request that brought nothing new, or a comparison that failed

log = structlog.get_logger(__name__)


class RackWatch:
    """Watches all led groups of a process. `planners` are those of the groups; `wanted` is called with (group, reason).
    `plan_s_max` limits one comparison."""

    def __init__(
        self,
        rules: RackRules,
        led: Mapping[str, LedGroup],
        planners: Mapping[str, Planner[Any]],
        groups: DescribesGroups,
        wanted: Callable[[str, str], None],
        *,
        plan_s_max: float = AGAIN_S,
        clock: Callable[[], float] = clocks.monotonic,
    ) -> None:
        self._rules = rules
        self._led = led
        self._planners = planners
        self._groups = groups
        self._wanted = wanted
        self._plan_s_max = plan_s_max
        self._clock = clock
        self._poll_requested = asyncio.Event()
        self._due: dict[str, float] = {}
        self._compared: dict[str, tuple[int, tuple[int, int]]] = {}  # the generation, and the version of its racks

    def poll_now(self) -> None:
        """Describes groups that join now: brokers list a new member as soon as its JoinGroup has begun a rebalance."""
        self._poll_requested.set()

    async def run(self) -> None:
        """Runs until cancelled. Logs its own errors and goes on."""
        watching = [self._watch_groups()]
        if self._rules.file is not None:
            watching.append(self._watch_file(self._rules.file))
        await asyncio.gather(*watching)

    async def _watch_groups(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TICK_S):
                    await self._poll_requested.wait()
            except TimeoutError:
                pass
            self._poll_requested.clear()
            await self.turn()

    async def _watch_file(self, file: RackFile) -> None:
        """Reads the file beside the groups, which do not wait for it: its file system may hang."""
        while True:
            try:
                await asyncio.to_thread(file.refresh, self._clock())
            except Exception:
                log.exception("rack_file_not_watched")
            await asyncio.sleep(TICK_S)

    async def turn(self) -> None:
        """Describes and compares the groups that are due. An error in one is logged and does not stop others."""
        groups = list(self._led)
        errors = await asyncio.gather(*map(self._turn, groups), return_exceptions=True)
        for group, error in zip(groups, errors, strict=True):
            if isinstance(error, Exception):
                log.error("racks_not_watched", group=group, exc_info=error)

    def on_shown(self, group: str, described: membership.ShownGroup) -> None:
        """Receives a description that something else has requested."""
        self._planners[group].racks.observe(described.members)

    async def _turn(self, group_id: str) -> None:
        """Describes and compares a group unless nothing has changed since the last time."""
        member, racks = self._led[group_id].membership, self._planners[group_id].racks
        if member.state is membership.State.JOINING and self._rules.need_hosts:
            await self._describe(group_id)
        if not self._rests(group_id) or self._is_compared(group_id) or not self._is_due(group_id):
            return
        if racks.lacks(others(member)):
            await self._describe(group_id)
        if self._rests(group_id):
            await self._compare(group_id)

    def _is_compared(self, group_id: str) -> bool:
        generation, version = self._led[group_id].membership.generation, self._planners[group_id].racks.version
        return self._compared.get(group_id) == (generation, version)

    def _rests(self, group_id: str) -> bool:
        member = self._led[group_id].membership
        return member.state is membership.State.STABLE and not member.alone and bool(member.members)

    def _is_due(self, group_id: str) -> bool:
        return self._due.get(group_id, 0.0) <= self._clock()

    async def _describe(self, group_id: str) -> None:
        try:
            described = await self._groups.describe_group(group_id)
        except TransportError as error:
            log.debug("hosts_not_read", group=group_id, reason=str(error))
            return
        self._planners[group_id].racks.observe(described.members)

    async def _compare(self, group_id: str) -> None:
        """Asks for a rebalance if the racks are others than those of the last plan, and a plan by them reads less from
        other racks."""
        member, planner = self._led[group_id].membership, self._planners[group_id]
        compared = member.generation, planner.racks.version
        changed = planner.racks_changed(others(member))
        if changed:
            deadline = clocks.monotonic() + self._plan_s_max
            command = membership.Decide(
                member.generation, member.protocol, member.members, member.member_id, deadline, dry=True
            )
            try:
                reason = await planner.gain_of_racks(command)
            except RefusalError as error:
                log.info("racks_not_compared", group=group_id, generation=member.generation, reason=str(error))
                self._due[group_id] = self._clock() + AGAIN_S
                return
            if reason and self._rests(group_id) and self._led[group_id].membership.generation == member.generation:
                self._wanted(group_id, reason)
        if planner.racks.lacks(others(member)):
            self._due[group_id] = self._clock() + AGAIN_S
        elif changed is not None:
            self._compared[group_id] = compared


def others(member: membership.MembershipView) -> tuple[membership.JoinedMember, ...]:
    """Returns the members other than Bellwether's own."""
    return tuple(m for m in member.members if m.member_id != member.member_id)
