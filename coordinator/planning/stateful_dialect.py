"""Groups of stateful members that are not Streams: translated into a Streams group, planned as such, and translated
back. What the members report takes the place of end offsets."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bellwether_kafka.assignors import stateful as translate
from bellwether_kafka.assignors.shared import ClusterView, Decision, RefusalCause, RefusalError
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets, Topology
from bellwether_kafka.coordinator.kafka import ClusterReader, Offsets
from bellwether_kafka.coordinator.membership import Decide, ShownGroup
from bellwether_kafka.coordinator.planning.group_kind import METADATA_AGE_MS_MAX, Dialect
from bellwether_kafka.coordinator.planning.streams_config import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_kind import STALE_METADATA_MS_MAX, StreamsKind
from bellwether_kafka.coordinator.topology import GivenTopology

METADATA_SHARE = 0.25  # of the time until the deadline; what is read here is not read again


class UnreadableTopicsError(Exception):
    """The members' words cannot be translated now; the message names a topic."""


class Reported(GivenTopology):
    """What the members of the rebalance under way say of topics and of the size of their state: they say it whenever
    they join, and make their own topics."""

    def __init__(self, declared: Topology | None) -> None:
        super().__init__(declared)
        self.declared, self.ends = declared, EndOffsets()

    async def end_offsets(self, *_: object) -> EndOffsets:
        """The members have reported them already, in every case."""
        return self.ends

    async def committed(self, *_: object) -> Offsets:
        """Only asked before topics are made, which is their own affair."""
        return {}


class StatefulDialect(Dialect[TaskPlan]):
    """One group's. `known` is the cluster of the plan that was delivered last."""

    def __init__(
        self, group_id: str, reader: ClusterReader, reported: Reported, known: Callable[[], ClusterView]
    ) -> None:
        self._group_id = group_id
        self._reader = reader
        self._reported = reported
        self._known = known

    async def joined(self, command: Decide, limit_s: float) -> Decide:
        """Raises RefusalError where no metadata are to be had and none are remembered."""
        others = [m for m in command.members if m.member_id != command.own_member_id]
        try:
            words = await self._in_streams_words([m.metadata for m in others], limit_s * METADATA_SHARE)
        except Exception as error:
            reason = f"no metadata: {str(error) or type(error).__name__}"
            raise RefusalError(RefusalCause.PLAN, reason) from error
        metadata = dict(zip((m.member_id for m in others), words, strict=True))
        members = tuple(replace(m, metadata=metadata.get(m.member_id, m.metadata)) for m in command.members)
        return replace(command, members=members)

    async def described(self, group: ShownGroup) -> ShownGroup:
        """Raises UnreadableTopicsError, because partitions without a topic would count as partitions of nobody."""
        words = await self._in_streams_words([m.metadata for m in group.members], None, whole=True)
        pairs = zip(group.members, words, strict=True)
        return replace(group, members=tuple(replace(m, metadata=metadata) for m, metadata in pairs))

    async def answered(self, decision: Decision[TaskPlan]) -> Decision[TaskPlan]:
        sent = await asyncio.to_thread(translate.from_streams, decision)
        findings = translate.inspect_stateful(decision, sent)
        if findings:
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        return replace(decision, assignments=sent)

    async def _in_streams_words(
        self, metadata: Sequence[bytes], limit_s: float | None, *, whole: bool = False
    ) -> list[bytes]:
        spoken = await asyncio.to_thread(lambda: list(map(translate.read_member, metadata)))
        topology = self._reported.declared or translate.topology_of(self._group_id, spoken)
        if topology is None:
            return list(metadata)
        async with asyncio.timeout(limit_s):
            cluster = await self._sizes(topology.topics)
        if whole and cluster.unreadable:
            raise UnreadableTopicsError(f"metadata of topic {min(cluster.unreadable)} cannot be read")
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        return await asyncio.to_thread(self._encoded, spoken, translate.stateful_topology(topology, counts), counts)

    async def _sizes(self, topics: tuple[str, ...]) -> ClusterView:
        known = self._known().index.keys() >= set(topics)
        return await self._reader.snapshot(topics, STALE_METADATA_MS_MAX if known else METADATA_AGE_MS_MAX)

    def _encoded(self, spoken: list[translate.Spoken], topology: Topology, counts: Mapping[str, int]) -> list[bytes]:
        self._reported.topology = topology
        self._reported.ends = translate.end_offsets(topology, counts, spoken, int(time.time() * 1000))
        return [translate.as_streams(member, topology, counts) for member in spoken]


def stateful(
    group_id: str, config: StreamsConfig, reader: ClusterReader, declared: Topology | None, assignors: Assignors
) -> tuple[StreamsKind, StatefulDialect]:
    """What the planner of such a group needs. `declared` is the topology file's, None: one topic group of all topics.
    The topology is what members say themselves, so it needs no other witness."""
    reported, config = Reported(declared), replace(config, topology_attested=True)
    kind = StreamsKind(group_id, config, reader, reported, reported, assignors)
    return kind, StatefulDialect(group_id, reader, reported, lambda: kind.memory.plan.cluster)
