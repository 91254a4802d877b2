"""A group in words for sticky tests: who subscribes to what, owns what since when, and what a plan made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.consumer.follow_up import pending_partitions
from bellwether_kafka.assignors.consumer.sticky import CooperativeStickyAssignor
from bellwether_kafka.assignors.shared import (
    NO_GENERATION,
    NOBODY,
    BoolArray,
    ClusterView,
    GroupView,
    IntArray,
    MemberView,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import claimed_by, cluster_of


@dataclass(frozen=True, slots=True)
class Who:
    """A member: topics "t u", owned "t-0 u-1", the generation of these claims."""

    topics: str = ""
    owned: str = ""
    generation: int = 1
    rack: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    cluster: ClusterView
    group: GroupView
    owner: IntArray
    pending: BoolArray
    names: list[str] = field(default_factory=list)

    def of(self, member: str) -> list[str]:
        """The planned partitions of a member, by topic and partition."""
        index = [m.member_id for m in self.group.members].index(member)
        return [self.names[f] for f in np.flatnonzero(self.owner == index)]

    @property
    def plan(self) -> dict[str, list[str]]:
        return {m.member_id: self.of(m.member_id) for m in self.group.members}

    @property
    def waiting(self) -> dict[str, str]:
        """Pending partition -> the member that gets it in the next rebalance."""
        return {
            self.names[f]: self.group.members[self.owner[f]].member_id for f in np.flatnonzero(self.pending).tolist()
        }

    @property
    def sizes(self) -> list[int]:
        return sorted(len(parts) for parts in self.plan.values())

    @property
    def kept(self) -> int:
        """Claimed partitions that stay with a claimant."""
        return sum(
            len(np.intersect1d(claimed_by(self.group, m), np.flatnonzero(self.owner == m)))
            for m in range(self.group.size)
        )

    def next_rebalance(self, members: Mapping[str, Who], generation: int = 2) -> dict[str, Who]:
        """The same members after they applied what was sent: they own it, in the new generation."""
        sent = np.where(self.pending, NOBODY, self.owner)
        return {
            m.member_id: Who(
                members[m.member_id].topics,
                " ".join(self.names[f] for f in np.flatnonzero(sent == i)),
                generation,
                members[m.member_id].rack,
            )
            for i, m in enumerate(self.group.members)
        }


def group_of(
    cluster: ClusterView,
    members: Mapping[str, Who],
    remembered: Mapping[str, str] | None = None,
    remembered_generation: int = NO_GENERATION,
) -> GroupView:
    memory = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    for position, owned in enumerate((remembered or {}).get(member, "") for member in members):
        memory[[f for f in (cluster.flat(*part) for part in parts_of(owned)) if f is not None]] = position
    return GroupView.of(
        cluster,
        [MemberView(name, None, tuple(w.topics.split()), w.rack, w.generation) for name, w in members.items()],
        [parts_of(w.owned) for w in members.values()],
        remembered=memory,
        remembered_generation=remembered_generation,
    )


def parts_of(words: str) -> list[TopicPartition]:
    return [TopicPartition(topic, int(p)) for topic, p in (word.rsplit("-", 1) for word in words.split())]


def decide(
    topics: Mapping[str, int],
    members: Mapping[str, Who],
    *,
    replicas: int = 1,
    racks: Sequence[str | None] = (None,),
    remembered: Mapping[str, str] | None = None,
    remembered_generation: int = NO_GENERATION,
) -> Outcome:
    """Plans one rebalance. Every plan is checked against the rules that hold for all of them."""
    cluster = cluster_of(topics, replicas, racks)
    group = group_of(cluster, members, remembered, remembered_generation)
    owner = CooperativeStickyAssignor().assign(group, cluster)
    names = [f"{t}-{p}" for t, n in zip(cluster.topics, cluster.counts.tolist(), strict=True) for p in range(n)]
    check(cluster, group, owner)
    return Outcome(cluster, group, owner, pending_partitions(group, owner), names)


def check(cluster: ClusterView, group: GroupView, owner: IntArray) -> None:
    """Every partition of a subscribed topic once and only at a subscriber; nobody with two more than another member
    holds a topic that this one subscribes to. Written from the definition, partition by partition."""
    has: list[set[str]] = [set() for _ in group.members]
    load = [0] * group.size
    assert len(owner) == cluster.partition_total
    for flat, m in enumerate(owner.tolist()):
        topic = cluster.name(flat).topic
        subscribers = [i for i, member in enumerate(group.members) if topic in member.topics]
        if not subscribers:
            assert m == NOBODY
            continue
        assert m in subscribers
        has[m].add(topic)
        load[m] += 1
    for rich in range(group.size):
        for poor in range(group.size):
            if load[rich] >= load[poor] + 2:
                assert not has[rich] & set(group.members[poor].topics), (load, rich, poor)
