"""The decision path of one group: metadata, plan, guard, fallback, and what is remembered once the broker has it.

Plans are made in threads of their own: a plan that hangs loses its turn, never the group and never the event loop.
"""

import asyncio
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from assignors.decide import Decision, DecisionError, decide
from assignors.memory import Memory
from assignors.model import ClusterView
from assignors.registry import Policy
from assignors.views import DescribedMember, RawGroup, RawMember, recall, topics_wanted
from coordinator.commands import Decide, RebuildMemory
from coordinator.events import DescribeAnswer, JoinedMember
from coordinator.fallback import (
    CHEAP_POLICY,
    PLAN_SHARE,
    Attempt,
    Chosen,
    NoAnswer,
    Source,
    first_valid,
    previous_answer,
)
from coordinator.guard import MESSAGE_BYTES_MAX, inspect

METADATA_SHARE = 0.4  # of the time until the deadline
RESERVE_S = 0.1  # kept back for the way to the broker
METADATA_AGE_MS_MAX = 1_000
RUNNING_PLANS_MAX = 4
STRANGERS_SHOWN = 3

Value = TypeVar("Value")


class SnapshotSource(Protocol):
    """What `cluster.ClusterReader` is to the planner."""

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView: ...


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on one decision. `joined_at` is monotonic: when the JoinGroup answer was here."""

    joined_at: float
    metadata_s: float
    plan_s: float
    sync_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A decision that may be sent, and how it came about."""

    chosen: Chosen
    topics: tuple[str, ...]
    timings: Timings


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Would a plan made now be worth a rebalance? The reason says why, "" if not."""

    decision: Decision
    reason: str
    topics: tuple[str, ...]


class PlanError(Exception):
    """There is nothing that may be sent; the message says why for each answer that was tried."""


class Planner:
    """One group's. For one event loop. `memory` is what the group's members hold as far as we know."""

    def __init__(
        self,
        group_id: str,
        reader: SnapshotSource,
        policy: Policy,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.group_id = group_id
        self.memory = Memory.empty()
        self._reader = reader
        self._policy = policy
        self._message_bytes_max = message_bytes_max
        self._clock = clock
        self._wall_clock = wall_clock
        self._previous: Decision | None = None
        self._planned: Planned | None = None
        self._running = 0

    async def plan(self, command: Decide) -> Planned:
        """The answer for this generation before its deadline. Raises PlanError."""
        began = self._clock()
        raw = self.raw_group(command)
        try:
            topics, cluster = await self._metadata(raw, self._left(command) * METADATA_SHARE)
        except Exception as error:  # noqa: BLE001 - the reader is another library's world; without it there is still a plan
            topics, cluster = (), None
            trouble = f"no metadata: {str(error) or type(error).__name__}"
        metadata_s = self._clock() - began
        if cluster is not None:
            self._refuse_strangers(cluster)
        outcome = await first_valid(self._attempts(raw, cluster, command))
        if isinstance(outcome, NoAnswer):
            reasons = outcome.reasons if cluster is not None else (trouble, *outcome.reasons)
            raise PlanError("; ".join(reasons) or "no answer at all")
        timings = Timings(began, metadata_s, self._clock() - began - metadata_s)
        self._planned = Planned(outcome, topics, timings)
        return self._planned

    async def compare(self, command: Decide) -> Comparison:
        """A dry plan against what the members hold. Raises PlanError."""
        raw = self.raw_group(command)
        try:
            topics, cluster = await self._metadata(raw, self._left(command) * METADATA_SHARE)
            decision, findings = await self._made(raw, cluster, self._policy, self._left(command))
        except (DecisionError, TimeoutError) as error:
            raise PlanError(str(error) or "not ready in time") from error
        except Exception as error:
            raise PlanError(f"no metadata: {str(error) or type(error).__name__}") from error
        if findings:
            raise PlanError("; ".join(findings))
        return Comparison(decision, worth_moving(decision), topics)

    def delivered(self, generation: int) -> Planned | None:
        """The broker has this generation's assignment: remember it. None when it was not one of our plans."""
        planned, self._planned = self._planned, None
        if planned is None or planned.chosen.decision.raw.generation != generation:
            return None
        self._previous = planned.chosen.decision
        self.memory = planned.chosen.decision.memory
        return planned

    def forget(self) -> None:
        """We lead no more: others decide from here, so what we remember would be wrong next time."""
        self._previous = None
        self._planned = None
        self.memory = Memory.empty()

    async def rebuild(self, command: RebuildMemory, described: DescribeAnswer, own_member_id: str) -> None:
        """Memory of what a returned leader's members hold, from DescribeGroups of the Stable group."""
        members = [
            DescribedMember(m.member_id, m.instance_id, m.metadata, m.assignment)
            for m in described.members
            if m.member_id != own_member_id
        ]
        raw = RawGroup(
            self.group_id,
            command.generation,
            command.protocol,
            tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in members),
        )
        cluster = await self._reader.snapshot(topics_wanted(raw), METADATA_AGE_MS_MAX)
        self.memory = await asyncio.to_thread(recall, command.generation, command.protocol, cluster, members)

    def _refuse_strangers(self, cluster: ClusterView) -> None:
        """A topic that we never could read would get no owners from us; members can read it, so one of them leads."""
        strangers = sorted(cluster.unreadable - self.memory.cluster.index.keys())
        if strangers:
            named = ", ".join(f"'{topic}'" for topic in strangers[:STRANGERS_SHOWN])
            raise PlanError(
                f"metadata of {len(strangers)} subscribed topics cannot be read; grant our principal the ACL DESCRIBE"
                f" on Topic {named}"
            )

    def raw_group(self, command: Decide) -> RawGroup:
        members = tuple(map(_raw_member, command.members))
        return RawGroup(
            self.group_id, command.generation, command.protocol, members, frozenset({command.own_member_id})
        )

    def _left(self, command: Decide) -> float:
        return max(0.0, command.deadline - RESERVE_S - self._clock())

    async def _metadata(self, raw: RawGroup, limit_s: float) -> tuple[tuple[str, ...], ClusterView]:
        async with asyncio.timeout(limit_s):
            topics = await asyncio.to_thread(topics_wanted, raw)
            return topics, await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)

    def _attempts(self, raw: RawGroup, cluster: ClusterView | None, command: Decide) -> list[tuple[Source, Attempt]]:
        attempts: list[tuple[Source, Attempt]] = []
        if cluster is not None:
            view = cluster
            attempts.append((Source.PLAN, lambda: self._own(raw, view, command)))
            attempts.append((Source.CHEAP, lambda: self._made(raw, view, CHEAP_POLICY, self._left(command))))
        previous = previous_answer(self._previous, raw)
        if previous is not None:
            again = previous
            attempts.append((Source.PREVIOUS, lambda: self._checked(raw, again)))
        return attempts

    async def _own(self, raw: RawGroup, cluster: ClusterView, command: Decide) -> tuple[Decision, tuple[str, ...]]:
        """By the configured policy, which may hold anybody's code."""
        if self._running >= RUNNING_PLANS_MAX:
            raise DecisionError(f"{self._running} earlier plans still run")
        return await self._made(raw, cluster, self._policy, self._left(command) * PLAN_SHARE)

    async def _made(
        self, raw: RawGroup, cluster: ClusterView, policy: Policy, limit_s: float
    ) -> tuple[Decision, tuple[str, ...]]:
        memory, now_ms, seed = self.memory, int(self._wall_clock() * 1000), zlib.crc32(self.group_id.encode())

        def work() -> tuple[Decision, tuple[str, ...]]:
            decision = decide(raw, cluster, memory, policy, now_ms, seed)
            return decision, inspect(raw, decision, message_bytes_max=self._message_bytes_max)

        self._running += 1
        return await asyncio.wait_for(in_thread(work, self._ended), limit_s)

    def _ended(self) -> None:
        self._running -= 1

    async def _checked(self, raw: RawGroup, decision: Decision) -> tuple[Decision, tuple[str, ...]]:
        return decision, inspect(raw, decision, message_bytes_max=self._message_bytes_max)


def _raw_member(member: JoinedMember) -> RawMember:
    return RawMember(member.member_id, member.instance_id, member.metadata)


def worth_moving(decision: Decision) -> str:
    """Why the plan is worth a rebalance, "" if what the members hold will do.

    After a quiet return of ours it must be more than another taste: partitions without an owner, or a fairer spread.
    """
    before, after = decision.score_before, decision.score_after
    if before.unowned > after.unowned:
        return f"{before.unowned - after.unowned} partitions have no owner"
    if before.spread > after.spread and before.spread > 1:
        return f"the spread of partitions would go from {before.spread} to {after.spread}"
    return ""


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
