"""Groups of stateful members that are not Streams: their words are translated into those of a Streams group, planned as
such, and the answer is translated back. What they report stands in place of end offsets.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, Decision, RefusalCause, RefusalError
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
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets, Topology
from bellwether_kafka.coordinator.membership import Decide, DescribeAnswer
from bellwether_kafka.coordinator.planning.group_kind import METADATA_AGE_MS_MAX, SnapshotSource
from bellwether_kafka.coordinator.planning.streams_config import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_kind import STALE_METADATA_MS_MAX, StreamsKind

METADATA_SHARE = 0.25  # of the time until the deadline; what is read here is not read again


class Reported:
    """What the members of the round under way say of topics and of the size of their state."""

    def __init__(self, declared: Topology | None) -> None:
        self.declared = declared
        self.topology: Topology | None = declared
        self.mismatch = ""
        self.witnesses: frozenset[str] = frozenset()
        self.ends = EndOffsets()

    async def observe(self, members: tuple[AssignedMember, ...]) -> None:
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


class StatefulDialect:
    """One group's. `known` is the cluster of the plan that was delivered last."""

    def __init__(
        self,
        group_id: str,
        reader: SnapshotSource,
        reported: Reported,
        known: Callable[[], ClusterView],
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._group_id = group_id
        self._reader = reader
        self._reported = reported
        self._known = known
        self._wall_clock = wall_clock

    async def joined(self, command: Decide, limit_s: float) -> Decide:
        """Raises RefusalError where no metadata are to be had and none are remembered."""
        others = [m for m in command.members if m.member_id != command.own_member_id]
        try:
            words = await self._in_streams_words([m.metadata for m in others], limit_s * METADATA_SHARE)
        except Exception as error:
            reason = f"no metadata: {str(error) or type(error).__name__}"
            raise RefusalError(RefusalCause.PLAN, reason) from error
        said = dict(zip((m.member_id for m in others), words, strict=True))
        members = tuple(replace(m, metadata=said.get(m.member_id, m.metadata)) for m in command.members)
        return replace(command, members=members)

    async def described(self, described: DescribeAnswer) -> DescribeAnswer:
        words = await self._in_streams_words([m.metadata for m in described.members], None)
        pairs = zip(described.members, words, strict=True)
        return replace(described, members=tuple(replace(m, metadata=said) for m, said in pairs))

    async def answered(self, decision: Decision[TaskPlan]) -> Decision[TaskPlan]:
        sent = await asyncio.to_thread(from_streams, decision)
        findings = inspect_stateful(decision, sent)
        if findings:
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        return replace(decision, assignments=sent)

    async def _in_streams_words(self, metadata: Sequence[bytes], limit_s: float | None) -> list[bytes]:
        spoken = await asyncio.to_thread(lambda: list(map(read_member, metadata)))
        topology = self._reported.declared or topology_of(self._group_id, spoken)
        if topology is None:
            return list(metadata)
        async with asyncio.timeout(limit_s):
            cluster = await self._sizes(topology.topics)
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        now_ms = int(self._wall_clock() * 1000)
        return await asyncio.to_thread(self._say, spoken, stateful_topology(topology, counts), counts, now_ms)

    async def _sizes(self, topics: tuple[str, ...]) -> ClusterView:
        known = self._known().index.keys() >= set(topics)
        return await self._reader.snapshot(topics, STALE_METADATA_MS_MAX if known else METADATA_AGE_MS_MAX)

    def _say(self, spoken: list[Spoken], topology: Topology, counts: Mapping[str, int], now_ms: int) -> list[bytes]:
        self._reported.topology = topology
        self._reported.ends = end_offsets(topology, counts, spoken, now_ms)
        return [as_streams(member, topology, counts) for member in spoken]


def stateful(
    group_id: str,
    config: StreamsConfig,
    reader: SnapshotSource,
    declared: Topology | None,
    assignors: Assignors,
    *,
    wall_clock: Callable[[], float] = time.time,
) -> tuple[StreamsKind, StatefulDialect]:
    """What the planner of such a group needs. `declared` is the topology file's, None: one topic group of all topics.
    The topology is what members say themselves, so it needs no other witness."""
    reported, config = Reported(declared), replace(config, topology_attested=True)
    kind = StreamsKind(group_id, config, reader, reported, reported, assignors, wall_clock=wall_clock)
    return kind, StatefulDialect(group_id, reader, reported, lambda: kind.memory.plan.cluster, wall_clock=wall_clock)
