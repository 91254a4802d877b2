"""The control topic as a guard reads and writes it: reduced to the records of one group, in bounded memory.

The guard reads the topic from its beginning: it is compacted, so an order that is days old may still be in force.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TypeVar

from bellwether_kafka.coordinator import control, membership
from bellwether_kafka.coordinator.guard.arguments import Echo
from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.kafka.wire import (
    OFFSET_OUT_OF_RANGE,
    Limits,
    TopicLog,
    TopicLogError,
    TransportError,
    Unread,
)

# Temporary errors of a topic: LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION,
# NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
PASSING = frozenset((5, 6, 7, 13, 19, 20))
# A guard may use only a few megabytes beside its application. This is enough for the heartbeat of an instance with two
# thousand groups.
FETCH_BYTES_MAX = 250_000
LIMITS = Limits(value_bytes=250_000, batch_bytes=500_000, batch_records=5_000, bytes=500_000)
KEPT_BYTES_MAX = 1_000_000  # of the records of one group
READ_S = 10.0  # for the whole topic
AFRESH_S = 60.0  # after this time the topic is read from its beginning again; until then only what is new
REPORTED_MAX = 100

T = TypeVar("T")


class NotOrderedError(Exception):
    """The evacuation cannot be ordered; the message is a sentence. `passes`: a retry may succeed soon, for example
    after a broker has restarted."""

    def __init__(self, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.passes = passes


def silent(_sentence: str) -> None:
    """Discards the sentence."""


class ControlLog:
    """Reads and writes the control topic. `echo` receives one sentence for each record that cannot be read. Public
    methods raise NotOrderedError."""

    def __init__(self, link: GroupLink, topic: str, echo: Echo = silent) -> None:
        self.link = link
        self._topic = topic
        self._echo = echo
        self._log = TopicLog(link.transport, topic, LIMITS, FETCH_BYTES_MAX)
        self._reported: set[tuple[int, str]] = set()
        self._records = _GroupRecords(link.group_id)
        self._began = float("-inf")

    async def newest(self) -> Mapping[str, control.Record]:
        """Returns by key the last readable record of each order and absence of this group, and the heartbeats of
        instances that lead it, claim to, or give its broker plans."""
        if time.monotonic() - self._began > AFRESH_S:
            self._begin_anew()
            self._log.at = 0
        try:
            async with asyncio.timeout(READ_S):
                return await self._read_on()
        except TimeoutError:
            why = f"The control topic '{self._topic}' was not read to its end within {READ_S:g} s."
            raise NotOrderedError(why, passes=True) from None

    def _begin_anew(self) -> None:
        self._records, self._began = _GroupRecords(self.link.group_id), time.monotonic()

    async def _read_on(self) -> Mapping[str, control.Record]:
        while True:
            part = await self._asked(self._log.next(), "read", "READ")
            if part.error == OFFSET_OUT_OF_RANGE:
                self._begin_anew()
                continue
            for unread in part.unread:
                self._report(unread)
            for key, value in part.records:
                self._records.take(key, value)
            if self._records.size > KEPT_BYTES_MAX:
                why = f"The control topic '{self._topic}' has more than {KEPT_BYTES_MAX} bytes about the group"
                raise NotOrderedError(f"{why}; withdraw orders that are not needed.")
            if self._log.at >= part.end_offset:
                return self._records.records()

    async def write(self, key: bytes, value: bytes | None) -> None:
        await self._asked(self._log.append(key, value), "written", "WRITE")

    def _report(self, unread: Unread) -> None:
        if (unread.offset, unread.reason) in self._reported or len(self._reported) >= REPORTED_MAX:
            return
        self._reported.add((unread.offset, unread.reason))
        self._echo(unread.sentence(self._topic))

    async def _asked(self, work: Coroutine[None, None, T], what: str, right: str) -> T:
        try:
            return await work
        except TransportError as failed:
            why = f"The control topic '{self._topic}' was not {what} ({failed})."
            raise NotOrderedError(why, passes=True) from None
        except TopicLogError as refused:
            passes, name = refused.code in PASSING, membership.name_of(refused.code)
            if not refused.leader_known:
                raise NotOrderedError(f"There is no control topic '{self._topic}' ({name}).", passes=passes) from None
            remedy = "" if passes else f"; grant {right} on it"
            why = f"The control topic '{self._topic}' was not {what} ({name}){remedy}."
            raise NotOrderedError(why, passes=passes) from None


class _GroupRecords:
    """Collects the records of one group from the topic. Heartbeats arrive every second, so only the newest of each
    instance is decoded. `size` is the number of bytes kept."""

    def __init__(self, group_id: str) -> None:
        self.size = 0
        self._group_id = group_id
        self._orders: dict[str, tuple[control.Record, int]] = {}
        self._heartbeats: dict[str, tuple[bytes, int]] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Takes one record. Call it in the order of the log."""
        name = (key or b"").decode(errors="replace")
        if name.startswith(f"{control.HEARTBEAT}/"):
            self._keep(self._heartbeats, name, value, value)
        elif name.startswith((f"{EVACUATE}/{self._group_id}/", f"{control.ABSENCE}/{self._group_id}/")):
            try:
                record = control.decode(key, value) if value is not None else None
            except control.RecordError:
                return  # the previous record of the key stays in force
            if value is None or record is not None:
                self._keep(self._orders, name, record, value)

    def _keep(self, kept: dict[str, tuple[T, int]], name: str, record: T | None, value: bytes | None) -> None:
        self.size -= kept.pop(name, (None, 0))[1]
        if record is not None and value is not None:
            kept[name] = (record, len(name) + len(value))
            self.size += kept[name][1]

    def records(self) -> dict[str, control.Record]:
        """Returns by key the orders and absences of the group, and heartbeats of instances that lead
        or claim it, or give its broker plans."""
        records = {name: record for name, (record, _) in self._orders.items()}
        for name, (value, _) in self._heartbeats.items():
            heartbeat = _heartbeat(name, value)
            if heartbeat is not None and self._group_id in (*heartbeat.leads, *heartbeat.claims, *heartbeat.serves):
                records[name] = self._reduced(heartbeat)
        return records

    def _reduced(self, heartbeat: control.InstanceHeartbeat) -> control.InstanceHeartbeat:
        """Returns the heartbeat without the instance's other groups, of which there may be thousands."""
        group = self._group_id
        leads, claims, orders_for, serves = (
            (group,) if group in groups else ()
            for groups in (heartbeat.leads, heartbeat.claims, heartbeat.orders_for, heartbeat.serves)
        )
        policies = {group: heartbeat.policies[group]} if group in heartbeat.policies else {}
        return replace(
            heartbeat,
            leads=leads,
            claims=claims,
            standby_for=(),
            hands_over=(),
            policies=policies,
            orders_for=orders_for,
            serves=serves,
        )


def _heartbeat(name: str, value: bytes) -> control.InstanceHeartbeat | None:
    try:
        record = control.decode(name.encode(errors="replace"), value)
    except control.RecordError:
        return None
    return record if isinstance(record, control.InstanceHeartbeat) else None


EVACUATE = control.OrderKind.EVACUATE.value
