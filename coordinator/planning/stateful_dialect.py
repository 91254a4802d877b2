"""Plans groups of stateful members that are not Streams: translates them into a Streams group and the plan back. The
members' own reports replace end offsets."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bellwether_kafka.assignors import stateful as translate
from bellwether_kafka.assignors.shared import ClusterView, Decision, RefusalCause, RefusalError
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets, Topology
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import ClusterReader, Offsets
from bellwether_kafka.coordinator.membership import Decide, ShownGroup
from bellwether_kafka.coordinator.planning.planned import METADATA_AGE_MS_MAX, Dialect
from bellwether_kafka.coordinator.planning.streams_inputs import StreamsConfig
from bellwether_kafka.coordinator.planning.streams_kind import STALE_METADATA_MS_MAX, StreamsKind
from bellwether_kafka.coordinator.topology import GivenTopology

METADATA_SHARE = 0.25  # share of the time until the deadline; metadata read here are not read again


class UnreadableTopicsError(Exception):
    """Raised if the members' metadata cannot be translated now; the message names a topic."""


class Reported(GivenTopology):
    """What the members of the present rebalance report about topics and the size of their state. They report it each
    time they join, and create their topics themselves."""

    def __init__(self, declared: Topology | None) -> None:
        super().__init__(declared)
        self.declared, self.ends = declared, EndOffsets()

    async def end_offsets(self, *_: object) -> EndOffsets:
        """Returns the end offsets that the members have reported."""
        return self.ends

    async def committed(self, *_: object) -> Offsets:
        """Returns nothing: only the creation of topics needs committed offsets, and members create their own."""
        return {}


class StatefulDialect(Dialect[TaskPlan]):
    """The dialect of one group. `last_cluster` returns the cluster of the plan delivered last."""

    def __init__(
        self, group_id: str, reader: ClusterReader, reported: Reported, last_cluster: Callable[[], ClusterView]
    ) -> None:
        self._group_id = group_id
        self._reader = reader
        self._reported = reported
        self._last_cluster = last_cluster

    async def joined(self, command: Decide, limit_s: float) -> Decide:
        """Translates the members' metadata. Raises RefusalError if metadata of topics cannot be read and none are
        remembered."""
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
        """Translates a described group. Raises UnreadableTopicsError, because partitions of unread topics would count
        as unowned."""
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
        decoded = await asyncio.to_thread(lambda: list(map(translate.read_member, metadata)))
        topology = self._reported.declared or translate.topology_of(self._group_id, decoded)
        if topology is None:
            return list(metadata)
        async with asyncio.timeout(limit_s):
            cluster = await self._sizes(topology.topics)
        if whole and cluster.unreadable:
            raise UnreadableTopicsError(f"metadata of topic {min(cluster.unreadable)} cannot be read")
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        return await asyncio.to_thread(self._encoded, decoded, translate.stateful_topology(topology, counts), counts)

    async def _sizes(self, topics: tuple[str, ...]) -> ClusterView:
        remembered = self._last_cluster().index.keys() >= set(topics)
        return await self._reader.snapshot(topics, STALE_METADATA_MS_MAX if remembered else METADATA_AGE_MS_MAX)

    def _encoded(
        self, decoded: list[translate.DecodedMember], topology: Topology, counts: Mapping[str, int]
    ) -> list[bytes]:
        self._reported.topology = topology
        self._reported.ends = translate.end_offsets(topology, counts, decoded, int(clocks.wall() * 1000))
        return [translate.as_streams(member, topology, counts) for member in decoded]


def stateful(
    group_id: str, config: StreamsConfig, reader: ClusterReader, declared: Topology | None, assignors: Assignors
) -> tuple[StreamsKind, StatefulDialect]:
    """Returns the kind and the dialect for the planner of such a group. `declared` is the topology file's; None: one
    topic group of all topics. Members report the topology themselves, so it needs no attestation."""
    reported, config = Reported(declared), replace(config, topology_attested=True)
    kind = StreamsKind(group_id, config, reader, reported, reported, assignors)
    return kind, StatefulDialect(group_id, reader, reported, lambda: kind.memory.plan.cluster)
