"""The decision path of one Streams application: topology, metadata, end offsets, plan, guard, fallback, memory.

What cannot be led is given to a Java member: a `RefusalError` makes the membership leave, and the group goes on.
"""

import asyncio
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import structlog

from bellwether_kafka.assignors.shared import (
    NO_GENERATION,
    NO_RACK,
    NOBODY,
    ClusterView,
    DescribedMember,
    IntArray,
    RawGroup,
    RefusalCause,
    RefusalError,
    Rule,
    digest,
)
from bellwether_kafka.assignors.streams import Assignors, StreamsDecision, stock
from bellwether_kafka.assignors.streams.application import LEARNED, EndOffsets, Topology, TopologyError, wanted_offsets
from bellwether_kafka.assignors.streams.members import StreamsMemory, fatal_to_java, recall_streams
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator.membership import Decide, DescribeAnswer, RebuildMemory
from bellwether_kafka.coordinator.planning.attestation import Arrivals
from bellwether_kafka.coordinator.planning.fallback import PLAN_SHARE, Attempt, Source, first_valid
from bellwether_kafka.coordinator.planning.guard import MESSAGE_BYTES_MAX
from bellwether_kafka.coordinator.planning.guard_streams import inspect_streams
from bellwether_kafka.coordinator.planning.planner import (
    METADATA_AGE_MS_MAX,
    Compared,
    PlannedRound,
    PlanThreads,
    Rounds,
    SnapshotSource,
    Timings,
    raw_group,
    seconds_left,
    topics_of,
)
from bellwether_kafka.coordinator.planning.solver import Solver
from bellwether_kafka.coordinator.planning.streams_config import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_report import streams_cause
from bellwether_kafka.coordinator.planning.task_plan import MadeTasks, TaskRequest, World, make_tasks

METADATA_SHARE = 0.35  # of the time until the deadline
OFFSETS_SHARE = 0.4  # of what is left then
REREAD_S = 0.05
STALE_METADATA_MS_MAX = 60_000
STALE_SHARE = 0.2  # of the time for fresh metadata; what is known takes none
STABLE = "Stable"
OFFSETS_FAILURES_MAX = 3

PlannedTasks = PlannedRound[StreamsDecision]
TaskComparison = Compared[StreamsDecision]
Attempts = list[tuple[Source, Attempt[StreamsDecision]]]
Inspected = tuple[StreamsDecision, tuple[str, ...]]


class OffsetSource(Protocol):
    """What `offset_reader.OffsetReader` is to the planner."""

    async def end_offsets(
        self,
        group_id: str,
        latest: Mapping[str, int],
        committed: Mapping[str, int],
        limit_s: float,
    ) -> EndOffsets: ...


class TopologySource(Protocol):
    """Where the topology comes from, and who makes its internal topics."""

    @property
    def topology(self) -> Topology | None: ...
    @property
    def mismatch(self) -> str:
        """What a live group has said against the topology, "" for nothing."""

    @property
    def witnesses(self) -> frozenset[str]:
        """The member ids that a learned topology was concluded from."""

    async def observe(self, members: tuple[DescribedMember, ...]) -> None:
        """Learns from a group that somebody else leads."""

    def settle(self, topology: Topology) -> None:
        """Takes the learned topology that a round of ours has settled."""

    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None:
        """Creates missing internal topics that are described. Returns those that are new, None: nothing was to do."""


log = structlog.get_logger(__name__)


class StreamsPlanner:
    """One application's. For one event loop. `memory` is what its threads hold as far as we know."""

    def __init__(
        self,
        group_id: str,
        config: StreamsConfig,
        reader: SnapshotSource,
        offsets: OffsetSource,
        topologies: TopologySource,
        assignors: Assignors,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        solver: Solver | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.group_id = group_id
        self.config = config
        self.memory = StreamsMemory.empty()
        self._reader = reader
        self._offsets = offsets
        self._topologies = topologies
        self._assignors = assignors
        self._rules: tuple[Rule, ...] = ()  # the operator's; the solver's process does not know them
        self._asked: TaskRequest | None = None  # what the configured policy was asked last
        self._cheap = replace(assignors, assign=lambda view, configs, _: assignors.fallback(view, configs))
        self._message_bytes_max = message_bytes_max
        self._solver = solver
        self._clock = clock
        self._wall_clock = wall_clock
        self._rounds = Rounds[StreamsDecision](streams_cause)
        self._threads = PlanThreads()
        self._offset_failures = 0
        self._arrivals = Arrivals()
        self._next_arrivals = self._arrivals
        self._observed: frozenset[bytes] = frozenset()  # who was sent what, hashed
        self._turn = 0  # what was read of a group that others lead is for the turn in which it was read

    def rule(self, rules: tuple[Rule, ...]) -> None:
        """The operator's word on placement, for every plan from now on."""
        if self.config.policy != STREAMS_HA:
            log.warning(
                "rules_not_heeded",
                group=self.group_id,
                reason=f"pins, bans and evacuations need the policy {STREAMS_HA}; this one is {self.config.policy}",
            )
            return
        self._rules = rules
        self._assignors = stock(replace(self.config.stages, rules=rules), durable=self.config.durable)

    async def plan(self, command: Decide) -> PlannedTasks:
        """The answer for this generation before its deadline. Raises RefusalError."""
        began = self._clock()
        self._turn += 1
        raw = raw_group(self.group_id, command)
        world, trouble = await self._world_or_trouble(raw, command)
        read_s = self._clock() - began
        outcome = await first_valid(self._attempts(raw, world, command), trouble)
        decision = outcome.decision
        planned = PlannedTasks(
            outcome,
            decision.topology.source_topics,
            Timings(began, read_s, self._clock() - began - read_s),
            rack_aware=bool((decision.view.rack != NO_RACK).any()),
            watched=decision.topology.changelogs,
            objection=partial(fatal_to_java, decision.topology),
            inputs=self._asked if outcome.source is Source.PLAN and self._asked_of(world) else None,
        )
        self._rounds.offer(planned)
        return planned

    def _asked_of(self, world: World | None) -> bool:
        return self._asked is not None and self._asked.world is world

    async def compare(self, command: Decide) -> TaskComparison:
        """A dry plan against what the threads hold. Raises RefusalError."""
        raw = raw_group(self.group_id, command)
        world, trouble = await self._world_or_trouble(raw, command)
        if world is None:
            raise RefusalError(RefusalCause.PLAN, "; ".join(trouble))
        try:
            decision, findings = await self._own(world, self._left(command), dry=True)
        except TimeoutError as error:
            raise RefusalError(RefusalCause.PLAN, str(error) or "not ready in time") from error
        if findings:
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        return TaskComparison(
            decision,
            worth_moving(decision, self.memory),
            decision.topology.source_topics,
            rack_aware=bool((decision.view.rack != NO_RACK).any()),
            watched=decision.topology.changelogs,
            objection=partial(fatal_to_java, decision.topology),
        )

    def delivered(self, generation: int) -> PlannedTasks | None:
        """The broker has this generation's assignment: remember it. None when it was not one of our plans."""
        planned = self._rounds.delivered(generation)
        if planned is not None:
            self.memory = planned.chosen.decision.memory
            self._arrivals = self._next_arrivals
            self._settle(planned.chosen.decision.topology)
        return planned

    def _settle(self, used: Topology) -> None:
        """What threads said in this round is not said again in the next."""
        known = self._topologies.topology
        if known is not None and known.undecided and used.source == LEARNED:
            self._topologies.settle(used)

    def forget(self) -> None:
        """We lead no more: others decide from here, so what we remember would be wrong next time."""
        self._rounds.forget()
        self.memory = StreamsMemory.empty()
        self._arrivals = self._next_arrivals = Arrivals()
        self._offset_failures = 0
        self._observed = frozenset()

    async def rebuild(self, command: RebuildMemory, described: DescribeAnswer, own_member_id: str) -> None:
        """Memory of what the threads hold under a returned leader, from DescribeGroups of the Stable group."""
        self._turn += 1
        self.memory = await self._recall(command.generation, command.protocol, _others(described, own_member_id))

    async def observed(self, described: DescribeAnswer, own_instance_id: str | None) -> None:
        """What the group shows while somebody else leads it: its topology, and who holds what."""
        members = tuple(
            m for m in _others(described, "") if own_instance_id is None or m.instance_id != own_instance_id
        )
        if described.state != STABLE or not members:
            return
        turn = self._turn
        await self._topologies.observe(members)
        ids = {m.member_id for m in members}
        topology = self._topologies.topology
        if topology is not None and topology.source == LEARNED and ids != self._topologies.witnesses:
            return  # it may be another version's; whom it was not learned from must stay unknown
        seen = frozenset(digest(m.member_id.encode() + m.metadata + m.assignment) for m in members)
        if seen == self._observed:
            return
        memory = await self._recall(NO_GENERATION, described.protocol, members)
        if turn == self._turn:  # we have not begun to lead meanwhile
            self.memory = memory
            self._observed = seen

    async def _recall(self, generation: int, protocol: str, members: Sequence[DescribedMember]) -> StreamsMemory:
        topology = self._topologies.topology
        cluster = await self._reader.snapshot(topology.topics if topology else (), METADATA_AGE_MS_MAX)
        return await asyncio.to_thread(recall_streams, generation, protocol, cluster, members)

    async def prepare(self, limit_s: float) -> None:
        """Creates the internal topics that are described and missing, before anybody needs them.

        Only where the operator vouches for the file: by a wrong one they would get another number of partitions than
        the application wants, of which it dies.
        """
        topology = self._topologies.topology
        if not self.config.topology_attested:
            return
        if topology is not None and not topology.patterns:  # what a pattern finds, only members know
            async with asyncio.timeout(limit_s):
                cluster = await self._reader.snapshot(topology.topics, METADATA_AGE_MS_MAX)
                await self._topologies.complete(topology, cluster, limit_s)

    async def objection(self, topology: Topology, limit_s: float) -> str:
        """What a Java leader fails the application for when it rebalances now, "" for nothing: then we could not plan
        either, and would make way for one. Raises TimeoutError and what the reader raises."""
        async with asyncio.timeout(limit_s):
            cluster = await self._reader.snapshot(topology.topics, METADATA_AGE_MS_MAX)
        return fatal_to_java(topology, cluster)

    # ---- reading -----------------------------------------------------------------------------------------------

    async def _world_or_trouble(self, raw: RawGroup, command: Decide) -> tuple[World | None, tuple[str, ...]]:
        """Raises RefusalError where no plan of any kind would do."""
        try:
            return await self._world(raw, command), ()
        except RefusalError:
            raise
        except Exception as error:  # noqa: BLE001 - the readers are another library's world; the previous plan may do
            return None, (f"no metadata: {str(error) or type(error).__name__}",)

    async def _world(self, raw: RawGroup, command: Decide) -> World:
        topology = self._topologies.topology
        if topology is None:
            reason = "its topology is not known; name a topology file, or let a Java member lead it once"
            raise RefusalError(RefusalCause.TOPOLOGY, reason)
        if self._topologies.mismatch:
            raise RefusalError(RefusalCause.TOPOLOGY, self._topologies.mismatch)
        subscribed = await topics_of(raw)
        topics = tuple(sorted({*topology.topics, *subscribed}))
        cluster = await self._snapshot(topics, self._left(command) * METADATA_SHARE)
        self._refuse_strangers(cluster)
        created = None
        if not topology.differences(subscribed):  # or they would be made for another application than this one
            created = await self._complete(topology, cluster, topics, self._left(command) * METADATA_SHARE)
        if created is not None:
            cluster = await self._reread(topology, topics, self._left(command) * METADATA_SHARE)
        ends = await self._ends(topology, cluster, created or frozenset(), self._left(command) * OFFSETS_SHARE)
        return World(raw, topology, cluster, ends, command.removed)

    async def _snapshot(self, topics: tuple[str, ...], limit_s: float) -> ClusterView:
        """Fresh metadata; where that takes too long, what the watch over the group's topics has read a moment ago."""
        try:
            async with asyncio.timeout(limit_s):
                return await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)
        except TimeoutError:
            async with asyncio.timeout(limit_s * STALE_SHARE):
                return await self._reader.snapshot(topics, STALE_METADATA_MS_MAX)

    async def _complete(
        self, topology: Topology, cluster: ClusterView, topics: tuple[str, ...], limit_s: float
    ) -> frozenset[str] | None:
        try:
            found = topology.resolved(t for t in topics if t in cluster.index or t in cluster.unreadable)
        except TopologyError as error:
            raise RefusalError(RefusalCause.TOPOLOGY, str(error)) from error
        return await self._topologies.complete(found, cluster, limit_s)

    async def _reread(self, topology: Topology, topics: tuple[str, ...], limit_s: float) -> ClusterView:
        """Until the brokers know the topics that were made a moment ago, or the time is over."""
        limit = self._clock() + limit_s
        while True:
            cluster = await self._reader.snapshot(topics, 0)
            if cluster.index.keys() >= {*topology.topics} or self._clock() >= limit:
                return cluster
            await asyncio.sleep(REREAD_S)

    async def _ends(
        self, topology: Topology, cluster: ClusterView, created: frozenset[str], limit_s: float
    ) -> EndOffsets:
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        latest, committed = wanted_offsets(topology, counts)
        if topology.source == LEARNED:
            latest |= {t: counts[t] for t in topology.undecided if t in counts}
        if topology.undecided:  # a source topic may turn out to serve as a changelog
            mine = {*topology.source_topics} - {*topology.repartition_topics, *latest}
            committed = committed | {t: counts[t] for t in mine if t in counts}
        asked = {topic: count for topic, count in latest.items() if topic not in created}
        ends = await self._offsets.end_offsets(self.group_id, asked, committed, limit_s)
        self._offset_failures = self._offset_failures + 1 if ends.failure else 0
        if self._offset_failures > OFFSETS_FAILURES_MAX:
            reason = f"lags were not known {self._offset_failures} times in a row: {ends.failure}"
            raise RefusalError(RefusalCause.TOPICS, reason)
        fresh = {topic: np.zeros(latest[topic], dtype=np.int64) for topic in created & latest.keys()}
        return replace(ends, ends={**ends.ends, **fresh})

    def _refuse_strangers(self, cluster: ClusterView) -> None:
        strangers = sorted(cluster.unreadable - self.memory.plan.cluster.index.keys())
        if strangers:
            raise RefusalError(
                RefusalCause.TOPICS,
                f"metadata of {len(strangers)} topics cannot be read; grant our principal the ACL DESCRIBE on Topic"
                f" '{strangers[0]}'",
            )

    # ---- planning ----------------------------------------------------------------------------------------------

    def _left(self, command: Decide) -> float:
        return seconds_left(command, self._clock())

    def _attempts(self, raw: RawGroup, world: World | None, command: Decide) -> Attempts:
        attempts: Attempts = []
        if world is not None:
            seen = world
            attempts.append((Source.PLAN, lambda: self._own(seen, self._left(command) * PLAN_SHARE)))
            attempts.append((Source.CHEAP, lambda: self._made(self._request(seen), self._cheap, self._left(command))))
        previous = previous_tasks(self._rounds.previous, raw)
        if previous is not None:
            again = previous
            attempts.append((Source.PREVIOUS, lambda: self._checked(raw, again)))
        return attempts

    async def _own(self, world: World, limit_s: float, *, dry: bool = False) -> Inspected:
        """By the configured policy, which may hold anybody's code."""
        asked = self._request(world, dry)
        stages = replace(self.config.stages, rules=self._rules)
        self._asked = replace(asked, config=replace(self.config, stages=stages))
        if (
            self._solver is not None
            and not self._rules
            and self._solver.wants(len(world.raw.members), world.cluster.partition_total)
        ):
            return self._kept(await self._solver.solve(make_tasks, (asked,), limit_s))
        self._threads.refuse_too_many()
        return await self._made(asked, self._assignors, limit_s)

    async def _made(self, asked: TaskRequest, assignors: Assignors, limit_s: float) -> Inspected:
        return self._kept(await self._threads.run(partial(make_tasks, assignors, asked), limit_s))

    def _kept(self, made: MadeTasks) -> Inspected:
        decision, findings, self._next_arrivals = made
        return decision, findings

    def _request(self, world: World, dry: bool = False) -> TaskRequest:
        """Nothing of this object, which may change while the plan is made."""
        now_ms, seed = int(self._wall_clock() * 1000), zlib.crc32(self.group_id.encode())
        return TaskRequest(
            world,
            self.config,
            self.memory,
            self._arrivals,
            self._topologies.witnesses,
            now_ms,
            seed,
            self._message_bytes_max,
            dry,
        )

    async def _checked(self, raw: RawGroup, decision: StreamsDecision) -> Inspected:
        return decision, inspect_streams(raw, decision, message_bytes_max=self._message_bytes_max)


def _others(described: DescribeAnswer, own_member_id: str) -> list[DescribedMember]:
    return [
        DescribedMember(m.member_id, m.instance_id, m.metadata, m.assignment)
        for m in described.members
        if m.member_id != own_member_id
    ]


def previous_tasks(previous: StreamsDecision | None, raw: RawGroup) -> StreamsDecision | None:
    """The previous decision as an answer for this round, if it is one: the same members with the same bytes.

    Threads change a byte whenever they join again, so this serves rounds in which nobody spoke anew.
    """
    if previous is None or previous.raw.members != raw.members:
        return None
    if previous.raw.protocol != raw.protocol or previous.raw.own_member_ids != raw.own_member_ids:
        return None
    memory = replace(previous.memory, plan=replace(previous.memory.plan, generation=raw.generation))
    return replace(previous, raw=raw, view=replace(previous.view, generation=raw.generation), memory=memory)


def worth_moving(decision: StreamsDecision, memory: StreamsMemory) -> str:
    """Why the plan is worth a rebalance after a quiet return of ours, "" if what the threads hold will do.

    What threads said when they joined is older than what they hold, which `memory` has from the broker.
    """
    held = memory.plan.owner_in(decision.cluster, [m.key for m in decision.raw.others])
    task_of = decision.tasks.task_of
    unowned = len(np.unique(task_of[(task_of != NOBODY) & (held == NOBODY)]))
    if unowned:
        return f"{unowned} tasks have no owner"
    warming = sum(copies > decision.configs.num_standby_replicas for copies in memory.standbys.values())
    if warming:
        return f"{warming} tasks have a warm-up that waits for a probe"
    if decision.plan.probing and _uneven(decision, held):
        return "a process was to get tasks once it had caught up, which an ordinary standby may be waiting for"
    return ""


def _uneven(decision: StreamsDecision, held: IntArray) -> bool:
    """Some processes hold more tasks with state for each of their threads than others, by more than one."""
    process_map, task_of = decision.process_map, decision.tasks.task_of
    flat = np.flatnonzero((task_of != NOBODY) & (held != NOBODY))
    task, first = np.unique(task_of[flat], return_index=True)
    thread = process_map.thread[held[flat[first[decision.view.tasks.stateful[task]]]]]
    share = np.bincount(process_map.process[thread[thread >= 0]], minlength=decision.view.size) / decision.view.capacity
    return bool(share.max(initial=0.0) - share.min(initial=np.inf) > 1)
