"""Describes groups in which an evacuation ends with an absence, and ends the evacuation; `absence` judges what is
seen."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.control.absence import Look, look
from bellwether_kafka.coordinator.control.records import Absence, PlacementOrder
from bellwether_kafka.coordinator.kafka import RemovedMembers, TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer

LOOK_S = 1.0
# Answers of large groups are large; such groups are looked at less often.
BYTES_PER_SECOND_MAX = 1_000_000

log = structlog.get_logger(__name__)


class Groups(Protocol):
    """What is needed of `coordinator.kafka.Transport`."""

    async def describe_group(self, group_id: str) -> DescribeAnswer: ...
    async def remove_from(self, group_id: str, reasons: Mapping[str, str]) -> RemovedMembers: ...


class Orders(Protocol):
    """What is needed of `Controller`."""

    def absences(self) -> Sequence[tuple[PlacementOrder, Absence | None]]: ...
    def absence_seen(self, order: PlacementOrder, found: Look) -> None: ...


class AbsenceWatch:
    """All groups of a process; `run` until it is cancelled. Without such an order it asks for nothing."""

    def __init__(self, orders: Orders, groups: Groups, wall_clock: Callable[[], float] = time.time) -> None:
        self._orders = orders
        self._groups = groups
        self._wall_clock = wall_clock
        self._trouble: dict[str, str] = {}

    async def run(self) -> None:
        while True:
            pause_s = LOOK_S
            try:
                pause_s = await self.turn()
            except Exception:
                log.exception("absences_not_watched")
            await asyncio.sleep(pause_s)

    async def turn(self) -> float:
        """One look at each group that has such an order; returns the seconds until the next."""
        size = 0
        for group in dict.fromkeys(order.target for order, _ in self._orders.absences()):
            try:
                answer = await self._groups.describe_group(group)
                await self._judge(group, answer)
            except TransportError as error:
                self._told_once(group, str(error))
            else:
                self._told_once(group, membership.name_of(answer.error) if answer.error else "")
                size += sum(len(m.metadata) + len(m.assignment) for m in answer.members)
        return max(LOOK_S, size / BYTES_PER_SECOND_MAX)

    async def _judge(self, group: str, answer: DescribeAnswer) -> None:
        now_ms = int(self._wall_clock() * 1000)
        for order, before in self._orders.absences():
            if order.target != group:
                continue
            found = look(order, before, answer, now_ms)
            self._orders.absence_seen(order, found)
            if found.remove:
                await self._remove(order, found.remove)

    async def _remove(self, order: PlacementOrder, member_ids: Sequence[str]) -> None:
        answer = await self._groups.remove_from(order.target, dict.fromkeys(member_ids, order.sentence))
        codes = {answer.error, *answer.errors.values()} - {membership.Code.NONE, membership.Code.UNKNOWN_MEMBER_ID}
        if codes:
            why = ", ".join(membership.name_of(code) for code in sorted(codes))
            log.warning("not_removed", group=order.target, where=order.where, reason=why)
        else:
            log.info("removed", group=order.target, where=order.where, members=len(member_ids), order=order.sentence)

    def _told_once(self, group: str, why: str) -> None:
        if why and why != self._trouble.get(group):
            log.warning("absence_not_seen", group=group, reason=why)
        self._trouble[group] = why
