"""JoinGroup metadata as clients write it (docs/internals/client-quirks.md#what-each-client-writes), and members that
live through rebalances."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decode_group, group_view
from bellwether_kafka.assignors.shared import ClusterView, Decision, GroupView, Memory, RawGroup, RawMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
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
