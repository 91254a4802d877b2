"""Runs plans in threads: a plan that hangs is not used, and delays neither the group nor the event loop.

Hundreds of groups may rebalance at once. Threads of all their plans would end at the same time, too late, and leave
little of the interpreter to the thread of heartbeats. So plans of Bellwether's own policies take turns, in order of
arrival: each of them ends. Foreign code may hang, so it neither waits for a turn nor takes one.

All groups may be compared at once, too, as when a rack file changes, and members wait for none of these plans.

A process's first plan takes many times as long as its second, because libraries import parts of themselves at first
use. So one for an invented group is made before the first real one.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from bellwether_kafka.assignors.consumer import BUILT_IN, Policy, decide
from bellwether_kafka.assignors.shared import (
    ClusterView,
    Memory,
    RawGroup,
    RawMember,
    Refusal,
    RefusalCause,
    RefusalError,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

RUNNING_PLANS_MAX = 4  # of one group
TURNS = 8  # plans of all groups at once: enough that a few large ones do not delay the small ones
COMPARISONS = 2  # of them, so that a plan waits for few comparisons

# After the first JoinGroup requests, and before most of their answers.
DELAY_S = 0.5
TOPIC = "warm-up"
RACKS = ("a", "b")

Value = TypeVar("Value")


class Urgency(Enum):
    """How soon a plan is needed."""

    MEMBERS_WAIT = auto()
    COMPARISON = auto()  # its time limit may pass
    LAST_CHANCE = auto()  # a cheaper plan after one that was late, without which the group is lost


class Turns:
    """The turns of all groups. For one event loop. Cheaper plans have as many of their own: they do not wait behind the
    plans that were late, and those of many groups do not start at once.

    A thread cannot be stopped. A plan that is late gives its turn back while its thread runs on, but only as many plans
    do so as there are turns: threads without bound would leave nothing of the interpreter to the heartbeats.
    """

    def __init__(self, plans: int = TURNS, comparisons: int = COMPARISONS) -> None:
        all_plans, cheaper = asyncio.Semaphore(plans), asyncio.Semaphore(plans)
        self._of = {
            Urgency.MEMBERS_WAIT: (all_plans,),
            Urgency.COMPARISON: (asyncio.Semaphore(comparisons), all_plans),
            Urgency.LAST_CHANCE: (cheaper,),
        }
        self.late_left = plans

    async def take(self, urgency: Urgency) -> "Turn":
        """Waits for a turn."""
        turn = Turn(self)
        try:
            for semaphore in self._of[urgency]:
                await semaphore.acquire()
                turn.taken.append(semaphore)
        except BaseException:
            turn.ended()
            raise
        return turn


@dataclass(slots=True)
class Turn:
    """The turn of one plan. It ends with the thread, or earlier if the plan is late and few others are."""

    turns: Turns
    taken: list[asyncio.Semaphore] = field(default_factory=list)
    late: bool = False

    def is_late(self) -> None:
        if self.taken and self.turns.late_left:
            self.turns.late_left -= 1
            self.late = True
            self._give_back()

    def ended(self) -> None:
        self.turns.late_left += self.late
        self._give_back()

    def _give_back(self) -> None:
        for semaphore in self.taken:
            semaphore.release()
        self.taken.clear()


class PlanThreads:
    """The planning threads of one group. `turns` are those of all groups, None if it waits for none."""

    def __init__(self, turns: Turns | None = None) -> None:
        self._running = 0
        self._turns = turns

    async def run(self, work: Callable[[], Value], limit_s: float, urgency: Urgency = Urgency.MEMBERS_WAIT) -> Value:
        """Runs `work` in a thread when it is its turn, and returns its result. Raises its exceptions, or
        TimeoutError."""
        async with asyncio.timeout(limit_s):
            turn = None if self._turns is None else await self._turns.take(urgency)
            self._running += 1
            try:
                outcome = in_thread(work, partial(self._ended, turn))
            except BaseException:  # no thread could be started
                self._ended(turn)
                raise
            try:
                return await outcome
            except asyncio.CancelledError:
                if turn is not None:
                    turn.is_late()
                raise

    def refuse_too_many(self) -> None:
        """Raises RefusalError while too many earlier plans still run. For foreign code, which may hang."""
        if self._running >= RUNNING_PLANS_MAX:
            raise RefusalError(RefusalCause.PLAN, f"{self._running} earlier plans still run")

    def _ended(self, turn: Turn | None) -> None:
        self._running -= 1
        if turn is not None:
            turn.ended()


def in_thread(work: Callable[[], Value], ended: Callable[[], None] = lambda: None) -> "asyncio.Future[Value]":
    """Runs `work` in a daemon thread, which cannot keep the process alive, or in what the loop has in its place.
    `ended` is called on the loop when it has finished."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        ended()
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)  # type: ignore[arg-type]  # one of the two is set

    def run() -> None:
        try:
            result: tuple[Value | None, BaseException | None] = (work(), None)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
            result = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *result)

    getattr(loop, "start_thread", _start_daemon)(run)
    return outcome


def _start_daemon(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="plan", daemon=True).start()


async def warm_up_soon(*_: object) -> None:
    """Warms up in a thread, shortly after the start. Runs beside the service."""
    await asyncio.sleep(DELAY_S)
    await asyncio.to_thread(warm_up)


def warm_up() -> None:
    """Makes plans for every built-in protocol, with scores and memory."""
    cluster = ClusterView.of({TOPIC: [[rack] for rack in RACKS * 2]})
    for protocol in BUILT_IN:
        members = tuple(RawMember(rack, None, _subscription(rack, n)) for n, rack in enumerate(RACKS))
        group = RawGroup(TOPIC, 2, protocol, members)
        decision = decide(group, cluster, Memory.empty(), Policy(), 0)
        if isinstance(decision, Refusal):
            continue
        again = decide(group, cluster, decision.plan.memory, Policy(), 0)
        if not isinstance(again, Refusal):
            _ = again.plan.cost(again.plan.before), again.cost, again.moves


def _subscription(rack: str, number: int) -> bytes:
    owned = tuple(TopicPartition(TOPIC, p) for p in range(3 - number))  # one partition is claimed twice
    return ConsumerProtocolSubscription(3, (TOPIC,), None, owned, 1, rack).encode()
