"""What planners of consumer groups and of Streams applications share: their interface for the runtime, what they hand
over, the threads in which plans are made, and the bookkeeping of what the broker has.

A `D` is a decision of either kind.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from bellwether_kafka.assignors.consumer import topics_wanted
from bellwether_kafka.assignors.shared import (
    ClusterView,
    Moves,
    RawGroup,
    RawMember,
    RefusalCause,
    RefusalError,
    Rule,
    StageReport,
)
from bellwether_kafka.coordinator.membership import Decide, DescribeAnswer, JoinedMember, RebuildMemory
from bellwether_kafka.coordinator.planning.causes import Cause, Kind
from bellwether_kafka.coordinator.planning.fallback import Chosen

METADATA_AGE_MS_MAX = 1_000
RESERVE_S = 0.1  # kept back for the way to the broker
RUNNING_PLANS_MAX = 4
READ_AT_ONCE_BYTES = 1 << 16
UNDELIVERED = Cause(Kind.AGAIN, "not delivered yet")

Value = TypeVar("Value")


class AnyDecision(Protocol):
    """What decisions of both kinds have in common."""

    @property
    def raw(self) -> RawGroup: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def assignments(self) -> tuple[tuple[str, bytes], ...]: ...
    @property
    def followup(self) -> bool: ...
    @property
    def moves(self) -> Moves: ...
    @property
    def stages(self) -> tuple[StageReport, ...]: ...


D = TypeVar("D", bound=AnyDecision)


class SnapshotSource(Protocol):
    """What `cluster.ClusterReader` is to a planner."""

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView: ...


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on one decision. `joined_at` is monotonic: when the JoinGroup answer was here. `join_s` (from our
    JoinGroup to its answer) and `sync_s` are known once the broker has the plan."""

    joined_at: float
    metadata_s: float
    plan_s: float
    sync_s: float = 0.0
    join_s: float = 0.0


@dataclass(frozen=True, eq=False)  # slots break a frozen generic that is made by its alias (Python 3.11)
class PlannedRound(Generic[D]):
    """A decision that may be sent, and how it came about.

    `topics` are those that members subscribe to. `rack_aware`: some member named a rack, so racks of replicas matter.
    `watched` are topics whose loss matters though nobody subscribes to them. `objection` says what stands against a
    rebalance for the sake of other topics than these, "" for nothing. `previous` is what was delivered to the group
    before, and `cause` what has changed since: both are told once the broker has the decision. `inputs`: all that
    the decision was made from, where that can be recorded.
    """

    chosen: Chosen[D]
    topics: tuple[str, ...]
    timings: Timings
    rack_aware: bool = False
    watched: tuple[str, ...] = ()
    objection: Callable[[ClusterView], str] | None = None
    previous: D | None = None
    cause: Cause = UNDELIVERED
    inputs: object = None


@dataclass(frozen=True, eq=False)  # slots break a frozen generic that is made by its alias (Python 3.11)
class Compared(Generic[D]):
    """Would a plan made now be worth a rebalance? The reason says why, "" if not. The rest is `PlannedRound`'s:
    a group at rest that is led on is followed from here."""

    decision: D
    reason: str
    topics: tuple[str, ...]
    rack_aware: bool = False
    watched: tuple[str, ...] = ()
    objection: Callable[[ClusterView], str] | None = None


class GroupPlanner(Protocol[D]):
    """One group's planner, as `runtime.GroupRunner` uses it. For one event loop."""

    async def plan(self, command: Decide) -> PlannedRound[D]:
        """The answer for this generation before its deadline. Raises RefusalError, which names what was tried."""

    async def compare(self, command: Decide) -> Compared[D]:
        """A dry plan against what the members hold. Raises RefusalError."""

    def rule(self, rules: tuple[Rule, ...]) -> None:
        """The operator's word on placement, for every plan from now on."""

    def delivered(self, generation: int) -> PlannedRound[D] | None:
        """The broker has this generation's assignment. None when it was not one of our plans."""

    def forget(self) -> None:
        """We lead no more: others decide from here, so what we remember would be wrong next time."""

    async def observed(self, described: DescribeAnswer, own_instance_id: str | None) -> None:
        """Takes what a group shows while somebody else leads it."""

    async def rebuild(self, command: RebuildMemory, described: DescribeAnswer, own_member_id: str) -> None:
        """Remembers what the members of a returned leader hold, from DescribeGroups of the Stable group."""


class Rounds(Generic[D]):
    """The plan under way and the last one that the broker took; `why` tells one from the other, once for everybody."""

    def __init__(self, why: Callable[[D | None, D], Cause]) -> None:
        self.previous: D | None = None
        self._why = why
        self._planned: PlannedRound[D] | None = None

    def offer(self, planned: PlannedRound[D]) -> None:
        self._planned = planned

    def delivered(self, generation: int) -> PlannedRound[D] | None:
        planned, self._planned = self._planned, None
        if planned is None or planned.chosen.decision.raw.generation != generation:
            return None
        decision, previous = planned.chosen.decision, self.previous
        self.previous = decision
        return replace(planned, previous=previous, cause=self._why(previous, decision))

    def forget(self) -> None:
        self.previous = None
        self._planned = None


class PlanThreads:
    """Runs plans in threads of their own: one that hangs loses its turn, never the group and never the event loop."""

    def __init__(self) -> None:
        self._running = 0

    async def run(self, work: Callable[[], Value], limit_s: float) -> Value:
        """Raises what `work` raises, or TimeoutError."""
        self._running += 1
        return await asyncio.wait_for(in_thread(work, self._ended), limit_s)

    def refuse_too_many(self) -> None:
        """Raises RefusalError while as many earlier plans hang as may: for code that may be anybody's."""
        if self._running >= RUNNING_PLANS_MAX:
            raise RefusalError(RefusalCause.PLAN, f"{self._running} earlier plans still run")

    def _ended(self) -> None:
        self._running -= 1


def raw_group(group_id: str, command: Decide) -> RawGroup:
    members = tuple(map(_raw_member, command.members))
    return RawGroup(group_id, command.generation, command.protocol, members, frozenset({command.own_member_id}))


async def topics_of(raw: RawGroup) -> tuple[str, ...]:
    """All subscribed topics, sorted. The way to a thread and back takes longer than reading what a small group says."""
    if sum(len(m.metadata) for m in raw.members) <= READ_AT_ONCE_BYTES:
        return topics_wanted(raw)
    return await asyncio.to_thread(topics_wanted, raw)


def seconds_left(command: Decide, now: float) -> float:
    """What a planner may use from now on."""
    return max(0.0, command.deadline - RESERVE_S - now)


def _raw_member(member: JoinedMember) -> RawMember:
    return RawMember(member.member_id, member.instance_id, member.metadata)


def in_thread(work: Callable[[], Value], ended: Callable[[], None]) -> "asyncio.Future[Value]":
    """Runs `work` in a daemon thread, which cannot keep the process alive; `ended` runs on the loop when it is over."""
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
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            result = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *result)

    threading.Thread(target=run, name="plan", daemon=True).start()
    return outcome
