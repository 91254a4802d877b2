"""The order to evacuate the guarded process before it stops, written to the control topic as `bellwether evacuate`
does. It ends when the process is back in the group or when it expires; the guard withdraws it if the process was not
evacuated."""

import getpass
import socket
import time
from collections.abc import Mapping, Sequence

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard.control_log import ControlLog, NotOrderedError
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
