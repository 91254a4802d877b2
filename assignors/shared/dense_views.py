"""The frozen views that assignors read, and the plan that they return.

All large data are dense integer arrays, so that a million partitions cost array operations and not objects
(ARCHITECTURE.md#dense-views). Coordinates:

* topic index: position in `ClusterView.topics` (sorted by name);
* flat partition: `ClusterView.first[topic] + partition`, 0 <= flat < partitions in total;
* member index: position in `GroupView.members`, in the order of the JoinGroup response;
* rack index: position in `ClusterView.column_racks`; NO_RACK if unknown, FOREIGN_RACK if a member names a rack without
  brokers (it is never local to anything; a member without a rack is neutral instead).

An owner array has one member index per flat partition, NOBODY for none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple, overload

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, IntArray, LongArray, offsets
from bellwether_kafka.protocol.primitives import TopicPartition, whole_number

NOBODY = -1
NO_RACK = -1
FOREIGN_RACK = -2
NO_GENERATION = -1


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """Topics, partitions and replica racks as of one metadata read.

    `signature` maps each flat partition to a row of `signature_racks`, the set of racks that hold a replica of it.
    Clusters have few such sets and many partitions, so rack work is done per set. `leader_rack` is the rack of the
    leader replica (NO_RACK if unknown). `read_at` is in seconds on the caller's monotonic clock. `unreadable` are
    subscribed topics whose metadata was refused (ACL) or failed: they still exist, and their assignment is frozen.

    After `with_leaders`, `signature_racks` has a second column for each rack, for members that fetch from leaders only.
    """

    topics: tuple[str, ...]
    counts: IntArray
    first: LongArray
    racks: tuple[str, ...]
    signature: IntArray
    signature_racks: BoolArray
    leader_rack: IntArray
    read_at: float = 0.0
    unreadable: frozenset[str] = frozenset()
    index: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        replica_racks: Mapping[str, Sequence[Sequence[str | None]]],
        *,
        read_at: float = 0.0,
        unreadable: frozenset[str] = frozenset(),
    ) -> "ClusterView":
        """Builds a view from the racks of each partition's replicas, by topic (leader first; None = no rack)."""
        topics = tuple(sorted(replica_racks))
        racks = tuple(sorted({r for parts in replica_racks.values() for reps in parts for r in reps if r}))
        rack_index = {rack: i for i, rack in enumerate(racks)}
        counts = np.array([len(replica_racks[t]) for t in topics], dtype=np.int32)
        signatures: dict[frozenset[str], int] = {}
        signature: list[int] = []
        leader: list[int] = []
        codes_by_replicas: dict[tuple[str | None, ...], tuple[int, int]] = {}
        for topic in topics:
            for replicas in replica_racks[topic]:
                key = tuple(replicas)
                hit = codes_by_replicas.get(key)
                if hit is None:
                    rack_set = frozenset(r for r in key if r)
                    head = key[0] if key else None
                    hit = (signatures.setdefault(rack_set, len(signatures)), rack_index[head] if head else NO_RACK)
                    codes_by_replicas[key] = hit
                signature.append(hit[0])
                leader.append(hit[1])
        table = np.zeros((max(1, len(signatures)), len(racks)), dtype=np.bool_)
        for rack_set, row in signatures.items():
            for rack in rack_set:
                table[row, rack_index[rack]] = True
        return cls(
            topics=topics,
            counts=counts,
            first=offsets(counts),
            racks=racks,
            signature=np.array(signature, dtype=np.int32),
            signature_racks=table,
            leader_rack=np.array(leader, dtype=np.int32),
            read_at=read_at,
            unreadable=unreadable,
            index={t: i for i, t in enumerate(topics)},
        )

    def with_leaders(self) -> "ClusterView":
        """Returns the view with a second column for each rack, in which a partition is local if its leader is in the
        rack, wherever its other replicas are. If the leader's rack is unknown, all replicas count."""
        size = len(self.racks)
        if self.signature_racks.shape[1] > size:
            return self
        codes, signature = np.unique(
            self.signature * np.int64(size + 1) + self.leader_rack - NO_RACK, return_inverse=True
        )
        row, leader = np.divmod(codes, size + 1)
        replicas = self.signature_racks[row]
        leaders = (leader + NO_RACK)[:, None] == np.arange(size)
        columns = np.hstack([replicas, np.where((leader == 0)[:, None], replicas, leaders)])
        table = columns if len(columns) else np.zeros((1, 2 * size), dtype=np.bool_)
        return replace(self, signature=signature.reshape(-1).astype(np.int32), signature_racks=table)

    @property
    def column_racks(self) -> tuple[str, ...]:
        """The rack of each column of `signature_racks`."""
        return self.racks * 2 if self.signature_racks.shape[1] > len(self.racks) else self.racks

    @property
    def replica_racks(self) -> BoolArray:
        """`signature_racks` without the columns for leaders."""
        return self.signature_racks[:, : len(self.racks)]

    @property
    def partition_total(self) -> int:
        return int(self.first[-1])

    def flat(self, topic: str, partition: int) -> int | None:
        """Returns the flat partition, or None if the topic or the partition is unknown."""
        t = self.index.get(topic)
        if t is None or not 0 <= partition < self.counts[t]:
            return None
        return int(self.first[t]) + partition

    def flats_of(self, item: str) -> IntArray:
        """Returns the flat partitions that an operator's name refers to: all of a topic, or one partition as TOPIC-N;
        empty if there is neither. If both match, as for `orders-3` beside a topic of that name, the topic is meant."""
        t = self.index.get(item)
        if t is not None:
            return np.arange(self.first[t], self.first[t + 1], dtype=np.int32)
        flat = self.flat_of(item)
        return np.array([] if flat is None else [flat], dtype=np.int32)

    def flat_of(self, partition: str) -> int | None:
        """Returns the flat partition that is written as TOPIC-N, also if a topic has that name; None if there is
        none."""
        topic, _, text = partition.rpartition("-")
        number = whole_number(text)
        return None if number is None else self.flat(topic, number)

    def name(self, flat: int) -> TopicPartition:
        t = int(np.searchsorted(self.first, flat, side="right")) - 1
        return TopicPartition(self.topics[t], flat - int(self.first[t]))

    def topic_of(self) -> IntArray:
        """The topic index of every flat partition."""
        return np.repeat(np.arange(len(self.topics), dtype=np.int32), self.counts)

    def rack_code(self, rack: str | None, *, leader_only: bool = False) -> int:
        """Returns the index of a member's rack. "" means none, as in Java. `leader_only`: the member fetches from
        leaders only, which needs a view `with_leaders`."""
        if not rack:
            return NO_RACK
        try:
            return self.racks.index(rack) + (len(self.racks) if leader_only else 0)
        except ValueError:
            return FOREIGN_RACK


class MemberView(NamedTuple):
    """One member as the leader knows it.

    `generation` is the one generation of its claims (docs/internals/wire-formats.md#claims-of-a-member), NO_GENERATION
    if unknown. `degraded` is why its bytes could not be used (None: they could). `leader_only`: its rack comes from the
    configuration, and it fetches from leaders only. `client_id` is set where the member id does not begin with it.
    """

    member_id: str
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    rack: str | None = None
    generation: int = NO_GENERATION
    degraded: str | None = None
    leader_only: bool = False
    client_id: str = ""

    @property
    def key(self) -> str:
        """The instance id, which stays the same over a restart, else the member id."""
        return self.instance_id or self.member_id

    @property
    def order(self) -> tuple[bool, str]:
        """Java's MemberInfo order: static members first by instance id, then dynamic ones by member id."""
        return (self.instance_id is None, self.key)


class Members(Sequence[MemberView]):
    """The members of a group, stored as columns: a rebalance may bring thousands, and most are never read one by
    one."""

    __slots__ = ("_columns", "ids", "instance_ids", "leader_only", "racks")

    def __init__(
        self,
        ids: Sequence[str],
        instance_ids: Sequence[str | None],
        topics: Sequence[tuple[str, ...]],
        racks: Sequence[str | None],
        generations: Sequence[int],
        degraded: Sequence[str | None],
        leader_only: Sequence[bool] | None = None,
        client_ids: Sequence[str] | None = None,
    ) -> None:
        """Takes the columns of MemberView, all of equal length."""
        self.ids, self.instance_ids, self.racks = ids, instance_ids, racks
        self.leader_only: Sequence[bool] = [False] * len(ids) if leader_only is None else leader_only
        client_ids = [""] * len(ids) if client_ids is None else client_ids
        self._columns = (ids, instance_ids, topics, racks, generations, degraded, self.leader_only, client_ids)

    @classmethod
    def of(cls, members: Sequence[MemberView]) -> "Members":
        if isinstance(members, Members):
            return members
        return cls(*zip(*members, strict=True)) if members else cls((), (), (), (), (), ())

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[MemberView]:
        return map(MemberView._make, zip(*self._columns, strict=True))

    @overload
    def __getitem__(self, m: int) -> MemberView: ...
    @overload
    def __getitem__(self, m: slice) -> Sequence[MemberView]: ...
    def __getitem__(self, m: int | slice) -> MemberView | Sequence[MemberView]:
        if isinstance(m, slice):
            return tuple(self)[m]
        return MemberView._make(column[m] for column in self._columns)

    @property
    def keys(self) -> list[str]:
        """`MemberView.key` of each."""
        if not any(self.instance_ids):
            return [*self.ids]
        return [instance_id or member_id for instance_id, member_id in zip(self.instance_ids, self.ids, strict=True)]

    def rack_codes(self, cluster: ClusterView) -> IntArray:
        """Returns the rack index of each member."""
        if not any(self.racks):
            return np.full(len(self.racks), NO_RACK, dtype=np.int32)
        pairs = list(zip(self.racks, self.leader_only, strict=True))
        codes = {pair: cluster.rack_code(pair[0], leader_only=pair[1]) for pair in set(pairs)}
        if len(codes) == 1:
            return np.full(len(pairs), next(iter(codes.values())), dtype=np.int32)
        return np.array([codes[pair] for pair in pairs], dtype=np.int32)

    @property
    def by_id(self) -> IntArray:
        """Member indices sorted by member id."""
        return np.array(sorted(range(len(self.ids)), key=self.ids.__getitem__), dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """Claims that the leader does not believe. `member` (row) and `flat` are parallel arrays; `reasons` has the reason
    by member."""

    member: LongArray
    flat: LongArray
    reasons: Mapping[int, str]

    @classmethod
    def none(cls) -> "Refused":
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), {})

    def of(self, flats: Sequence[int]) -> tuple[tuple[int, str], ...]:
        """Returns (member, reason) of each member whose claim to one of these partitions is refused."""
        rows = sorted(set(self.member[np.isin(self.flat, flats)].tolist()))
        return tuple((row, self.reasons[row]) for row in rows)


@dataclass(frozen=True, slots=True, eq=False)
class GroupView:
    """A group in one rebalance, without Bellwether's own member (a member on the wire, never in a view).

    `topic_set[m]` is a row of `topic_sets`, which has each distinct subscription once, as sorted indices of topics that
    the cluster view knows. Claims are flat partitions in CSR form: those of member m are
    `claims[claims_first[m]:claims_first[m + 1]]`, sorted. `remembered` is the leader's memory as an owner array: what
    was last delivered to these members, in `remembered_generation`. Cooperative members, which keep consuming during a
    rebalance, claim what they own, and the cooperative step makes moves from them pending; eager members claim only in
    the userData of "sticky". `by_id` are the member indices ordered by member id. `current` caches the owner array that
    follows from claims and memory (`claims.current_owner`).

    `claims` has only claims that the leader believes; `refused` has the others. `claim_asked` is parallel to `claims`:
    how many plans in a row will have asked the member to give the partition up, if this plan asks; 0 if the member has
    not itself joined again.
    """

    group_id: str
    generation: int
    protocol: str
    members: Members
    topic_sets: tuple[IntArray, ...]
    topic_set: IntArray
    rack: IntArray
    claims: IntArray
    claims_first: LongArray
    claim_generation: IntArray
    remembered: IntArray
    by_id: IntArray
    remembered_generation: int = NO_GENERATION
    current: IntArray | None = None
    claim_asked: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    refused: Refused = field(default_factory=Refused.none)

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def distrusted(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The reasons for refused claims, each with the members that it concerns."""
        rows: dict[str, list[int]] = {}
        for member, reason in self.refused.reasons.items():
            rows.setdefault(reason, []).append(member)
        return tuple((reason, tuple(sorted(members))) for reason, members in sorted(rows.items()))

    @property
    def sets_in_use(self) -> LongArray:
        """The rows of `topic_sets` that at least one member has."""
        rows: LongArray = np.flatnonzero(np.bincount(self.topic_set, minlength=len(self.topic_sets)))
        return rows

    def wants_all(self, topic_total: int) -> bool:
        """Returns whether all members subscribe to all topics of the cluster, so that callers can skip lookups."""
        return len(self.topic_sets) == 1 and len(self.topic_sets[0]) == topic_total

    @classmethod
    def of(
        cls,
        cluster: ClusterView,
        members: Sequence[MemberView],
        claims: Sequence[Sequence[TopicPartition | tuple[str, int]]] = (),
        *,
        group_id: str = "group",
        generation: int = 1,
        protocol: str = "cooperative-sticky",
        remembered: IntArray | None = None,
        remembered_generation: int = NO_GENERATION,
    ) -> "GroupView":
        """Builds a view from plain values (tests, plug-in authors); the decision path builds the arrays in bulk."""
        members = Members.of(members)
        sets: dict[tuple[int, ...], int] = {}
        topic_set = np.empty(len(members), dtype=np.int32)
        for m, member in enumerate(members):
            wanted = tuple(sorted({cluster.index[t] for t in member.topics if t in cluster.index}))
            topic_set[m] = sets.setdefault(wanted, len(sets))
        flat: list[IntArray] = []
        for _, mine in zip_longest(members, claims, fillvalue=()):
            claimed = {cluster.flat(t, p) for t, p in mine}
            flat.append(np.array(sorted(f for f in claimed if f is not None), dtype=np.int32))
        if remembered is None:
            remembered = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
        return cls(
            group_id=group_id,
            generation=generation,
            protocol=protocol,
            members=members,
            topic_sets=tuple(np.array(s, dtype=np.int32) for s in sets),
            topic_set=topic_set,
            rack=members.rack_codes(cluster),
            claims=np.concatenate(flat) if flat else np.zeros(0, dtype=np.int32),
            claims_first=offsets([len(f) for f in flat]),
            claim_generation=np.array([m.generation for m in members], dtype=np.int32),
            remembered=remembered,
            by_id=members.by_id,
            remembered_generation=remembered_generation,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A planned assignment. `owner` is the target. `pending` marks partitions that their new owner gets one rebalance
    later, because another member still consumes them. `sent` is the target without the pending partitions."""

    owner: IntArray
    pending: BoolArray

    @classmethod
    def of(cls, owner: IntArray) -> "Plan":
        return cls(owner=owner, pending=np.zeros(len(owner), dtype=np.bool_))

    @property
    def sent(self) -> IntArray:
        return np.where(self.pending, NOBODY, self.owner).astype(np.int32)
