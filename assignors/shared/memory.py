"""What the leader remembers of its last delivered plan, and how that translates to a new rebalance.

Memory is the only history of members that claim nothing (range and round robin members, restarted static members, most
Python clients). It overrides claims of its own generation and older ones
(docs/internals/wire-formats.md#claims-of-a-member).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, IntArray, LongArray
from bellwether_kafka.assignors.shared.dense_views import NO_GENERATION, NOBODY, ClusterView, Members, MemberView
from bellwether_kafka.assignors.shared.rules import Rule


def digest(metadata: bytes) -> bytes:
    """Returns a fingerprint of metadata; equal bytes have equal fingerprints."""
    return blake2b(metadata, digest_size=16).digest()


@dataclass(frozen=True, eq=False)  # no slots: the index is computed on first use
class Memory:
    """The plan of `generation` as it was SENT. `owner` holds positions in `members`, per flat partition of `cluster`.

    `members` have the last readable subscription and rack. `digests` (by member key) are fingerprints of the metadata
    of static members. `echoes` (by member key) are the userData written into assignments. `holder` is the member that
    still had a partition which the plan took from it, and `asked` is how many plans in a row asked for that partition;
    both are per flat partition, or empty if there is none. `target` is where partitions are to be, with those that the
    plan left pending; `rules` are those under which it was made, and `by` is the policy that made it, "" if it was what
    serves when a policy cannot. Empty if nothing is pending.
    """

    generation: int
    cluster: ClusterView
    owner: IntArray
    members: Members
    digests: Mapping[str, bytes] = field(default_factory=dict)
    echoes: Mapping[str, bytes] = field(default_factory=dict)
    holder: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    asked: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    target: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    rules: tuple[Rule, ...] = ()
    by: str = ""

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
        """Returns a memory without content, for a new leader that could not read the group's last assignment."""
        return cls.of(NO_GENERATION, ClusterView.of({}), np.zeros(0, dtype=np.int32), ())

    def find(self, key: str) -> MemberView | None:
        """Returns the member with this key (instance id, else member id) as it was in the remembered plan, or None."""
        position = self.index.get(key)
        return None if position is None else self.members[position]

    def renamed(self, names: Mapping[str, str]) -> "Memory":
        """Returns the same plan, with dynamic members that came back under new member ids renamed."""
        members = [m._replace(member_id=names.get(m.member_id, m.member_id)) for m in self.members]
        return replace(self, members=Members.of(members))

    def assigned_sizes(self) -> dict[str, int]:
        """Returns, for each topic with an assigned partition, the partition count that this implies, as partition
        numbers have no gaps."""
        flats = np.flatnonzero(self.owner != NOBODY)
        topic = self.cluster.topic_of()[flats]
        sizes = np.zeros(len(self.cluster.topics), dtype=np.int64)
        np.maximum.at(sizes, topic, flats - self.cluster.first[topic] + 1)
        return {self.cluster.topics[t]: int(sizes[t]) for t in np.flatnonzero(sizes)}

    def owner_in(self, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        """Returns the remembered plan in other coordinates: flat partitions of `cluster`, positions in `keys`.

        Members that left and partitions that no longer exist are dropped. Subscriptions are not checked.
        """
        return self._in(self.owner, cluster, keys)

    def holder_in(self, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        """`holder` in other coordinates, as `owner_in`."""
        return self._in(self.holder, cluster, keys)

    def target_in(self, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        """`target` in other coordinates, as `owner_in`."""
        return self._in(self.target, cluster, keys)

    def asked_in(self, cluster: ClusterView) -> IntArray:
        """Returns `asked` per flat partition of `cluster`, 0 for partitions that memory does not have."""
        result = np.zeros(cluster.partition_total, dtype=np.int32)
        if len(self.asked):
            target, alive = translate(self.cluster, cluster)
            result[target[alive]] = self.asked[alive]
        return result

    def topic_existed_in(self, cluster: ClusterView) -> BoolArray:
        """Marks the partitions of `cluster` whose topic existed when this plan was made; about other topics the plan
        says nothing. Partitions added to a known topic had no owner then."""
        existed = np.array([topic in self.cluster.index for topic in cluster.topics], dtype=np.bool_)
        return np.repeat(existed, cluster.counts)

    def _in(self, owner: IntArray, cluster: ClusterView, keys: Iterable[str]) -> IntArray:
        result = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
        if not len(owner) or owner.max() == NOBODY:
            return result
        position = np.full(len(self.members) + 1, NOBODY, dtype=np.int32)  # the last entry is for NOBODY
        index = self.index
        for i, key in enumerate(keys):
            old = index.get(key)
            if old is not None:
                position[old] = i
        target, alive = translate(self.cluster, cluster)
        result[target[alive]] = position[owner[alive]]
        return result


def translate(old: ClusterView, new: ClusterView) -> tuple[LongArray, LongArray]:
    """Returns (per flat partition of `old` its flat partition in `new`, the partitions of `old` that still exist)."""
    everything: LongArray = np.arange(old.partition_total, dtype=np.int64)
    if old is new or (old.topics == new.topics and np.array_equal(old.counts, new.counts)):
        return everything, everything
    topic = np.array([new.index.get(name, -1) for name in old.topics], dtype=np.int64)
    shift = np.where(topic >= 0, new.first[topic] - old.first[:-1], 0)
    room = np.where(topic >= 0, new.counts[topic] if len(new.counts) else 0, 0)
    of = old.topic_of()
    alive = np.flatnonzero(everything - old.first[of] < room[of])
    return everything + shift[of], alive
