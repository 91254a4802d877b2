"""The decision path of a group of stateful members that are not Streams: their words are translated into those of a
Streams group, planned as such, and the answer is translated back. What they report stands in place of end offsets.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bellwether_kafka.assignors.shared import ClusterView, DescribedMember, RefusalCause, RefusalError
from bellwether_kafka.assignors.stateful import (
    Spoken,
    as_streams,
    end_offsets,
    from_streams,
    inspect_stateful,
    read_member,
    stateful_topology,
    topology_of,
)
from bellwether_kafka.assignors.streams import Assignors, StreamsDecision
from bellwether_kafka.assignors.streams.application import EndOffsets, Topology
from bellwether_kafka.coordinator.membership import Decide, DescribeAnswer, RebuildMemory
from bellwether_kafka.coordinator.planning.guard import MESSAGE_BYTES_MAX
from bellwether_kafka.coordinator.planning.planner import (
    METADATA_AGE_MS_MAX,
    PlannedRound,
    SnapshotSource,
    seconds_left,
)
from bellwether_kafka.coordinator.planning.solver import Solver
from bellwether_kafka.coordinator.planning.streams_config import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_planner import (
    STALE_METADATA_MS_MAX,
    PlannedTasks,
    StreamsPlanner,
    TaskComparison,
)

METADATA_SHARE = 0.25  # of the time until the deadline; what is read here is not read again


class Reported:
    """What the members of the round under way say of topics and of the size of their state."""

    def __init__(self, declared: Topology | None) -> None:
        self.declared = declared
        self.topology: Topology | None = declared
        self.mismatch = ""
        self.witnesses: frozenset[str] = frozenset()
        self.ends = EndOffsets()

    async def observe(self, members: tuple[DescribedMember, ...]) -> None:
        """There is nothing to learn that members do not say whenever they join."""

    def settle(self, topology: Topology) -> None:
        """Nothing is ever left open."""

    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None:
        """Members make their own topics."""

    async def end_offsets(
        self,
        group_id: str,
        latest: Mapping[str, int],
        committed: Mapping[str, int],
        limit_s: float,
    ) -> EndOffsets:
        """The members have said them already, whoever asks and however."""
        del group_id, latest, committed, limit_s
        return self.ends


class StatefulPlanner(StreamsPlanner):
    """One group's. For one event loop. `declared` is the topology file's, None: one topic group of all topics."""

    def __init__(
        self,
        group_id: str,
        config: StreamsConfig,
        reader: SnapshotSource,
        declared: Topology | None,
        assignors: Assignors,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        solver: Solver | None = None,
    ) -> None:
        self._reported = Reported(declared)
        super().__init__(
            group_id,
            replace(config, topology_attested=True),  # the topology is what members say themselves
            reader,
            self._reported,
            self._reported,
            assignors,
            message_bytes_max=message_bytes_max,
            solver=solver,
        )

    async def plan(self, command: Decide) -> PlannedTasks:
        planned = await super().plan(await self._translated(command))
        decision = planned.chosen.decision
        sent = await asyncio.to_thread(from_streams, decision)
        findings = inspect_stateful(decision, sent)
        if findings:
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        return _with(planned, sent)

    async def compare(self, command: Decide) -> TaskComparison:
        return await super().compare(await self._translated(command))

    def delivered(self, generation: int) -> PlannedTasks | None:
        planned = super().delivered(generation)
        return None if planned is None else _with(planned, from_streams(planned.chosen.decision))

    async def rebuild(self, command: RebuildMemory, described: DescribeAnswer, own_member_id: str) -> None:
        await super().rebuild(command, await self._described(described), own_member_id)

    async def observed(self, described: DescribeAnswer, own_instance_id: str | None) -> None:
        await super().observed(await self._described(described), own_instance_id)

    async def _translated(self, command: Decide) -> Decide:
        """Raises RefusalError where no metadata are to be had and none are remembered."""
        others = [m for m in command.members if m.member_id != command.own_member_id]
        limit_s = seconds_left(command, self._clock()) * METADATA_SHARE
        try:
            words = await self._in_streams_words([m.metadata for m in others], limit_s)
        except Exception as error:
            reason = f"no metadata: {str(error) or type(error).__name__}"
            raise RefusalError(RefusalCause.PLAN, reason) from error
        said = dict(zip((m.member_id for m in others), words, strict=True))
        members = tuple(replace(m, metadata=said.get(m.member_id, m.metadata)) for m in command.members)
        return replace(command, members=members)

    async def _described(self, described: DescribeAnswer) -> DescribeAnswer:
        words = await self._in_streams_words([m.metadata for m in described.members], None)
        pairs = zip(described.members, words, strict=True)
        return replace(described, members=tuple(replace(m, metadata=said) for m, said in pairs))

    async def _in_streams_words(self, metadata: Sequence[bytes], limit_s: float | None) -> list[bytes]:
        spoken = await asyncio.to_thread(lambda: list(map(read_member, metadata)))
        topology = self._reported.declared or topology_of(self.group_id, spoken)
        if topology is None:
            return list(metadata)
        async with asyncio.timeout(limit_s):
            cluster = await self._sizes(topology.topics)
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        now_ms = int(self._wall_clock() * 1000)
        return await asyncio.to_thread(self._say, spoken, stateful_topology(topology, counts), counts, now_ms)

    async def _sizes(self, topics: tuple[str, ...]) -> ClusterView:
        known = self.memory.plan.cluster
        age_ms_max = STALE_METADATA_MS_MAX if known.index.keys() >= set(topics) else METADATA_AGE_MS_MAX
        return await self._reader.snapshot(topics, age_ms_max)

    def _say(self, spoken: list[Spoken], topology: Topology, counts: Mapping[str, int], now_ms: int) -> list[bytes]:
        self._reported.topology = topology
        self._reported.ends = end_offsets(topology, counts, spoken, now_ms)
        return [as_streams(member, topology, counts) for member in spoken]


def _with(planned: PlannedTasks, sent: tuple[tuple[str, bytes], ...]) -> PlannedTasks:
    """The round with the bytes that members get."""
    chosen = planned.chosen
    decision: StreamsDecision = replace(chosen.decision, assignments=sent)
    translated: PlannedRound[StreamsDecision] = replace(planned, chosen=replace(chosen, decision=decision))
    return translated
