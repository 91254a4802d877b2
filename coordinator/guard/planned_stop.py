"""Evacuates a process before the guard stops it: orders the evacuation, waits for it and records it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation
from bellwether_kafka.coordinator.guard.control_log import ControlLog, NotOrderedError
from bellwether_kafka.coordinator.guard.group_link import RETRY_S, GroupLink
from bellwether_kafka.coordinator.guard.guard_options import Echo, GuardOptions, once
from bellwether_kafka.coordinator.guard.guarded import Guarded
from bellwether_kafka.coordinator.guard.own_members import OwnMembers
from bellwether_kafka.coordinator.membership import DescribeAnswer

EMPTYING_POLL_S = 0.2
WITHDRAW_S = 5.0  # after the end of the process; its next start waits for the guard


class PlannedStop:
    """The planned stop of one process. `log` is the control topic. `empty_at` is when the process was seen without
    partitions, None before."""

    def __init__(self, process: Guarded, options: GuardOptions, link: GroupLink, own: OwnMembers, echo: Echo) -> None:
        self.empty_at: float | None = None
        self._process = process
        self._options = options
        self._link = link
        self._own = own
        self._echo = echo
        self.log = ControlLog(link, options.control_topic, once(echo))
        self._order: evacuation.Evacuation | None = None
        self._shown_empty: DescribeAnswer | None = None
        self._is_back = False  # whether the process has been seen in the group

    async def withdraw_left(self) -> None:
        """Withdraws an earlier guard's order, once the process is in the group: it may have been stopped without a
        network, before it was empty."""
        process_id = self._own.process_id
        if self._is_back or not (self._options.grace_s and process_id and self._own.now().member_ids):
            return
        self._is_back = True
        with suppress(NotOrderedError):
            began_ms = int((time.time() - self._process.lived_s) * 1000)
            if await evacuation.withdraw_left(self.log, process_id, began_ms):
                self._echo("It is back: the order of an earlier guard to empty it is withdrawn.")

    async def empty(self, until_urgent: Callable[[], Coroutine[None, None, None]]) -> None:
        """Orders the evacuation and waits for it, until `grace_s` is over, a second SIGTERM, or the process' end."""
        if not self._options.grace_s:
            return
        own = self._own.now()
        if not own.member_ids:
            self._echo("It has no proven member, so there is nothing to empty; it is stopped at once.")
            for objection in own.objections:
                self._echo(f"Not emptied: {objection}.")
            return
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._options.grace_s):
                await _first(self._evacuated(), until_urgent())
        except NotOrderedError as why:
            self._echo(f"It is not emptied before it stops: {why}")
        except TimeoutError:
            self._echo(f"It is not empty after {self._options.grace_s:g} s, and is stopped.")
        else:
            outcome = "stopped at once, by a second signal," if self._process.urgent else "empty"
            outcome = "gone by itself" if self._process.ended else outcome
            self._echo(f"It is {outcome} after {time.monotonic() - began:.1f} s.")

    async def record_empty(self) -> None:
        """Records that the process is empty. The leader records the same, but if it dies or loses the network just now,
        the order would not end when the process is back."""
        if self._order is not None and self._shown_empty is not None:
            with suppress(NotOrderedError):
                await self._order.record_empty(self._shown_empty)

    async def end(self) -> None:
        """Withdraws the order after the end of a process that was not evacuated. The order for an evacuated one stays
        in force until the leader sees the process back."""
        if self._order is None or self._shown_empty is not None:
            return
        why = "the brokers do not answer"
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHDRAW_S):
                while True:
                    try:
                        await self._order.withdraw()
                    except NotOrderedError as error:
                        why = str(error).removesuffix(".")
                    else:
                        return
                    await asyncio.sleep(RETRY_S)
        self._echo(
            f"Its order to be emptied is not withdrawn ({why}): it ends when the process is back in the group, or"
            f" expires within {evacuation.AWAY_MS // 60_000} minutes."
        )

    async def _evacuated(self) -> None:
        process_id = self._own.process_id
        await self._ordered([process_id] if process_id else self._own.now().member_ids)
        while True:
            answer = await self._link.describe()
            if answer is not None:
                self._own.take(answer)
                if control.handed_over(self._own.had, answer, self._own.now().member_ids):
                    self._shown_empty, self.empty_at = answer, time.monotonic()
                    return
            await asyncio.sleep(EMPTYING_POLL_S)

    async def _ordered(self, places: Sequence[str]) -> None:
        """Gives the order. Retries while the error is temporary, such as a broker that restarts."""
        echo_once = once(self._echo)
        while True:
            try:
                # Kept before it is written, so that it is withdrawn in any case.
                self._order = self._order or await evacuation.evacuation(self.log, places, self._options.grace_s)
                await self._order.give()
            except NotOrderedError as why:
                if not why.passes:
                    raise
                echo_once(f"It is not emptied yet: {why}")
                await asyncio.sleep(RETRY_S)
            else:
                return


async def _first(work: Coroutine[None, None, None], otherwise: Coroutine[None, None, None]) -> None:
    """Returns when one of them is done; raises what `work` raises."""
    working, other = asyncio.create_task(work), asyncio.create_task(otherwise)
    try:
        await asyncio.wait((working, other), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
    finally:
        working.cancel()
        other.cancel()
