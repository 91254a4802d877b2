"""The evacuations of a process, with the absence of each that ends with one, and the polls of their groups. `absence`
has the rules."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.control.absence import AbsenceUpdate, absence_update, left_behind
from bellwether_kafka.coordinator.control.group_roles import ControlledGroup, given_up, leads
from bellwether_kafka.coordinator.control.kept_orders import KeptOrders
from bellwether_kafka.coordinator.control.order_kinds import OrderKind
from bellwether_kafka.coordinator.control.records import Absence, PlacementOrder, Stage, Until, absence_key
from bellwether_kafka.coordinator.control.served_orders import ServedOrders
from bellwether_kafka.coordinator.kafka.wire import RemovedMembers, TransportError
from bellwether_kafka.coordinator.membership import REBALANCING, DescribeAnswer
from bellwether_kafka.coordinator.watching import Troubles

# A rebalance is polled more often: it may wait for a stopped member whose successor has joined.
POLL_S, MOVING_POLL_S = 1.0, 0.25
# Large groups, whose answers are large, are polled less often.
BYTES_PER_SECOND_MAX = 1_000_000
# Polls at once: those of groups without an answer to the last one wait for each other, and no others wait for them. A
# group that had an answer then, and gets none now, counts among the others for SLOW_S only.
POLLS_MAX, POLLS_IN_TROUBLE_MAX = 32, 4
SLOW_S = 1.0

log = structlog.get_logger(__name__)

Served = Callable[[str], Awaitable[DescribeAnswer | None]]
Evacuations = tuple[tuple[PlacementOrder, Absence | None], ...]


class Absences:
    """Evacuations in force in the groups that this process leads, and in `served` ones. `review` is called when one
    has ended."""

    def __init__(
        self,
        groups: Mapping[str, ControlledGroup],
        kept: KeptOrders,
        served: ServedOrders,
        review: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._groups = groups
        self._kept = kept
        self._served = served
        self._review = review

    def in_force(self, group: str | None = None) -> Evacuations:
        """Returns the orders that end with an absence, of all groups or of one, and the absence of each. If an
        application's member leads the group, only orders whose member was already evacuated are included: its return is
        visible under any leader."""
        if not self._kept.answered.is_set():
            return ()
        orders = self._kept.orders
        in_force = orders.all_placements(self._kept.now_ms()) if group is None else self._kept.of(group).placements
        tied = [order for order in in_force if order.until is not Until.EXPIRY]
        return tuple((order, orders.absence(order)) for order in tied if self._watches(order))

    def is_served(self, group: str) -> bool:
        """Returns whether the group's broker assigns and this process acts on its orders."""
        return group not in self._groups and self._served.acts_on(group)

    def _watches(self, order: PlacementOrder) -> bool:
        if order.target not in self._groups:
            return order.until is Until.BACK and self.is_served(order.target)  # a broker's group is never removed from
        state, absence = self._groups[order.target], self._kept.orders.absence(order)
        evacuated = absence is not None and absence.stage is not Stage.EMPTYING
        return leads(state.runner) or (evacuated and state.active and not given_up(state.runner))

    def evacuations(self, group: str) -> Evacuations:
        """Returns the group's evacuations in force, with the absence of each that ends with one."""
        evacuations = [order for order in self._kept.of(group).placements if order.kind is OrderKind.EVACUATE]
        return tuple((order, self._kept.orders.absence(order)) for order in evacuations)

    def observe(self, order: PlacementOrder, update: AbsenceUpdate) -> None:
        """Takes the update of an absence. It is ignored if the order is no longer in force."""
        state, orders = self._groups.get(order.target), self._kept.orders
        if not orders.is_in_force(order, self._kept.now_ms()) or not self._watches(order):
            return
        if update.ended:
            self._kept.end(order, update.ended)
            self._kept.withdraw(absence_key(order.target, order.where))
            self._review((order.target,))
        # If another leader assigns work to the member, the absence does not go back to an earlier stage.
        elif (
            (state is None or leads(state.runner))
            and update.absence is not None
            and update.absence != orders.absence(order)
        ):
            if update.absence.stage is Stage.EMPTY and state is not None and state.runner.membership.hands_over:
                return  # one more rebalance follows, which would wait for the member if it stopped now
            log.info("absence", group=order.target, where=order.where, stage=update.absence.stage.value)
            self._kept.write(update.absence)

    def withdraw_left_over(self) -> None:
        """Withdraws the absences of orders that have ended otherwise."""
        for absence in self._kept.orders.left_over(self._kept.now_ms()):
            state = self._groups.get(absence.target)
            if self.is_served(absence.target) if state is None else leads(state.runner):
                self._kept.withdraw(absence.key)


class Groups(Protocol):
    """The part of `coordinator.kafka.wire.Transport` that is used here."""

    async def describe_group(self, group_id: str) -> DescribeAnswer: ...
    async def remove_from(self, group_id: str, reasons: Mapping[str, str]) -> RemovedMembers: ...


async def unknown(_: str) -> DescribeAnswer | None:
    return None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a poll says of the next: the size of the answer, and whether the group was in a rebalance."""

    size_bytes: int = 0
    moving: bool = False


class AbsenceWatch:
    """Polls the groups of a process in `run`, until cancelled. Without such an order it sends no requests. `served`
    describes a group that its broker assigns as if a member led it; None if that is not possible now."""

    def __init__(
        self,
        orders: Absences,
        groups: Groups,
        wall_clock: Callable[[], float] = clocks.wall,
        *,
        served: Served = unknown,
    ) -> None:
        self._orders = orders
        self._groups = groups
        self._served = served
        self._wall_clock = wall_clock
        self._troubles = Troubles()
        # By group and key of the order: ended in this rebalance.
        self._back: dict[str, dict[str, tuple[PlacementOrder, Absence]]] = {}
        self._polls: dict[str, asyncio.Task[_Shown]] = {}  # the last one of each group
        self._turns = asyncio.Semaphore(POLLS_MAX), asyncio.Semaphore(POLLS_IN_TROUBLE_MAX)
        self._poll_requested = asyncio.Event()

    def poll_now(self) -> None:
        """Polls at once, because a rebalance has begun and a member may be back."""
        self._poll_requested.set()

    async def run(self) -> None:
        try:
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
        finally:
            for poll in self._polls.values():
                poll.cancel()

    async def turn(self) -> float:
        """Polls each group that has such an order, or is still in the rebalance in which one ended, unless a poll of it
        waits for its broker: a silent one delays nothing elsewhere. Returns the seconds until the next turn."""
        self._back = {group: back for group, back in self._back.items() if back}
        groups = dict.fromkeys((*self._back, *(order.target for order, _ in self._orders.in_force())))
        self._polls = {group: poll for group, poll in self._polls.items() if group in groups or not poll.done()}
        for group in groups:
            if group not in self._polls or self._polls[group].done():
                self._polls[group] = asyncio.create_task(self._poll(group))
        if not self._polls:
            return POLL_S
        polled, _ = await asyncio.wait(self._polls.values(), timeout=MOVING_POLL_S)
        shown = [poll.result() for poll in polled]
        poll_s = MOVING_POLL_S if any(each.moving for each in shown) else POLL_S
        return max(poll_s, sum(each.size_bytes for each in shown) / BYTES_PER_SECOND_MAX)

    async def _poll(self, group: str) -> _Shown:
        in_trouble = group in self._troubles
        turns = self._turns[in_trouble]
        await turns.acquire()
        with ExitStack() as turn:
            turn.callback(turns.release)
            if not in_trouble:
                turn.callback(asyncio.get_running_loop().call_later(SLOW_S, turn.close).cancel)
            return await self._polled(group)

    async def _polled(self, group: str) -> _Shown:
        by_broker = self._orders.is_served(group)
        try:
            answer = await (self._served if by_broker else self._groups.describe_group)(group)
            if answer is None:
                return _Shown()
            await self._check(group, answer)
        except TransportError as error:
            self._warn_once(group, str(error))
            return _Shown()
        except Exception:
            log.exception("absences_not_watched", group=group)
            return _Shown()
        self._warn_once(group, membership.name_of(answer.error) if answer.error else "")
        size_bytes = sum(len(m.metadata) + len(m.assignment) for m in answer.members)
        return _Shown(size_bytes, moving=answer.state in REBALANCING)

    async def _check(self, group: str, answer: DescribeAnswer) -> None:
        now_ms = int(self._wall_clock() * 1000)
        back = self._back.get(group, {})
        for order, absence in tuple(back.values()):
            await self._remove(order, left_behind(order, absence, answer))
            if answer.state not in REBALANCING:
                del back[order.key]
        for order, before in self._orders.in_force(group):
            update = absence_update(order, before, answer, now_ms)
            self._orders.observe(order, update)
            await self._remove(order, update.remove)
            if update.ended and update.absence is not None:
                self._back.setdefault(group, {})[order.key] = order, update.absence

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
        self._troubles.report(log.warning, "absence_not_seen", why, of=group, group=group)
