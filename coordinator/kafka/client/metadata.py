"""Metadata reads as plain values: which topics have how many partitions on which brokers. Pure.

A partition's `placement` is (leader id, replica ids). A cluster has few distinct placements, so each partition stores
an index (its code) into one table of them, and racks are computed once for each placement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, ClusterView, IntArray
from bellwether_kafka.protocol.primitives import is_topic_name

PLACEMENT_LIMIT = 1_000_000

ReplicaSet = tuple[int, tuple[int, ...]]  # the leader and all replicas


@dataclass(frozen=True, slots=True, eq=False)
class TopicRead:
    """One topic as of `read_at` (seconds, monotonic): `codes` has a placement code for each partition.

    `trouble` is None for a topic that exists and ABSENT for one that the broker does not know. Otherwise it is a phrase
    such as "Topic authorization failed": the topic may exist and must not be treated as deleted.
    """

    read_at: float
    codes: IntArray
    trouble: str | None = None


ABSENT = "absent"
NO_CODES = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class MetadataRead:
    """The topics of one query. `codes` has the placement code of each partition of `topics` (sorted by name), `counts`
    the number of partitions of each topic.

    `racks`: the last known racks by broker id, including brokers that are down. `online`: the brokers that are up.
    `absent` and `unreadable`: the queried topics that are not in `topics`.
    """

    topics: tuple[str, ...]
    counts: IntArray
    codes: IntArray
    placements: Sequence[ReplicaSet]
    racks: Mapping[int, str]
    online: frozenset[int]
    read_at: float
    absent: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()

    @property
    def count_of(self) -> dict[str, int]:
        return dict(zip(self.topics, self.counts.tolist(), strict=True))

    @property
    def codes_of(self) -> dict[str, IntArray]:
        """The placement codes of the partitions, by topic."""
        if not self.topics:
            return {}
        return dict(zip(self.topics, np.split(self.codes, np.cumsum(self.counts)[:-1]), strict=True))


@dataclass(slots=True)
class MetadataCache:
    """The latest read of each topic, and the racks of every broker ever seen. One writer at a time."""

    topics: dict[str, TopicRead] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=dict)
    online: frozenset[int] = frozenset()
    _placements: list[ReplicaSet] = field(default_factory=list)
    _code: dict[ReplicaSet, int] = field(default_factory=dict)

    def see_brokers(self, racks: Mapping[int, str | None]) -> None:
        """Stores the online brokers and their racks. One without a rack has lost it; an offline one keeps its last."""
        self.online = frozenset(racks)
        for broker, rack in racks.items():
            if rack:
                self.racks[broker] = rack
            else:
                self.racks.pop(broker, None)

    def see_topic(self, topic: str, read_at: float, distinct: Sequence[ReplicaSet], codes: IntArray) -> None:
        """Stores a topic. `codes` are indexes of its partitions into `distinct`."""
        if len(self._placements) + len(distinct) > PLACEMENT_LIMIT:
            self._forget()
        translation = np.array([self._intern(placement) for placement in distinct], dtype=np.int32)
        self.topics[topic] = TopicRead(read_at, translation[codes] if len(codes) else NO_CODES)

    def see_trouble(self, topic: str, read_at: float, trouble: str) -> None:
        self.topics[topic] = TopicRead(read_at, NO_CODES, trouble)

    def expire(self, topic: str) -> None:
        """Marks the topic as stale, so that the next fresh read requests it."""
        if topic in self.topics:
            self.topics[topic] = replace(self.topics[topic], read_at=float("-inf"))

    def stale(self, topics: Iterable[str], oldest: float) -> list[str]:
        """Returns the topics to request: those never read, or before `oldest` (seconds, monotonic). Names that no topic
        can have are dropped here, because one would spoil the whole answer; every metadata request starts with this
        method."""
        old = (t for t in topics if t not in self.topics or self.topics[t].read_at < oldest)
        return sorted(filter(is_topic_name, old))

    def read(self, topics: Iterable[str], now: float) -> MetadataRead:
        """Returns what is known of these topics. A topic that was never read counts as unreadable."""
        asked = sorted(set(topics))
        cached = {t: self.topics[t] for t in asked if t in self.topics}
        there = tuple(t for t in asked if t in cached and cached[t].trouble is None)
        codes = [cached[t].codes for t in there]
        absent = frozenset(t for t in asked if not is_topic_name(t) or (t in cached and cached[t].trouble == ABSENT))
        return MetadataRead(
            topics=there,
            counts=np.array([len(c) for c in codes], dtype=np.int32),
            codes=np.concatenate(codes) if codes else NO_CODES,
            placements=self._placements,
            racks=dict(self.racks),
            online=self.online,
            read_at=min((cached[t].read_at for t in cached), default=now),
            absent=absent,
            unreadable=frozenset(asked) - frozenset(there) - absent,
        )

    def _intern(self, placement: ReplicaSet) -> int:
        code = self._code.setdefault(placement, len(self._placements))
        if code == len(self._placements):
            self._placements.append(placement)
        return code

    def _forget(self) -> None:
        """Drops all topics and placements, which pile up in years of reassignments. Earlier reads keep the old
        table."""
        self.topics.clear()
        self._code = {}
        self._placements = []


def distinct_placements(partitions: Iterable[ReplicaSet]) -> tuple[list[ReplicaSet], IntArray]:
    """Returns each distinct placement once, and for each partition the index of its own."""
    code: dict[ReplicaSet, int] = {}
    codes = [code.setdefault(placement, len(code)) for placement in partitions]
    return list(code), np.array(codes, dtype=np.int32)


def cluster_view(read: MetadataRead) -> ClusterView:
    """Returns the assignors' view of a read. Partitions are handled as arrays, only distinct placements in Python."""
    used, inverse = np.unique(read.codes, return_inverse=True)
    placements = [read.placements[code] for code in used.tolist()]
    rack_sets = [frozenset(read.racks[b] for b in replicas if b in read.racks) for _, replicas in placements]
    racks = tuple(sorted(frozenset().union(*rack_sets) | frozenset(read.racks.values())))
    rack_code = {rack: i for i, rack in enumerate(racks)}
    # Sorted, so that earlier reads do not matter: the row decides ties in a plan.
    rows = {rack_set: row for row, rack_set in enumerate(sorted(set(rack_sets), key=sorted))}
    row_of = np.array([rows[rack_set] for rack_set in rack_sets], dtype=np.int32)
    table = np.zeros((max(1, len(rows)), len(racks)), dtype=np.bool_)
    for rack_set, row in rows.items():
        table[row, [rack_code[rack] for rack in rack_set]] = True
    leaders = [read.racks.get(leader, "") for leader, _ in placements]
    leader_rack = np.array([rack_code.get(rack, NO_RACK) for rack in leaders], dtype=np.int32)
    first = np.zeros(len(read.topics) + 1, dtype=np.int64)
    np.cumsum(read.counts, out=first[1:])
    return ClusterView(
        topics=read.topics,
        counts=read.counts,
        first=first,
        racks=racks,
        signature=row_of[inverse] if placements else NO_CODES,
        signature_racks=table,
        leader_rack=leader_rack[inverse] if placements else NO_CODES,
        read_at=read.read_at,
        unreadable=read.unreadable,
        index={topic: i for i, topic in enumerate(read.topics)},
    )
