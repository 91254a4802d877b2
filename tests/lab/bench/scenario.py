"""What a benchmark runs on: a group's subscription bytes and the racks of every replica, the same for all engines.

A scenario is written to one file in a trivial big-endian format that `BenchMain.java` reads: protocol name; nodes (rack
each); topics (name, partition count, per partition its replicas as node indices); members (id, metadata). A string is
uint16 length + UTF-8, a count or a blob length is int32, a replica count or a node index is one byte.
"""

import random
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, IntArray
from bellwether_kafka.protocol.bulk import owner_of, write_assignments
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription

RACKS = ("az1", "az2", "az3")
SETTLED_GENERATION = 7
CHURN = 10  # one in so many leaves, and as many come
ISLANDS = 8  # of disjoint subscriptions
SKEW = 10  # of so many members, one is in the second rack, one in the third and all others in the first


@dataclass(frozen=True)
class Shape:
    """One row of the table: `members` counts those of the group that is planned for.

    `event` is "fresh" (nobody owns anything), "join" (one of the members is new, the others own a settled plan),
    "leave" (one more member had a part of the settled plan and is gone) or "churn" (a tenth is gone, a tenth is new).
    `subscribe`: members subscribe to "all" topics, every other one to half of them ("mixed"), or each to an eighth of
    them ("disjoint"). `skewed`: most members are in one rack.
    """

    protocol: str
    members: int
    topics: int
    partitions_per_topic: int
    event: str = "join"
    racks: bool = False
    replicas: int = 2
    subscribe: str = "all"
    skewed: bool = False

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic

    @property
    def settled_members(self) -> int:
        """How many members had the plan that the event disturbs; 0 for a fresh group."""
        return {"fresh": 0, "join": self.members - 1, "leave": self.members + 1, "churn": self.members}[self.event]

    @property
    def present(self) -> list[int]:
        """The numbers of the members of the group, those of the settled ones first."""
        settled = range(self.settled_members)
        gone = {"leave": {self.settled_members // 2}, "churn": set(settled[CHURN // 2 :: CHURN])}.get(self.event, set())
        remaining = [m for m in settled if m not in gone]
        return [*remaining, *range(len(settled), len(settled) + self.members - len(remaining))]

    def topics_of(self, member: int) -> range:
        """The topics that a member subscribes to, by number."""
        if self.subscribe == "disjoint":
            return range(member % ISLANDS, self.topics, ISLANDS)
        return range(self.topics // 2 if self.subscribe == "mixed" and member % 2 else self.topics)

    def rack_of(self, member: int) -> str:
        if not self.skewed:
            return RACKS[member % len(RACKS)]
        return RACKS[{SKEW - 2: 1, SKEW - 1: 2}.get(member % SKEW, 0)]

    def __str__(self) -> str:
        size = f"{self.members:,} x {self.partitions:,} ({self.topics} topics)"
        racks = f", {'skewed ' * self.skewed}racks, {self.replicas} replica{'s' * (self.replicas > 1)}"
        subscribe = "" if self.subscribe == "all" else f", {self.subscribe} subscriptions"
        return f"{self.protocol}, {self.event}, {size}{subscribe}{racks if self.racks else ''}"


@dataclass(frozen=True)
class Scenario:
    """A shape filled with bytes. `claimed` is an owner array over `cluster` of what members say they own.

    `numbers` are the members' numbers: members are listed in no order, as brokers do.
    """

    shape: Shape
    replicas: tuple[tuple[tuple[int, ...], ...], ...]
    member_ids: tuple[str, ...]
    metadata: tuple[bytes, ...]
    numbers: IntArray
    claimed: IntArray

    @cached_property
    def cluster(self) -> ClusterView:
        racks = RACKS if self.shape.racks else (None,) * len(RACKS)
        return ClusterView.of(
            {
                name: [[racks[node] for node in nodes] for nodes in partitions]
                for name, partitions in zip(_topic_names(self.shape), self.replicas, strict=True)
            }
        )

    def owners(self, assignments: Sequence[bytes]) -> IntArray:
        """The number of the member that each flat partition goes to; every one goes to a member."""
        owners: IntArray = self.numbers[owner_of(assignments, self.cluster.topics, self.cluster.first)]
        return owners

    def write(self, path: Path) -> None:
        """Writes the file for Java."""
        with path.open("wb") as out:
            out.write(_text(self.shape.protocol))
            out.write(struct.pack(">i", len(RACKS)))
            for rack in RACKS:
                out.write(_text(rack if self.shape.racks else ""))
            out.write(struct.pack(">i", len(self.replicas)))
            for name, partitions in zip(_topic_names(self.shape), self.replicas, strict=True):
                out.write(_text(name) + struct.pack(">i", len(partitions)))
                out.write(b"".join(bytes((len(nodes), *nodes)) for nodes in partitions))
            out.write(struct.pack(">i", len(self.member_ids)))
            for member_id, blob in zip(self.member_ids, self.metadata, strict=True):
                out.write(_text(member_id) + struct.pack(">i", len(blob)) + blob)


def fresh(shape: Shape, members: int) -> Scenario:
    """The first `members` members of a shape, none of which owns anything."""
    nobody = np.full(shape.partitions, NOBODY, dtype=np.int32)
    return _filled(shape, list(range(members)), nobody, members)


def disturbed(shape: Shape, settled: IntArray) -> Scenario:
    """The scenario itself, given the settled plan of its `settled_members`: a member number per flat partition."""
    if shape.event == "fresh":
        return fresh(shape, shape.members)
    present = shape.present
    position = np.full(shape.settled_members + 1, NOBODY, dtype=np.int32)  # the last entry answers for NOBODY
    for index, member in enumerate(present):
        if member < shape.settled_members:
            position[member] = index
    return _filled(shape, present, position[settled], shape.settled_members)


def _filled(shape: Shape, present: list[int], claimed: IntArray, settled_members: int) -> Scenario:
    names = _topic_names(shape)
    first = np.arange(shape.topics + 1, dtype=np.int64) * shape.partitions_per_topic
    owned = write_assignments(names, first, claimed, len(present), version=0)
    metadata = tuple(
        _subscription(
            shape, names, owned[index][2:-4], member, settled=member < settled_members and shape.event != "fresh"
        )
        for index, member in enumerate(present)
    )
    ids = _member_ids(max(present) + 1)
    # Brokers list members in the order of a hash map: no order at all.
    order = random.Random(1).sample(range(len(present)), len(present))
    back = np.full(len(present) + 1, NOBODY, dtype=np.int32)
    back[order] = np.arange(len(present), dtype=np.int32)
    return Scenario(
        shape=shape,
        replicas=_replicas(shape),
        member_ids=tuple(ids[present[i]] for i in order),
        metadata=tuple(metadata[i] for i in order),
        numbers=np.array([present[i] for i in order], dtype=np.int32),
        claimed=back[claimed],
    )


def _subscription(shape: Shape, names: list[str], owned: bytes, member: int, *, settled: bool) -> bytes:
    """The bytes that a Java consumer sends; `owned` is its list of owned partitions already encoded."""
    generation = SETTLED_GENERATION if settled else -1
    rack = shape.rack_of(member) if shape.racks else None
    user_data = None
    if shape.protocol == "cooperative-sticky":
        user_data = struct.pack(">i", generation)
    elif shape.protocol == "sticky" and settled:
        user_data = owned + struct.pack(">i", generation)
    if shape.protocol != "cooperative-sticky":
        owned = struct.pack(">i", 0)
    plain = ConsumerProtocolSubscription(
        version=0, topics=tuple(names[t] for t in shape.topics_of(member)), user_data=user_data
    ).encode()
    head = struct.pack(">h", 3) + plain[2:]
    tail = struct.pack(">h", -1) if rack is None else _text(rack)
    return head + owned + struct.pack(">i", generation) + tail


def _topic_names(shape: Shape) -> list[str]:
    return [f"topic-{t:04}" for t in range(shape.topics)]


def _replicas(shape: Shape) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Replicas on consecutive nodes, one node per rack, starting one node further for each partition."""
    cycle = [tuple((p + r) % len(RACKS) for r in range(shape.replicas)) for p in range(len(RACKS))]
    return tuple(
        tuple(cycle[(t + p) % len(RACKS)] for p in range(shape.partitions_per_topic)) for t in range(shape.topics)
    )


def _member_ids(count: int) -> list[str]:
    """As brokers make them: client id, then a random UUID."""
    seeded = random.Random(2)
    return [f"consumer-orders-{m}-{uuid.UUID(int=seeded.getrandbits(128), version=4)}" for m in range(count)]


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded
