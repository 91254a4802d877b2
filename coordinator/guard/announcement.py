"""Announces the end of a process to a Bellwether instance that is to lead the group but does not lead it yet.

When the leader is removed, the broker elects the next leader among the members that are in the group at that moment. So
Bellwether joins the group first and removes the dead members itself. If it does not do so in time, the guard removes
them.
"""

import asyncio
import time

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation, members
from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.guard.guard_options import Echo

ANNOUNCED_S = 2.5  # for Bellwether's search for a member id that leads, and for the removal
POLL_S = 0.05
EXPIRES_MS = 60_000  # clocks of two machines differ
REASON = "its guard has seen the end"


class Announcement:
    """Announces the end of one process."""

    def __init__(self, log: evacuation.ControlLog, link: GroupLink, echo: Echo) -> None:
        self._log = log
        self._link = link
        self._echo = echo

    async def make(self, own: members.Belonging) -> None:
        """Announces the end of these members. Returns when Bellwether has removed them, when no Bellwether instance is
        to lead the group, or after `ANNOUNCED_S`."""
        if not (own.member_ids or own.static):
            return
        try:
            async with asyncio.timeout(ANNOUNCED_S):
                await self._make(own)
        except TimeoutError:
            self._echo(f"Bellwether has not removed its members within {ANNOUNCED_S:g} s.")
        except evacuation.NotOrderedError as why:
            if why.passes:  # a lasting error, such as a missing topic, is not reported
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
