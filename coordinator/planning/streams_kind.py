"""Streams applications: the implementation of `GroupKind` with their topology, end offsets, and a memory of threads."""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import structlog

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, IntArray, RefusalCause, RefusalError
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import LEARNED, EndOffsets, Topology, TopologyError, wanted_offsets
from bellwether_kafka.assignors.streams.members import StreamsMemory, fatal_to_java, recall_streams
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import ClusterReader, Counts, Offsets
from bellwether_kafka.coordinator.membership import Decide
from bellwether_kafka.coordinator.planning.consumer_kind import refuse_unreadable, topics_of
from bellwether_kafka.coordinator.planning.inspection import MESSAGE_BYTES_MAX
from bellwether_kafka.coordinator.planning.planned import METADATA_AGE_MS_MAX, Planned, SecondsLeft, WatchedTopics
from bellwether_kafka.coordinator.planning.streams_inputs import Arrivals, StreamsConfig, TaskRequest, World
from bellwether_kafka.coordinator.topology import GivenTopology, TopicCreationError, TopologyKeeper

METADATA_SHARE = 0.35  # share of the time until the deadline
OFFSETS_SHARE = 0.4  # share of the time left after that
REREAD_S = 0.05
SPREAD_S = 1.0  # how long brokers may take to learn of new topics
STALE_METADATA_MS_MAX = 60_000
STALE_SHARE = 0.2  # share of the time for fresh metadata; known metadata need no request
OFFSETS_FAILURES_MAX = 3

log = structlog.get_logger(__name__)


class OffsetSource(Protocol):
    """The part of `offset_reader.OffsetReader` that the planner uses."""

    async def end_offsets(self, group_id: str, latest: Counts, committed: Counts, limit_s: float) -> EndOffsets: ...
    async def committed(self, group_id: str, topics: Counts, limit_s: float) -> Offsets: ...


class StreamsKind:
    """One application. `memory` is what its threads own, as far as Bellwether knows."""

    def __init__(
        self,
        group_id: str,
        config: StreamsConfig,
        reader: ClusterReader,
        offsets: OffsetSource,
        topologies: TopologyKeeper | GivenTopology,
        assignors: Assignors,
        *,
        wall_clock: Callable[[], float] = clocks.wall,
    ) -> None:
        self.group_id = group_id
        self.config = config
        self.memory = StreamsMemory.empty()
        self._reader = reader
        self._offsets = offsets
        self._topologies = topologies
        self._assignors = assignors
        self._wall_clock = wall_clock
        self._offset_failures = 0
        self._arrivals = Arrivals()
        self._resets = Resets(group_id, offsets)

    @property
    def policy(self) -> str:
        return self.config.policy

    def uses_racks(self, protocol: str) -> bool:  # noqa: ARG002 - see GroupKind
        return True

    @property
    def maker(self) -> Assignors:
        return self._assignors

    @property
    def rules_refused(self) -> str:
        if self.config.policy == STREAMS_HA:
            return ""
        return f"pins, bans and evacuations need the policy {STREAMS_HA}; this one is {self.config.policy}"

    async def read(self, raw: shared.RawGroup, command: Decide, left: SecondsLeft) -> TaskRequest:
        await self._topologies.refresh()
        topology = self._topologies.topology
        if topology is None:
            reason = "its topology is not known; name a topology file, or let a Java member lead it once"
            raise RefusalError(RefusalCause.TOPOLOGY, reason)
        if self._topologies.mismatch:
            raise RefusalError(RefusalCause.TOPOLOGY, self._topologies.mismatch)
        subscribed = await topics_of(raw)
        topics = tuple(sorted({*topology.topics, *subscribed}))
        cluster = await self._snapshot(topics, left() * METADATA_SHARE)
        refuse_unreadable(cluster, self.memory.plan.cluster)
        if not self.config.topology_attested:
            cluster = await self._refuse_reset(topology, cluster, topics, left() * METADATA_SHARE)
        created = None
        if not topology.differences(subscribed):  # otherwise they would be created for another application
            created = await self._complete(topology, cluster, topics, left() * METADATA_SHARE)
        if created is not None:
            cluster = await self._reread(topology, topics, left() * METADATA_SHARE)
        self._resets.observe(topology, cluster)
        ends = await self._ends(raw.group_id, topology, cluster, created or frozenset(), left() * OFFSETS_SHARE)
        return TaskRequest(
            world=World(raw, topology, cluster, ends, command.removed),
            config=self.config,
            memory=self.memory,
            arrivals=self._arrivals,
            learned_from_members=self._topologies.learned_from_members,
            now_ms=int(self._wall_clock() * 1000),
            seed=zlib.crc32(raw.group_id.encode()),
            message_bytes_max=MESSAGE_BYTES_MAX,
        )

    def topics(self, decision: Decision[TaskPlan]) -> WatchedTopics:
        topology, rack_aware = decision.plan.topology, bool((decision.plan.view.rack != shared.NO_RACK).any())
        return WatchedTopics(topology.source_topics, topology.changelogs, rack_aware, partial(fatal_to_java, topology))

    def present_owner(self, decision: Decision[TaskPlan]) -> IntArray:
        """Returns the owning process of each task by `memory`, which is what the broker shows. What threads reported
        when they joined is one rebalance older."""
        plan = decision.plan
        owner = self.memory.plan.owner_in(decision.cluster, [m.key for m in plan.joined])
        process_of = {member: p for p, process in enumerate(plan.view.processes) for member in process.members}
        row = np.array([process_of.get(m.member_id, NOBODY) for m in plan.joined], dtype=np.int32)
        owned = np.flatnonzero((plan.item_of != NOBODY) & (owner != NOBODY))
        present = np.full(plan.view.tasks.size, NOBODY, dtype=np.int32)
        present[plan.item_of[owned]] = row[owner[owned]]
        return present

    def assigned_sizes(self) -> dict[str, int]:
        return self.memory.plan.assigned_sizes()

    def worth_moving(self, decision: Decision[TaskPlan]) -> str:
        return worth_moving(decision, self.memory)

    def differs(self, decision: Decision[TaskPlan], former: Decision[TaskPlan], rules: tuple[shared.Rule, ...]) -> bool:
        """Compares two dry plans, because threads' reports in a dry rebalance are one rebalance old: where tasks and
        copies are, and where tasks are to go. A task whose owner violates the rules counts as a change, even if it was
        about to move. Without known lags a dry plan leaves everything in place, so the answer is then True."""
        if not decision.plan.lags_known or len(decision.plan.against(rules, self.present_owner(decision))):
            return True
        return _places(decision.plan) != _places(former.plan)

    def delivered(self, planned: Planned[TaskPlan]) -> None:
        self.memory = planned.decision.plan.memory
        if isinstance(planned.arrivals, Arrivals):
            self._arrivals = planned.arrivals
        used, topology = planned.decision.plan.topology, self._topologies.topology
        if topology is not None and topology.undecided and used.source == LEARNED:
            self._topologies.settle(used)  # the next rebalance does not repeat what threads reported in this one

    def forget(self) -> None:
        self.memory = StreamsMemory.empty()
        self._arrivals = Arrivals()
        self._offset_failures = 0

    def distrust(self) -> None:
        self._topologies.distrust()

    @property
    def digest(self) -> str:
        topology = self._topologies.topology
        return topology.digest if topology is not None and topology.source != LEARNED else ""

    async def learn(self, members: tuple[shared.AssignedMember, ...]) -> bool:
        """Learns the topology. A learned one is valid for the members that showed it; others may run another version
        and stay unknown."""
        if not members:
            return False
        await self._topologies.observe(members)
        topology, ids = self._topologies.topology, {m.member_id for m in members}
        return topology is None or topology.source != LEARNED or ids == self._topologies.learned_from_members

    async def recall(
        self, generation: int, protocol: str, members: Sequence[shared.AssignedMember], current: Callable[[], bool]
    ) -> None:
        topology = self._topologies.topology
        cluster = await self._reader.snapshot(topology.topics if topology else (), METADATA_AGE_MS_MAX)
        memory = await asyncio.to_thread(recall_streams, generation, protocol, cluster, members)
        if current():
            self.memory = memory

    async def prepare(self, limit_s: float) -> None:
        """Creates missing internal topics before they are needed.

        Only if the operator attests the topology file: by a wrong one the topics would get a wrong number of
        partitions, which kills the application. And not after a reset: the next version must not find topics of the old
        one.
        """
        await self._topologies.refresh()
        topology = self._topologies.topology if self.config.topology_attested else None
        if topology is not None and not topology.patterns:  # only members know which topics match a pattern
            async with asyncio.timeout(limit_s):
                cluster = await self._reader.snapshot(topology.topics, METADATA_AGE_MS_MAX)
                gone = await self._resets.gone(topology, cluster, limit_s)
                self._resets.report(gone, "nothing is made until members come")
                if not gone:
                    await self._topologies.complete(topology, cluster, limit_s)

    async def objection(self, topology: Topology, limit_s: float) -> str:
        """Returns why a Java leader would stop the application if it rebalanced now, "" for no reason. Bellwether could
        not plan then either, and would leave to such a leader. Raises TimeoutError and the reader's exceptions."""
        async with asyncio.timeout(limit_s):
            cluster = await self._reader.snapshot(topology.topics, METADATA_AGE_MS_MAX)
        return fatal_to_java(topology, cluster)

    async def _snapshot(self, topics: tuple[str, ...], limit_s: float) -> ClusterView:
        """Returns fresh metadata or, if that takes too long, those that the watch on the group's topics has read
        recently."""
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
            resolved = topology.resolved(t for t in topics if t in cluster.index or t in cluster.unreadable)
        except TopologyError as error:
            raise RefusalError(RefusalCause.TOPOLOGY, str(error)) from error
        try:
            return await self._topologies.complete(resolved, cluster, limit_s)
        except TopicCreationError as error:
            raise RefusalError(RefusalCause.INTERNAL_TOPICS, str(error)) from error

    async def _reread(self, topology: Topology, topics: tuple[str, ...], limit_s: float) -> ClusterView:
        """Returns metadata that include newly created topics, or the last ones when time is up."""
        limit = clocks.monotonic() + limit_s
        while True:
            cluster = await self._reader.snapshot(topics, 0)
            if cluster.index.keys() >= {*topology.topics} or clocks.monotonic() >= limit:
                return cluster
            await asyncio.sleep(REREAD_S)

    async def _ends(
        self, group_id: str, topology: Topology, cluster: ClusterView, created: frozenset[str], limit_s: float
    ) -> EndOffsets:
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        latest, committed = wanted_offsets(topology, counts)
        if topology.source == LEARNED:
            latest |= {t: counts[t] for t in topology.undecided if t in counts}
        if topology.undecided:  # a source topic may also serve as a changelog
            mine = {*topology.source_topics} - {*topology.repartition_topics, *latest}
            committed = committed | {t: counts[t] for t in mine if t in counts}
        asked = {topic: count for topic, count in latest.items() if topic not in created}
        ends = await self._offsets.end_offsets(group_id, asked, committed, limit_s)
        self._offset_failures = self._offset_failures + 1 if ends.failure else 0
        if self._offset_failures > OFFSETS_FAILURES_MAX:
            reason = f"lags were not known {self._offset_failures} times in a row: {ends.failure}"
            raise RefusalError(RefusalCause.TOPICS, reason)
        fresh = {topic: np.zeros(latest[topic], dtype=np.int64) for topic in created & latest.keys()}
        return replace(ends, ends={**ends.ends, **fresh})

    async def _refuse_reset(
        self, topology: Topology, cluster: ClusterView, topics: tuple[str, ...], limit_s: float
    ) -> ClusterView:
        """Raises RefusalError after a reset, because what the members run now is not attested. Reads again first, as a
        broker may not know topics that were created a moment ago."""
        if await self._resets.gone(topology, cluster, limit_s):
            cluster = await self._reread(topology, topics, min(limit_s, SPREAD_S))
        gone = await self._resets.gone(topology, cluster, limit_s)
        self._resets.report(gone, "a Java member leads first")
        if gone:
            reason = (
                f"{len(gone)} of its internal topics are gone, as after a reset ({gone[0]}), and it may be another"
                " version now; a Java member makes those that it needs, unless topology_attested is set for the file"
            )
            raise RefusalError(RefusalCause.TOPOLOGY, reason)
        return cluster


def _places(plan: TaskPlan) -> tuple[list[int], list[int], set[tuple[object, object]]]:
    """Returns the owner of each partition, the destination of each task, and the places of copies. Destinations matter
    because a process that has just come back gets its tasks later, and its first plan shows nothing else of that."""
    target = plan.target
    destination = target.destination if len(target.destination) else target.active
    return plan.owner.tolist(), destination.tolist(), {(copy.task, copy.process_id) for copy in plan.copies}


def worth_moving(decision: Decision[TaskPlan], memory: StreamsMemory) -> str:
    """Returns why the plan is worth a rebalance, "" if it is not. Uses `memory`, because threads' reports are older."""
    plan = decision.plan
    owner = memory.plan.owner_in(decision.cluster, [m.key for m in plan.joined])
    unowned = len(np.unique(plan.item_of[(plan.item_of != NOBODY) & (owner == NOBODY)]))
    if unowned:
        return f"{unowned} tasks have no owner"
    warming = sum(copies > plan.configs.num_standby_replicas for copies in memory.standbys.values())
    if warming:
        return f"{warming} tasks have a warm-up that waits for a probe"
    if plan.target.probing and _uneven(plan, owner):
        return "a process was to get tasks once it had caught up, which an ordinary standby may be waiting for"
    return ""


def _uneven(plan: TaskPlan, owner: IntArray) -> bool:
    """Returns whether processes differ by more than one in their stateful tasks per thread."""
    process_map, task_of = plan.process_map, plan.tasks.task_of
    flat = np.flatnonzero((task_of != NOBODY) & (owner != NOBODY))
    task, first = np.unique(task_of[flat], return_index=True)
    thread = process_map.thread[owner[flat[first[plan.view.tasks.stateful[task]]]]]
    share = np.bincount(process_map.process[thread[thread >= 0]], minlength=plan.view.size) / plan.view.capacity
    return bool(share.max(initial=0.0) - share.min(initial=np.inf) > 1)


class Resets:
    """Resets of one application, by which StreamsResetter deletes its internal topics: the next version must neither
    find topics of the old one nor be led by its topology. Keeps the internal topics seen so far, and whether their loss
    has been logged."""

    def __init__(self, group_id: str, offsets: OffsetSource) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._seen: set[str] = set()
        self._reported = False

    def observe(self, topology: Topology, cluster: ClusterView) -> None:
        self._seen |= _internal(topology) & (cluster.index.keys() | cluster.unreadable)

    async def gone(self, topology: Topology, cluster: ClusterView, limit_s: float) -> tuple[str, ...]:
        """Returns the internal topics that existed and are gone: those seen before, or all if none is left and the
        application has committed offsets."""
        self.observe(topology, cluster)
        internal = _internal(topology)
        there = internal & (cluster.index.keys() | cluster.unreadable)
        gone = internal & self._seen - there
        if internal and not there and not gone:
            sources = [t for t in topology.source_topics if t not in internal and t in cluster.index]
            counts = {t: int(cluster.counts[cluster.index[t]]) for t in sources}
            committed = await self._offsets.committed(self._group_id, counts, limit_s)
            gone = internal if any((offsets >= 0).any() for offsets in committed.values()) else set()
        return tuple(sorted(gone))

    def report(self, gone: tuple[str, ...], action: str) -> None:
        if gone and not self._reported:
            log.warning("application_reset", group=self._group_id, gone=list(gone), action=action)
        self._reported = bool(gone)


def _internal(topology: Topology) -> set[str]:
    """Returns repartition topics and changelogs, without source topics of the application's own that serve as
    changelogs."""
    external = {t for t in topology.source_topics if t not in topology.repartition_topics}
    return {*topology.repartition_topics, *topology.changelogs} - external
