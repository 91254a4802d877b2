"""Groups of plain consumers: JoinGroup metadata as clients write it
(docs/internals/client-quirks.md#what-each-client-writes), members that live through rebalances, clusters with racks,
and decisions that must not be refused."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bellwether_kafka.assignors.consumer import (
    LOAD_AWARE,
    PartitionPlan,
    Policy,
    decide,
    decode_group,
    group_view,
    rebalances,
)
from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.shared import (
    ClusterView,
    Decision,
    GroupView,
    IntArray,
    MemberView,
    Memory,
    RawGroup,
    RawMember,
    Refusal,
    Weights,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

EMPTY_ASSIGNMENT = bytes.fromhex("000100000000ffffffff")


def read_group(raw: RawGroup, cluster: ClusterView, memory: Memory) -> GroupView:
    cooperative, kind = Policy().cooperative(raw.protocol), Policy().claims(raw.protocol)
    return group_view(decode_group(raw), cluster, memory, cooperative=cooperative, kind=kind)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def topic_partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    """[](str topic, []int32 partitions), topics in the order in which they appear."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    out = struct.pack(">i", len(grouped))
    for topic, numbers in grouped.items():
        out += _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out


def subscription(
    version: int,
    topics: Sequence[str],
    user_data: bytes | None = None,
    owned: Iterable[tuple[str, int]] = (),
    generation: int = -1,
    rack: str | None = None,
) -> bytes:
    """A blob with the fields of its version and nothing behind them."""
    blob = struct.pack(">hi", version, len(topics)) + b"".join(map(_string, topics)) + _bytes(user_data)
    if version >= 1:
        blob += topic_partitions(owned)
    if version >= 2:
        blob += struct.pack(">i", generation)
    if version >= 3:
        blob += struct.pack(">h", -1) if rack is None else _string(rack)
    return blob


def sticky_v1(partitions: Iterable[tuple[str, int]], generation: int) -> bytes:
    """The userData of Java's sticky assignor, also written by franz-go, librdkafka, aiokafka and echoed by sarama."""
    return topic_partitions(partitions) + struct.pack(">i", generation)


def java(
    topics: Sequence[str], owned: Iterable[tuple[str, int]] = (), generation: int = -1, rack: str | None = None
) -> bytes:
    """Java 3.4 and later; eager members own nothing."""
    return subscription(3, topics, None, owned, generation, rack)


def kafka_go(topics: Sequence[str], user_data: bytes | None = None) -> bytes:
    """Marked version 1, but it ends behind userData."""
    return struct.pack(">hi", 1, len(topics)) + b"".join(map(_string, topics)) + _bytes(user_data)


def kafka_python_sticky(topics: Sequence[str], partitions: Iterable[tuple[str, int]], generation: int) -> bytes:
    """kafka-python 3: V1 userData behind an int16 1."""
    return subscription(0, topics, b"\x00\x01" + sticky_v1(partitions, generation))


def raw_group(
    members: Mapping[str, bytes],
    *,
    protocol: str = "cooperative-sticky",
    generation: int = 1,
    instances: Mapping[str, str] | None = None,
    own: Iterable[str] = (),
) -> RawGroup:
    instances = instances or {}
    return RawGroup(
        "group",
        generation,
        protocol,
        tuple(RawMember(m, instances.get(m), blob) for m, blob in members.items()),
        frozenset(own),
    )


def given(decision: Decision[PartitionPlan]) -> dict[str, tuple[TopicPartition, ...]]:
    """Member id -> partitions, decoded from the bytes that would be sent."""
    return {member: ConsumerProtocolAssignment.decode(blob).partitions for member, blob in decision.assignments}


def given_text(decision: Decision[PartitionPlan]) -> dict[str, str]:
    return {m: " ".join(f"{tp.topic}-{tp.partition}" for tp in tps) for m, tps in given(decision).items()}


@dataclass(frozen=True)
class LiveMember:
    """A cooperative (or eager) Java member: what it owns follows from what it was sent."""

    member_id: str
    topics: tuple[str, ...]
    rack: str | None = None
    cooperative: bool = True
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1

    @property
    def metadata(self) -> bytes:
        return java(self.topics, self.owned if self.cooperative else (), self.generation, self.rack)

    def after(self, decision: Decision[PartitionPlan]) -> "LiveMember":
        mine = dict(decision.assignments)[self.member_id]
        partitions = ConsumerProtocolAssignment.decode(mine).partitions
        return replace(self, owned=partitions, generation=decision.raw.generation)


def live_group(members: Sequence[LiveMember], generation: int, protocol: str = "cooperative-sticky") -> RawGroup:
    return raw_group({m.member_id: m.metadata for m in members}, protocol=protocol, generation=generation)


def cluster_of(counts: Mapping[str, int], replicas: int = 1, racks: Sequence[str | None] = (None,)) -> ClusterView:
    """One broker per rack; replica j of the partition with running number i is on broker (i + j) mod brokers."""
    start = 0
    layout: dict[str, list[list[str | None]]] = {}
    for topic, count in counts.items():
        layout[topic] = [[racks[(i + j + start) % len(racks)] for j in range(replicas)] for i in range(count)]
        start += count
    return ClusterView.of(layout)


def members_of(topics: Sequence[Sequence[str]], racks: Sequence[str | None] | None = None) -> list[MemberView]:
    """Dynamic members consumer1, consumer2, ... in this order."""
    rack = racks or [None] * len(topics)
    return [MemberView(f"consumer{i + 1}", None, tuple(t), rack[i]) for i, t in enumerate(topics)]


def racked() -> tuple[GroupView, ClusterView]:
    """Two lists of topics over three racks, one replica each."""
    cluster = cluster_of({"t": 9, "u": 6}, racks=("a", "b", "c"))
    return GroupView.of(cluster, members_of([["t", "u"], ["t"], ["t", "u"], ["u"]], ["a", "b", "c", "b"])), cluster


def plan_of(group: GroupView, cluster: ClusterView, owner: IntArray) -> dict[str, str]:
    """Member id -> "t1-0 t1-1 ..."."""
    names = [f"{topic}-{p}" for topic, n in zip(cluster.topics, cluster.counts, strict=True) for p in range(n)]
    return {
        member.member_id: " ".join(names[f] for f in np.flatnonzero(owner == m))
        for m, member in enumerate(group.members)
    }


def claimed_by(group: GroupView, member: int) -> IntArray:
    """The flat partitions that a member claims."""
    return group.claims[group.claims_first[member] : group.claims_first[member + 1]]


def rack_mismatches(group: GroupView, cluster: ClusterView, owner: IntArray) -> int:
    """Partitions whose owner has a rack in which no replica is, counted one by one."""
    count = 0
    for flat, m in enumerate(owner.tolist()):
        if m < 0 or group.members[m].rack is None:
            continue
        replica_racks = {
            rack for r, rack in enumerate(cluster.racks) if cluster.signature_racks[cluster.signature[flat], r]
        }
        count += group.members[m].rack not in replica_racks
    return count


def tps(topic: str, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for p in partitions]


KAFKA = Policy("kafka")
T6 = cluster_of({"t": 6})


def decided(*arguments: Any, **options: Any) -> Decision[PartitionPlan]:
    """What `decide` returns for these arguments. AssertionError where it refuses."""
    decision = decide(*arguments, **options)
    assert not isinstance(decision, Refusal), decision.reason
    return decision


def settle(
    members: Sequence[LiveMember], cluster: ClusterView, memory: Memory, policy: Policy = KAFKA, generation: int = 1
) -> tuple[Sequence[LiveMember], Decision[PartitionPlan], list[Decision[PartitionPlan]]]:
    """Rebalances until nothing is pending; checks on the way that no partition has two consumers."""
    rebalances: list[Decision[PartitionPlan]] = []
    while not rebalances or rebalances[-1].followup:
        assert len(rebalances) < 4
        decision = decided(live_group(members, generation + len(rebalances)), cluster, memory, policy, now_ms=0)
        assert validate(decision.plan.group, decision.cluster, decision.plan.target) == ()
        consumer = {tp: m.member_id for m in members if m.cooperative for tp in m.owned}
        for member, partitions in given(decision).items():
            assert all(consumer.get(tp, member) == member for tp in partitions)
        members = [m.after(decision) for m in members]
        memory = decision.plan.memory
        rebalances.append(decision)
    return members, rebalances[-1], rebalances


Members = dict[str, tuple[str, ...]]


def decided_group(
    members: Members,
    topics: dict[str, int],
    *,
    protocol: str = "range",
    owned: dict[str, tuple[TopicPartition, ...]] | None = None,
    statics: bool = False,
    suffix: str = "",
) -> Decision[PartitionPlan]:
    raw = RawGroup(
        group_id="g",
        generation=5,
        protocol=protocol,
        members=tuple(
            RawMember(
                name + suffix,
                name if statics else None,
                ConsumerProtocolSubscription(
                    version=3, topics=subscribed, owned_partitions=(owned or {}).get(name, ()), generation_id=4
                ).encode(),
            )
            for name, subscribed in members.items()
        ),
    )
    cluster = ClusterView.of({topic: [["az1"]] * count for topic, count in topics.items()})
    return decided(raw, cluster, Memory.empty(), Policy(), now_ms=0)


BY_LOAD = Policy(LOAD_AWARE)
EVEN_LOADS = Weights({TopicPartition("t", p): 10.0 for p in range(8)})


def decided_by_load(policy: Policy = BY_LOAD) -> Decision[PartitionPlan]:
    members = [LiveMember("a", ("t",)), LiveMember("b", ("t",))]
    cluster = ClusterView.of({"t": [[None]] * 8})
    return decided(live_group(members, 1, "range"), cluster, Memory.empty(), policy, now_ms=0)


def heavy_on_one(decision: Decision[PartitionPlan]) -> Weights:
    mine = set((decision.plan.owner == 0).nonzero()[0].tolist())
    return Weights({TopicPartition("t", p): 100.0 if p in mine else 10.0 for p in range(8)})


ORDERS_AND_USERS = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"]] * 4, "users": [["az1"], ["az2"]]})


def orders_group(*racks: str, protocol: str = "cooperative-sticky") -> RawGroup:
    blobs = [ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode() for rack in racks]
    return RawGroup("g", 1, protocol, tuple(RawMember(f"m{i}", None, b) for i, b in enumerate(blobs)), frozenset())


def settled(raw: RawGroup) -> Memory:
    return rebalances(raw, ORDERS_AND_USERS, Memory.empty(), KAFKA, 0)[-1].plan.memory
