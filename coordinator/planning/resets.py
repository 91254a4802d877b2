"""Detects that an application has been reset. StreamsResetter deletes its internal topics, and the next version of the
application must neither find topics of the old one nor be led by its topology."""

from typing import Protocol

import structlog

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.assignors.streams.application import Topology
from bellwether_kafka.coordinator.kafka.client import Counts, Offsets

log = structlog.get_logger(__name__)


class CommittedReader(Protocol):
    """The part of `offset_reader.OffsetReader` that this module uses."""

    async def committed(self, group_id: str, topics: Counts, limit_s: float) -> Offsets: ...


class Resets:
    """Resets of one application: the internal topics seen so far, and whether their loss has been logged."""

    def __init__(self, group_id: str, offsets: CommittedReader) -> None:
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
