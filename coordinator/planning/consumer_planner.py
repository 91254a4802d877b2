"""The decision path of one consumer group: metadata, plan, guard, fallback, and what is remembered once the broker has
it. The path of a Streams application is in `planner_streams`; what both share is in `planning`.
"""

import asyncio
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from bellwether_kafka.assignors.consumer import (
    LOAD_AWARE,
    Decision,
    OperatorRules,
    Policy,
    decide,
    recall,
    topics_wanted,
)
from bellwether_kafka.assignors.shared import (
    NO_GENERATION,
    NO_RACK,
    ClusterView,
    DescribedMember,
    Memory,
    RawGroup,
    RawMember,
    Refusal,
    RefusalCause,
    RefusalError,
    Rule,
    Weights,
)
from bellwether_kafka.coordinator.membership import Decide, DescribeAnswer, RebuildMemory
from bellwether_kafka.coordinator.membership import DescribedMember as Seen
from bellwether_kafka.coordinator.planning.causes import cause
from bellwether_kafka.coordinator.planning.fallback import (
    CHEAP_POLICY,
    PLAN_SHARE,
    Attempt,
    Source,
    first_valid,
    previous_answer,
)
from bellwether_kafka.coordinator.planning.guard import MESSAGE_BYTES_MAX, inspect
from bellwether_kafka.coordinator.planning.planner import (
    METADATA_AGE_MS_MAX,
    RUNNING_PLANS_MAX,
    Compared,
    PlannedRound,
    PlanThreads,
    Rounds,
    SnapshotSource,
    Timings,
    in_thread,
    raw_group,
    seconds_left,
    topics_of,
)
from bellwether_kafka.coordinator.planning.solver import Solver

__all__ = ["RUNNING_PLANS_MAX", "Comparison", "Planned", "Planner", "Timings", "in_thread", "worth_moving"]

# Of the time until the deadline. A plan takes milliseconds; without metadata there is none, and a leader that has none
# gives the group away, so most of the time may go into the read.
METADATA_SHARE = 0.75
STRANGERS_SHOWN = 3
STABLE = "Stable"
UUID_LENGTH = 36

Attempts = list[tuple[Source, Attempt[Decision]]]
PlanArguments = tuple[RawGroup, ClusterView, Memory, int, int, int]
Planned = PlannedRound[Decision]
Comparison = Compared[Decision]


class Planner:
    """One group's. For one event loop. `memory` is what the group's members hold as far as we know."""

    def __init__(
        self,
        group_id: str,
        reader: SnapshotSource,
        policy: Policy,
        *,
        weights: Callable[[], Weights] | None = None,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        solver: Solver | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.group_id = group_id
        self.memory = Memory.empty()
        self._reader = reader
        self._policy = policy
        self._weights = weights
        self._message_bytes_max = message_bytes_max
        self._solver = solver
        self._clock = clock
        self._wall_clock = wall_clock
        self._rounds = Rounds[Decision](cause)
        self._threads = PlanThreads()
        self._rules: tuple[Rule, ...] = ()  # the operator's, for every plan from now on
        self._observed = 0  # a digest of the last generation at rest that others led
        self._turn = 0  # what was read of a group that others lead is for the turn in which it was read

    def rule(self, rules: tuple[Rule, ...]) -> None:
        """The operator's word on placement, for every plan from now on."""
        self._rules = rules

    async def plan(self, command: Decide) -> Planned:
        """The answer for this generation before its deadline. Raises RefusalError."""
        began = self._clock()
        self._turn += 1
        raw = raw_group(self.group_id, command)
        if command.removed:
            self.memory = self.memory.renamed(heirs(command.removed, self.memory, raw))
        trouble: tuple[str, ...] = ()
        try:
            topics, cluster = await self._metadata(raw, self._left(command) * METADATA_SHARE)
        except Exception as error:  # noqa: BLE001 - the reader is another library's world; without it there is still a plan
            topics, cluster = (), None
            trouble = (f"no metadata: {str(error) or type(error).__name__}",)
        metadata_s = self._clock() - began
        if cluster is not None:
            self._refuse_strangers(cluster)
        outcome = await first_valid(self._attempts(raw, cluster, command), trouble)
        timings = Timings(began, metadata_s, self._clock() - began - metadata_s)
        rack_aware = bool((outcome.decision.group.rack != NO_RACK).any())
        planned = Planned(outcome, topics, timings, rack_aware)
        self._rounds.offer(planned)
        return planned

    async def compare(self, command: Decide) -> Comparison:
        """A dry plan against what the members hold. Raises RefusalError."""
        raw = raw_group(self.group_id, command)
        try:
            topics, cluster = await self._metadata(raw, self._left(command) * METADATA_SHARE)
            decision, findings = await self._own(raw, cluster, self._left(command))
        except RefusalError:
            raise
        except TimeoutError as error:
            raise RefusalError(RefusalCause.PLAN, str(error) or "not ready in time") from error
        except Exception as error:
            reason = f"no metadata: {str(error) or type(error).__name__}"
            raise RefusalError(RefusalCause.PLAN, reason) from error
        if findings:
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        rack_aware = bool((decision.group.rack != NO_RACK).any())
        return Comparison(decision, worth_moving(decision), topics, rack_aware)

    def delivered(self, generation: int) -> Planned | None:
        """The broker has this generation's assignment: remember it. None when it was not one of our plans."""
        planned = self._rounds.delivered(generation)
        if planned is not None:
            self.memory = planned.chosen.decision.memory
        return planned

    def forget(self) -> None:
        """We lead no more: others decide from here, so what we remember would be wrong next time."""
        self._rounds.forget()
        self.memory = Memory.empty()
        self._observed = 0

    async def observed(self, described: DescribeAnswer, own_instance_id: str | None) -> None:
        """Keeps memory warm: a sidecar that takes the lead over in the middle of a round finds no group at rest to
        read, and members of most assignors claim nothing."""
        if described.state != STABLE:
            return
        seen = hash(tuple((m.member_id, m.assignment) for m in described.members))
        if seen == self._observed:
            return
        turn = self._turn
        memory = await self._recall(
            NO_GENERATION,
            described.protocol,
            [m for m in described.members if own_instance_id is None or m.instance_id != own_instance_id],
        )
        if turn == self._turn:  # we have not begun to lead meanwhile
            self.memory, self._observed = memory, seen

    async def rebuild(self, command: RebuildMemory, described: DescribeAnswer, own_member_id: str) -> None:
        """Memory of what a returned leader's members hold, from DescribeGroups of the Stable group."""
        self._turn += 1
        others = [m for m in described.members if m.member_id != own_member_id]
        self.memory = await self._recall(command.generation, command.protocol, others)

    async def _recall(self, generation: int, protocol: str, seen: Sequence[Seen]) -> Memory:
        raw = RawGroup(
            self.group_id, generation, protocol, tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in seen)
        )
        cluster = await self._reader.snapshot(topics_wanted(raw), METADATA_AGE_MS_MAX)
        members = [DescribedMember(m.member_id, m.instance_id, m.metadata, m.assignment) for m in seen]
        return await asyncio.to_thread(recall, generation, protocol, cluster, members)

    def _refuse_strangers(self, cluster: ClusterView) -> None:
        """A topic that we never could read would get no owners from us; members can read it, so one of them leads."""
        strangers = sorted(cluster.unreadable - self.memory.cluster.index.keys())
        if strangers:
            named = ", ".join(f"'{topic}'" for topic in strangers[:STRANGERS_SHOWN])
            raise RefusalError(
                RefusalCause.TOPICS,
                f"metadata of {len(strangers)} subscribed topics cannot be read; grant our principal the ACL DESCRIBE"
                f" on Topic {named}",
            )

    def _left(self, command: Decide) -> float:
        return seconds_left(command, self._clock())

    async def _metadata(self, raw: RawGroup, limit_s: float) -> tuple[tuple[str, ...], ClusterView]:
        async with asyncio.timeout(limit_s):
            topics = await topics_of(raw)
            return topics, await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)

    def _attempts(
        self, raw: RawGroup, cluster: ClusterView | None, command: Decide
    ) -> list[tuple[Source, Attempt[Decision]]]:
        attempts: list[tuple[Source, Attempt[Decision]]] = []
        if cluster is not None:
            view = cluster
            attempts.append((Source.PLAN, lambda: self._own(raw, view, self._left(command) * PLAN_SHARE)))
            attempts.append(
                (Source.CHEAP, lambda: self._made(raw, view, self._ruled(CHEAP_POLICY), self._left(command)))
            )
        previous = previous_answer(self._rounds.previous, raw)
        if previous is not None:
            again = previous
            attempts.append((Source.PREVIOUS, lambda: self._checked(raw, again)))
        return attempts

    async def _own(self, raw: RawGroup, cluster: ClusterView, limit_s: float) -> tuple[Decision, tuple[str, ...]]:
        """By the configured policy, which may hold anybody's code."""
        if self._policy.name == LOAD_AWARE or self._rules:  # these change; the solver's process knows one policy
            return await self._made(raw, cluster, self._ruled(self._weighted()), limit_s)
        if self._solver is not None and self._solver.wants(len(raw.members), cluster.partition_total):
            return await self._solver.solve(make_plan, self._arguments(raw, cluster), limit_s)
        self._threads.refuse_too_many()
        return await self._made(raw, cluster, self._policy, limit_s)

    def _weighted(self) -> Policy:
        if self._weights is None:
            return self._policy
        return replace(self._policy, load=replace(self._policy.load, weights=self._weights()))

    def _ruled(self, policy: Policy) -> Policy:
        return replace(policy, stages=(*policy.stages, OperatorRules(self._rules))) if self._rules else policy

    async def _made(
        self, raw: RawGroup, cluster: ClusterView, policy: Policy, limit_s: float
    ) -> tuple[Decision, tuple[str, ...]]:
        return await self._threads.run(partial(make_plan, policy, *self._arguments(raw, cluster)), limit_s)

    def _arguments(self, raw: RawGroup, cluster: ClusterView) -> "PlanArguments":
        now_ms, seed = int(self._wall_clock() * 1000), zlib.crc32(self.group_id.encode())
        return raw, cluster, self.memory, now_ms, seed, self._message_bytes_max

    async def _checked(self, raw: RawGroup, decision: Decision) -> tuple[Decision, tuple[str, ...]]:
        return decision, inspect(raw, decision, message_bytes_max=self._message_bytes_max)


def make_plan(
    policy: Policy,
    raw: RawGroup,
    cluster: ClusterView,
    memory: Memory,
    now_ms: int,
    seed: int,
    message_bytes_max: int,
) -> tuple[Decision, tuple[str, ...]]:
    """The plan and the guard's findings: what a thread or the solver's process does. Raises RefusalError."""
    decision = decide(raw, cluster, memory, policy, now_ms, seed)
    if isinstance(decision, Refusal):
        raise decision.error()
    return decision, inspect(raw, decision, message_bytes_max=message_bytes_max)


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


def heirs(removed: Sequence[str], memory: Memory, raw: RawGroup) -> dict[str, str]:
    """The ids under which removed leaders have come back. A broker makes member ids of the client id and a UUID; where
    several of one client id are new, nobody knows."""
    new = [m.member_id for m in raw.members if m.instance_id is None and m.member_id not in memory.index]
    back = {old: [n for n in new if n[:-UUID_LENGTH] == old[:-UUID_LENGTH]] for old in removed}
    return {old: found[0] for old, found in back.items() if len(found) == 1}
