"""The end of a process is announced to the Bellwether that is to lead its group and does not lead it yet.

A broker elects the next leader when the leader is removed, among the members that are in the group then. So Bellwether
comes into the group first and removes the dead members itself; where it does not in time, the guard does.
"""

import asyncio
import time

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation, members
from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.guard.options import Say

ANNOUNCED_S = 2.5  # for Bellwether's search for a member id, and the removal
LOOK_S = 0.05
EXPIRES_MS = 60_000  # clocks of two machines differ
REASON = "its guard has seen the end"


class Announcement:
    """Of one process."""

    def __init__(self, log: evacuation.ControlLog, link: GroupLink, say: Say) -> None:
        self._log = log
        self._link = link
        self._say = say

    async def make(self, ours: members.Belonging) -> None:
        """Returns when Bellwether has removed these members, or need not be waited for."""
        if not (ours.member_ids or ours.static):
            return
        try:
            async with asyncio.timeout(ANNOUNCED_S):
                await self._make(ours)
        except TimeoutError:
            self._say(f"Bellwether has not removed its members within {ANNOUNCED_S:g} s.")
        except evacuation.NotOrderedError as why:
            if why.passes:  # without a topic nothing is to be stated
                self._say(f"Its end is not stated to a Bellwether that may be to lead: {why}")

    async def _make(self, ours: members.Belonging) -> None:
        now_ms = int(time.time() * 1000)
        if not control.lead_is_wanted(self._link.group_id, await self._log.newest(), now_ms):
            return
        owner, expires_ms = evacuation.owner(), now_ms + EXPIRES_MS
        stopped = control.Stopped(self._link.group_id, ours.member_ids, ours.static, owner, now_ms, expires_ms, REASON)
        await self._log.write(*control.encode(stopped))
        if ours.member_ids and await self._gone(ours):
            self._say("Bellwether has removed its members.")

    async def _gone(self, ours: members.Belonging) -> bool:
        while True:
            answer = await self._link.describe()
            if answer is not None and not {m.member_id for m in answer.members} & {*ours.member_ids}:
                return True
            await asyncio.sleep(LOOK_S)
