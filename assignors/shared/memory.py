"""What the leader remembers of the plan that it last delivered, and how that reads in a new rebalance.

Memory is the only history of members that claim nothing (range and round robin members, restarted static members, most
Python clients), and it beats claims of its own generation and older ones
(docs/reference/wire-formats.md#claims-of-a-member).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, IntArray, LongArray
from bellwether_kafka.assignors.shared.model import NO_GENERATION, NOBODY, ClusterView, Members, MemberView


def digest(metadata: bytes) -> bytes:
    """A fingerprint of metadata: equal bytes, equal fingerprint."""
    return blake2b(metadata, digest_size=16).digest()


@dataclass(frozen=True, eq=False)  # no slots: the index is made when it is asked for
class Memory:
    """The plan of `generation` as it was SENT: `owner` names positions in `members`, flat partitions are `cluster`'s.

    `members` carry the last subscription and rack that could be read. `digests` (by member key) fingerprint the
    metadata of static members; `echoes` (by member key) are the userData written into assignments. `holder` names the
    member that still had a partition which the plan did not leave with it, and `asked` counts the plans in a row that
    asked for it; both are per flat partition, or empty where there is no such partition.
    """

    generation: int
    cluster: ClusterView
    owner: IntArray
    members: Members
    digests: Mapping[str, bytes] = field(default_factory=dict)
    echoes: Mapping[str, bytes] = field(default_factory=dict)
    holder: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    asked: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @classmethod
    def of(
        cls,
        generation: int,
        cluster: ClusterView,
        owner: IntArray,
        members: Sequence[MemberView],
        *,
        digests: Mapping[str, bytes] | None = None,
        echoes: Mapping[str, bytes] | None = None,
    ) -> "Memory":
        kept = owner.astype(np.int32, copy=True)
        kept.flags.writeable = False
        return cls(generation, cluster, kept, Members.of(members), digests or {}, echoes or {})

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Positions in `members` by key."""
        return {key: i for i, key in enumerate(self.members.keys)}

    @classmethod
    def empty(cls) -> "Memory":
        """Knows nothing: a leader that just came and could not read the group's last assignment."""
        return cls.of(NO_GENERATION, ClusterView.of({}), np.zeros(0, dtype=np.int32), ())

    def find(self, key: str) -> MemberView | None:
        """The member with this key (instance id, else member id) as it was in that plan."""
        position = self.index.get(key)
        return None if position is None else self.members[position]

    def renamed(self, names: Mapping[str, str]) -> "Memory":
        """The same plan, dynamic members that have come back by their new member ids."""
        members = [m._replace(member_id=names.get(m.member_id, m.member_id)) for m in self.members]
        return replace(self, members=Members.of(members))

    def owner_in(self, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        """The remembered plan in other coordinates: flat partitions of `cluster`, positions in `keys`.

        Members that are gone and partitions that no longer exist fall out; subscriptions are not looked at.
        """
        return self._in(self.owner, cluster, keys)

    def holder_in(self, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        """`holder` in other coordinates, as `owner_in`."""
        return self._in(self.holder, cluster, keys)

    def asked_in(self, cluster: ClusterView) -> IntArray:
        """`asked` per flat partition of `cluster`, 0 for those that memory does not have."""
        result = np.zeros(cluster.partition_total, dtype=np.int32)
        if len(self.asked):
            target, alive = translate(self.cluster, cluster)
            result[target[alive]] = self.asked[alive]
        return result

    def known_in(self, cluster: ClusterView) -> BoolArray:
        """The partitions of `cluster` whose topic was there when this plan was made: of others it says nothing. New
        partitions of a topic that has grown were nobody's."""
        known = np.array([topic in self.cluster.index for topic in cluster.topics], dtype=np.bool_)
        return np.repeat(known, cluster.counts)

    def _in(self, owner: IntArray, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        result = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
        if not len(owner) or owner.max() == NOBODY:
            return result
        position = np.full(len(self.members) + 1, NOBODY, dtype=np.int32)  # the last entry answers for NOBODY
        index = self.index
        for i, key in enumerate(keys):
            old = index.get(key)
            if old is not None:
                position[old] = i
        target, alive = translate(self.cluster, cluster)
        result[target[alive]] = position[owner[alive]]
        return result


def translate(old: ClusterView, new: ClusterView) -> tuple[LongArray, LongArray]:
    """(per flat partition of `old` its flat partition in `new`, the ones of `old` that still exist)."""
    everything: LongArray = np.arange(old.partition_total, dtype=np.int64)
    if old is new or (old.topics == new.topics and np.array_equal(old.counts, new.counts)):
        return everything, everything
    topic = np.array([new.index.get(name, -1) for name in old.topics], dtype=np.int64)
    shift = np.where(topic >= 0, new.first[topic] - old.first[:-1], 0)
    room = np.where(topic >= 0, new.counts[topic] if len(new.counts) else 0, 0)
    of = old.topic_of()
    alive = np.flatnonzero(everything - old.first[of] < room[of])
    return everything + shift[of], alive
