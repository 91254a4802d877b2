"""The order to empty this process before it stops: given through the control topic, as `bellwether evacuate` gives it.
It ends when the process is back in the group, or expires; the guard withdraws it where the process was not emptied.
"""

import getpass
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bellwether_kafka.coordinator import control, membership
from bellwether_kafka.coordinator.guard.group_link import REQUEST_TIMEOUT_MS, GroupLink
from bellwether_kafka.coordinator.kafka import (
    AppendRecord,
    FindLeader,
    NodeRequest,
    ReadLog,
    ReadRecords,
    TransportError,
)
from bellwether_kafka.coordinator.membership import DescribeAnswer, Node

# Every sidecar beats once a second, so this many records hold what all have said lately.
RECORDS_READ = 500
ONE_RECORD_BYTES = 1
OFFSET_OUT_OF_RANGE = 1
# Of a topic: LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS,
# NOT_ENOUGH_REPLICAS_AFTER_APPEND.
PASSING = frozenset((5, 6, 7, 13, 19, 20))
# A process may take long to close its stores and to come back, and must not get its tasks back meanwhile.
AWAY_MS = 600_000
EVERYTHING = "*"  # as `assignors/shared/rules.py` spells it
OWNER_UNKNOWN = "guard"
REASON = "it stops"  # of a guard's orders alone

T = TypeVar("T")


class NotOrderedError(Exception):
    """Nobody can be asked to empty the process; the message is a sentence. `passes`: it may be otherwise soon, as while
    a broker restarts."""

    def __init__(self, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.passes = passes


class ControlLog:
    """The control topic as group requests reach it. Public methods raise NotOrderedError."""

    def __init__(self, link: GroupLink, topic: str) -> None:
        self.link = link
        self._topic = topic
        self._leader: Node | None = None  # until it fails

    async def newest(self) -> Mapping[str, control.Record]:
        """The last readable records by key, of those that were written lately."""
        ends = await self._read(0, ONE_RECORD_BYTES)
        at = max(ends.start_offset, ends.end_offset - RECORDS_READ)
        found: dict[str, control.Record] = {}
        while at < ends.end_offset:
            part = await self._read(at)
            for key, value in part.records:
                _keep(found, key, value)
            if part.next_offset <= at:
                break
            at = part.next_offset
        return found

    async def write(self, key: bytes, value: bytes | None) -> None:
        request = AppendRecord(await self._found(), self._topic, key, value, REQUEST_TIMEOUT_MS)
        self._refuse((await self._ask(request, "written")).error, "written", "WRITE")

    async def _read(self, offset: int, bytes_max: int = 500_000) -> ReadRecords:
        request = ReadLog(await self._found(), self._topic, offset, REQUEST_TIMEOUT_MS, bytes_max)
        part = await self._ask(request, "read")
        if part.error == OFFSET_OUT_OF_RANGE and part.start_offset > offset:
            part = await self._ask(replace(request, offset=part.start_offset), "read")
        self._refuse(part.error, "read", "READ")
        return part

    async def _found(self) -> Node:
        """The leader of the topic."""
        if self._leader is not None:
            return self._leader
        any_node = await self.link.node()
        if any_node is None:
            why = f"The group's coordinator node is not found ({self.link.trouble})."
            raise NotOrderedError(why, passes=self.link.passes)
        try:
            found = await self.link.transport.ask(FindLeader(any_node, self._topic, REQUEST_TIMEOUT_MS))
        except TransportError as error:
            self.link.lost(str(error))
            raise NotOrderedError(f"The control topic '{self._topic}' is not found ({error}).", passes=True) from None
        if found.leader is None:
            why = f"There is no control topic '{self._topic}' ({membership.name_of(found.error)})."
            raise NotOrderedError(why, passes=found.error in PASSING)
        self._leader = found.leader
        return found.leader

    async def _ask(self, request: NodeRequest[T], what: str) -> T:
        try:
            return await self.link.transport.ask(request)
        except TransportError as failed:
            self._leader = None
            raise NotOrderedError(
                f"The control topic '{self._topic}' was not {what} ({failed}).", passes=True
            ) from None

    def _refuse(self, error: int, what: str, right: str) -> None:
        if not error:
            return
        self._leader = None
        why = f"The control topic '{self._topic}' was not {what} ({membership.name_of(error)})"
        if error in PASSING:
            raise NotOrderedError(f"{why}.", passes=True)
        raise NotOrderedError(f"{why}; grant {right} on it.")


@dataclass(frozen=True, slots=True)
class Evacuation:
    """Orders for the control topic. All methods raise NotOrderedError."""

    log: ControlLog
    orders: tuple[control.PlacementOrder, ...]

    async def give(self) -> None:
        await self._write([control.encode(order) for order in self.orders])

    async def record_empty(self, shown: DescribeAnswer) -> None:
        """What the leader records when it sees this. Where the leader dies before, nobody would see the order's end."""
        now_ms = int(time.time() * 1000)
        found = [control.look(order, None, shown, now_ms).absence for order in self.orders]
        empty = [absence for absence in found if absence is not None and absence.stage is control.Stage.EMPTY]
        await self._write([control.encode(absence) for absence in empty])

    async def withdraw(self) -> None:
        await self._write([(order.key.encode(), None) for order in self.orders])

    async def _write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in records:
            await self.log.write(key, value)


async def evacuation(log: ControlLog, places: Sequence[str], grace_s: float) -> Evacuation:
    """Orders that these (process ids or member ids) be emptied, not given yet. Raises NotOrderedError, also where no
    leader would carry them out."""
    now_ms = int(time.time() * 1000)
    records = await log.newest()
    why_not = objection(log.link.group_id, records, now_ms)
    if why_not:
        raise NotOrderedError(why_not)
    wanted = [_order(log.link.group_id, _member(place), now_ms, grace_s) for place in places]
    # What an operator has ordered already is not Bellwether's to withdraw.
    return Evacuation(log, tuple(order for order in wanted if not _stands(records.get(order.key), now_ms)))


async def withdraw_left(log: ControlLog, process_id: str, began_ms: int) -> bool:
    """Withdraws what an earlier guard has ordered for this process and could not withdraw, as without a network.
    Where it is recorded as empty, the leader ends the order. `began_ms` is when the process started. Returns whether
    there was such an order. Raises NotOrderedError."""
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
    """Why an evacuation would not be carried out, as a sentence; "" if it would. Pure."""
    beats = [r for r in records.values() if isinstance(r, control.Beat) and r.at_ms >= now_ms - control.HEARD_MS]
    leading = [beat for beat in beats if group_id in beat.leads]
    if not leading:
        return f"No Bellwether that leads '{group_id}' has reported within {control.HEARD_MS // 1000} s."
    if all(beat.policies and group_id not in beat.orders_for for beat in leading):
        return f"Bellwether plans '{group_id}' by a policy that does not know evacuations."
    return ""


def _stands(record: control.Record | None, now_ms: int) -> bool:
    return record is not None and record.expires_ms > now_ms


def _member(place: str) -> str:
    return f"member:{place}"


def _order(group_id: str, where: str, now_ms: int, grace_s: float) -> control.PlacementOrder:
    expires_ms = now_ms + int(grace_s * 1000) + AWAY_MS
    kind = control.PlacementKind.EVACUATE
    until = control.Until.BACK
    return control.PlacementOrder(kind, group_id, EVERYTHING, where, owner(), now_ms, expires_ms, REASON, until=until)


def owner() -> str:
    """Who gives the order, as far as this machine knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have
        user = OWNER_UNKNOWN
    return f"{user}@{socket.gethostname()}"


def _keep(found: dict[str, control.Record], key: bytes | None, value: bytes | None) -> None:
    name = (key or b"").decode(errors="replace")
    try:
        record = control.decode(key, value) if value is not None else None
    except control.RecordError:
        return
    found.pop(name, None)
    if record is not None:
        found[name] = record
