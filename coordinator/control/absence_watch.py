"""Polls groups with an evacuation that ends with an absence, and ends the evacuation. `absence` has the rules."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.control.absence import absence_update, left_behind
from bellwether_kafka.coordinator.control.absence_orders import AbsenceOrders
from bellwether_kafka.coordinator.control.records import Absence, PlacementOrder
from bellwether_kafka.coordinator.kafka import RemovedMembers, TransportError
from bellwether_kafka.coordinator.membership import REBALANCING, DescribeAnswer

# A rebalance is polled more often: it may wait for a stopped member whose successor has joined.
POLL_S, MOVING_POLL_S = 1.0, 0.25
# Large groups, whose answers are large, are polled less often.
BYTES_PER_SECOND_MAX = 1_000_000

log = structlog.get_logger(__name__)


Served = Callable[[str], Awaitable[DescribeAnswer | None]]


class Groups(Protocol):
    """The part of `coordinator.kafka.Transport` that is used here."""

    async def describe_group(self, group_id: str) -> DescribeAnswer: ...
    async def remove_from(self, group_id: str, reasons: Mapping[str, str]) -> RemovedMembers: ...


async def unknown(_: str) -> DescribeAnswer | None:
    return None


class AbsenceWatch:
    """Polls the groups of a process in `run`, until cancelled. Without such an order it sends no requests. `served`
    describes a group that its broker assigns as if a member led it; None if that is not possible now."""

    def __init__(
        self,
        orders: AbsenceOrders,
        groups: Groups,
        wall_clock: Callable[[], float] = clocks.wall,
        *,
        served: Served = unknown,
    ) -> None:
        self._orders = orders
        self._groups = groups
        self._served = served
        self._wall_clock = wall_clock
        self._trouble: dict[str, str] = {}
        self._back: dict[str, tuple[PlacementOrder, Absence]] = {}  # by key of the order: ended in this rebalance
        self._poll_requested = asyncio.Event()

    def poll_now(self) -> None:
        """Polls at once, because a rebalance has begun and a member may be back."""
        self._poll_requested.set()

    async def run(self) -> None:
        while True:
            pause_s = POLL_S
            self._poll_requested.clear()
            try:
                pause_s = await self.turn()
            except Exception:
                log.exception("absences_not_watched")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._poll_requested.wait()

    async def turn(self) -> float:
        """Polls each group that has such an order, or is still in the rebalance in which one ended. Returns the seconds
        until the next poll."""
        size, poll_s = 0, POLL_S
        for group in dict.fromkeys(order.target for order, _ in (*self._back.values(), *self._orders.in_force())):
            try:
                by_broker = self._orders.is_served(group)
                answer = await (self._served if by_broker else self._groups.describe_group)(group)
                if answer is None:
                    continue
                await self._check(group, answer)
            except TransportError as error:
                self._warn_once(group, str(error))
            else:
                self._warn_once(group, membership.name_of(answer.error) if answer.error else "")
                size += sum(len(m.metadata) + len(m.assignment) for m in answer.members)
                poll_s = MOVING_POLL_S if answer.state in REBALANCING else poll_s
        return max(poll_s, size / BYTES_PER_SECOND_MAX)

    async def _check(self, group: str, answer: DescribeAnswer) -> None:
        now_ms = int(self._wall_clock() * 1000)
        for order, absence in [back for back in self._back.values() if back[0].target == group]:
            await self._remove(order, left_behind(order, absence, answer))
            if answer.state not in REBALANCING:
                del self._back[order.key]
        for order, before in [item for item in self._orders.in_force() if item[0].target == group]:
            update = absence_update(order, before, answer, now_ms)
            self._orders.observe(order, update)
            await self._remove(order, update.remove)
            if update.ended and update.absence is not None:
                self._back[order.key] = order, update.absence

    async def _remove(self, order: PlacementOrder, member_ids: Sequence[str]) -> None:
        if not member_ids:
            return
        answer = await self._groups.remove_from(order.target, dict.fromkeys(member_ids, order.sentence))
        codes = {answer.error, *answer.errors.values()} - {membership.Code.NONE, membership.Code.UNKNOWN_MEMBER_ID}
        if codes:
            why = ", ".join(membership.name_of(code) for code in sorted(codes))
            log.warning("not_removed", group=order.target, where=order.where, reason=why)
        else:
            log.info("removed", group=order.target, where=order.where, members=len(member_ids), order=order.sentence)

    def _warn_once(self, group: str, why: str) -> None:
        if why and why != self._trouble.get(group):
            log.warning("absence_not_seen", group=group, reason=why)
        self._trouble[group] = why
