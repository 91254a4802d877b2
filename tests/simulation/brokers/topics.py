"""The topics of the cluster, and what one refresh of its metadata shows: brokers hear of a change one after the other,
so for some seconds a reader may get what was before.
"""

import random
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.kafka.client import MetadataRead
from bellwether_kafka.coordinator.kafka.client.metadata import cluster_view
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.simulation.brokers.broker import NODES
from tests.simulation.clock import Clock

Sizes = dict[str, int]
Key = tuple[tuple[str, int], ...]
STALE = 0.5  # of the looks while brokers disagree


class Topics:
    """`sizes` is the truth: partitions by topic. `racks` are of brokers, by id; empty: nobody has one."""

    def __init__(self, clock: Clock, rng: random.Random, racks: dict[int, str]) -> None:
        self.sizes: Sizes = {}
        self.racks = racks
        self._clock, self._rng = clock, rng
        self._before: Sizes = {}
        self._agree_at = 0.0
        self._views: dict[Key, tuple[MetadataRead, ClusterView]] = {}

    def change(self, sizes: Sizes, disagree_s: float = 0.0) -> None:
        """A topic without partitions is not there."""
        self._before, self.sizes = self.sizes, {topic: n for topic, n in sorted(sizes.items()) if n}
        self._agree_at = self._clock.now + disagree_s

    def agree(self) -> None:
        self._agree_at = self._clock.now

    def reported(self) -> Sizes:
        """One refresh, at any broker."""
        stale = self._clock.now < self._agree_at and self._rng.random() < STALE
        return self._before if stale else self.sizes

    def read(self, asked: tuple[str, ...], reported: Sizes) -> MetadataRead:
        """What one refresh has shown of these topics, as a reader of metadata puts it."""
        metadata = self._of({topic: n for topic, n in reported.items() if topic in asked})[0]
        return replace(metadata, read_at=self._clock.now, absent=frozenset(asked) - frozenset(metadata.topics))

    def refresh(self) -> ClusterView:
        """One refresh of everything, as the assignors see it."""
        return self.view(self.reported())

    def view(self, sizes: Sizes) -> ClusterView:
        return self._of(sizes)[1]

    def _of(self, sizes: Sizes) -> tuple[MetadataRead, ClusterView]:
        key = tuple(sorted(sizes.items()))
        if key not in self._views:
            read = self._read(sizes)
            self._views[key] = read, cluster_view(read)
        return self._views[key]

    def _read(self, sizes: Sizes) -> MetadataRead:
        """The replicas of a partition are on two nodes, beginning with another one for each."""
        topics = tuple(sorted(sizes))
        counts = np.array([sizes[topic] for topic in topics], dtype=np.int32)
        codes = np.concatenate([np.zeros(0, dtype=np.int32), *(np.arange(n, dtype=np.int32) % 3 for n in counts)])
        placements = tuple((node, (node, node % len(NODES) + 1)) for node in NODES)
        return MetadataRead(topics, counts, codes, placements, self.racks, frozenset(NODES), 0.0)


def partitions_of(sizes: Sizes) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, p) for topic, n in sizes.items() for p in range(n))
