"""The end of a process is announced to the Bellwether that is to lead its group and does not lead it yet.

A broker elects the next leader when the leader is removed, among the members that are in the group then. So Bellwether
comes into the group first and removes the dead members itself; where it does not in time, the guard does.
"""

import asyncio
import time

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation, members
from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.guard.options import Echo

ANNOUNCED_S = 2.5  # for Bellwether's search for a member id, and the removal
POLL_S = 0.05
EXPIRES_MS = 60_000  # clocks of two machines differ
REASON = "its guard has seen the end"


class Announcement:
    """Of one process."""

    def __init__(self, log: evacuation.ControlLog, link: GroupLink, echo: Echo) -> None:
        self._log = log
        self._link = link
        self._echo = echo

    async def make(self, own: members.Belonging) -> None:
        """Returns when Bellwether has removed these members, or need not be waited for."""
        if not (own.member_ids or own.static):
            return
        try:
            async with asyncio.timeout(ANNOUNCED_S):
                await self._make(own)
        except TimeoutError:
            self._echo(f"Bellwether has not removed its members within {ANNOUNCED_S:g} s.")
        except evacuation.NotOrderedError as why:
            if why.passes:  # without a topic nothing is to be stated
                self._echo(f"Its end is not stated to a Bellwether that may be to lead: {why}")

    async def _make(self, own: members.Belonging) -> None:
        now_ms = int(time.time() * 1000)
        if not control.lead_is_wanted(self._link.group_id, await self._log.newest(), now_ms):
            return
        owner, expires_ms = evacuation.owner(), now_ms + EXPIRES_MS
        stopped = control.Stopped(self._link.group_id, own.member_ids, own.static, owner, now_ms, expires_ms, REASON)
        await self._log.write(*control.encode(stopped))
        if own.member_ids and await self._gone(own):
            self._echo("Bellwether has removed its members.")

    async def _gone(self, own: members.Belonging) -> bool:
        while True:
            answer = await self._link.describe()
            if answer is not None and not {m.member_id for m in answer.members} & {*own.member_ids}:
                return True
            await asyncio.sleep(POLL_S)
