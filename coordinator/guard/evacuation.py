"""What a guard writes to the control topic: the order to evacuate its process before that stops, as `bellwether
evacuate` does, and the end of the process.

An evacuation ends when the process is back in the group or when it expires; the guard withdraws it if the process was
not evacuated. The end is announced to a Bellwether instance that is to lead the group but does not lead it yet: when
the leader is removed, the broker elects the next leader among the members that are in the group at that moment. So
Bellwether joins the group first and removes the dead members itself. If it does not do so in time, the guard removes
them.
"""

import asyncio
import getpass
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import members
from bellwether_kafka.coordinator.guard.arguments import Echo, GuardOptions, once
from bellwether_kafka.coordinator.guard.control_log import ControlLog, NotOrderedError
from bellwether_kafka.coordinator.guard.group_link import RETRY_S, GroupLink
from bellwether_kafka.coordinator.guard.guarded import Guarded
from bellwether_kafka.coordinator.guard.members import OwnMembers
from bellwether_kafka.coordinator.membership import DescribeAnswer

# A process may need long to close its stores and to restart, and must not get tasks in the meantime.
AWAY_MS = 600_000
EVERYTHING = "*"  # as `assignors/shared/rules.py` spells it
OWNER_UNKNOWN = "guard"
REASON = "it stops"  # only a guard's orders have this reason


class Evacuation:
    """Orders to write to the control topic. Before each write the topic is read, so that an operator's order for the
    same member is neither overwritten nor withdrawn. All methods raise NotOrderedError."""

    def __init__(self, log: ControlLog, orders: Sequence[control.PlacementOrder]) -> None:
        self.log = log
        self.orders = tuple(orders)

    async def give(self) -> None:
        in_force, now_ms = await self.log.newest(), int(time.time() * 1000)
        for order in self.orders:
            if in_force.get(order.key) == order or not _in_force(in_force.get(order.key), now_ms):
                await self._write(*control.encode(order))

    async def record_empty(self, shown: DescribeAnswer) -> None:
        """Records that the members are empty, as the leader does when it sees this answer. If the leader dies first,
        the order would otherwise not end when the process is back."""
        now_ms = int(time.time() * 1000)
        absences = [control.absence_update(order, None, shown, now_ms).absence for order in await self._given()]
        for absence in absences:
            if absence is not None and absence.stage is control.Stage.EMPTY:
                await self._write(*control.encode(absence))

    async def withdraw(self) -> None:
        for order in await self._given():
            await self._write(order.key.encode(), None)

    async def _given(self) -> list[control.PlacementOrder]:
        """Returns the orders that are in force unchanged, that is, not replaced by another writer."""
        in_force = await self.log.newest()
        return [order for order in self.orders if in_force.get(order.key) == order]

    async def _write(self, key: bytes, value: bytes | None) -> None:
        await self.log.write(key, value)


async def evacuation(log: ControlLog, places: Sequence[str], grace_s: float) -> Evacuation:
    """Returns orders to evacuate these process ids or member ids; nothing is written yet. Raises NotOrderedError, also
    if no leader would carry them out."""
    now_ms = int(time.time() * 1000)
    records = await log.newest()
    why_not = objection(log.link.group_id, records, now_ms)
    if why_not:
        raise NotOrderedError(why_not)
    wanted = [_order(log.link.group_id, _member(place), now_ms, grace_s) for place in places]
    return Evacuation(log, wanted)


async def withdraw_left(log: ControlLog, process_id: str, began_ms: int) -> bool:
    """Withdraws the orders for this process that an earlier guard could not withdraw, for example without a network.

    If the process is recorded as empty, nothing is done, because the leader ends the order. `began_ms` is when the
    process started. Returns whether there was such an order. Raises NotOrderedError.
    """
    records = await log.newest()
    group_id, where = log.link.group_id, _member(process_id)
    absence = records.get(control.absence_key(group_id, where))
    if isinstance(absence, control.Absence) and absence.stage is not control.Stage.EMPTYING:
        return False
    orders = [record for record in records.values() if isinstance(record, control.PlacementOrder)]
    left = [o for o in orders if (o.target, o.where, o.reason) == (group_id, where, REASON) and o.at_ms < began_ms]
    for order in left:
        await log.write(order.key.encode(), None)
    return bool(left)


def objection(group_id: str, records: Mapping[str, control.Record], now_ms: int) -> str:
    """Returns why an evacuation would not be carried out, as a sentence; "" if it would. Pure."""
    heartbeats = control.recent_heartbeats(records, now_ms)
    planning = [heartbeat for heartbeat in heartbeats if group_id in (*heartbeat.leads, *heartbeat.serves)]
    if not planning:
        within = f"has reported within {control.HEARTBEAT_AGE_MS_MAX // 1000} s."
        reported = f"No Bellwether that leads '{group_id}', or gives its broker plans, {within}"
        return reported + control.clocks_may_differ(records, group_id, now_ms)
    if all(heartbeat.policies and group_id not in heartbeat.orders_for for heartbeat in planning):
        return f"Bellwether plans '{group_id}' by a policy that does not know evacuations."
    return ""


def _in_force(record: control.Record | None, now_ms: int) -> bool:
    return record is not None and record.expires_ms > now_ms


def _member(place: str) -> str:
    return f"member:{place}"


def _order(group_id: str, where: str, now_ms: int, grace_s: float) -> control.PlacementOrder:
    expires_ms = now_ms + int(grace_s * 1000) + AWAY_MS
    kind = control.OrderKind.EVACUATE
    until = control.Until.BACK
    return control.PlacementOrder(kind, group_id, EVERYTHING, where, owner(), now_ms, expires_ms, REASON, until=until)


def owner() -> str:
    """Returns `user@host`, the owner of the guard's orders."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have
        user = OWNER_UNKNOWN
    return f"{user}@{socket.gethostname()}"


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
        self._order: Evacuation | None = None
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
            if await withdraw_left(self.log, process_id, began_ms):
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
            f" expires within {AWAY_MS // 60_000} minutes."
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
                self._order = self._order or await evacuation(self.log, places, self._options.grace_s)
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


ANNOUNCED_S = 2.5  # for Bellwether's search for a member id that leads, and for the removal
POLL_S = 0.05
EXPIRES_MS = 60_000  # clocks of two machines differ
END_REASON = "its guard has seen the end"


class Announcement:
    """Announces the end of one process."""

    def __init__(self, log: ControlLog, link: GroupLink, echo: Echo) -> None:
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
        except NotOrderedError as why:
            if why.passes:  # a lasting error, such as a missing topic, is not reported
                self._echo(f"Its end is not stated to a Bellwether that may be to lead: {why}")

    async def _make(self, own: members.Belonging) -> None:
        now_ms = int(time.time() * 1000)
        if not control.lead_is_wanted(self._link.group_id, await self._log.newest(), now_ms):
            return
        expires_ms = now_ms + EXPIRES_MS
        stopped = control.Stopped(
            self._link.group_id, own.member_ids, own.static, owner(), now_ms, expires_ms, END_REASON
        )
        await self._log.write(*control.encode(stopped))
        if own.member_ids and await self._gone(own):
            self._echo("Bellwether has removed its members.")

    async def _gone(self, own: members.Belonging) -> bool:
        while True:
            answer = await self._link.describe()
            if answer is not None and not {m.member_id for m in answer.members} & {*own.member_ids}:
                return True
            await asyncio.sleep(POLL_S)
