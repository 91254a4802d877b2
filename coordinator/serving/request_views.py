"""Converts a broker's request to the input of a plan, as if a member led the group, and the plan back.

Brokers identify topics by id. A topic whose name is not known is named by its id, as Kafka prints it. Only orders and
weights refer to names.
"""

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import (
    NO_GENERATION,
    NO_RACK,
    NOBODY,
    ClusterView,
    IntArray,
    LongArray,
    Members,
    Memory,
    RawGroup,
    RawMember,
    offsets,
)
from bellwether_kafka.coordinator.serving.known import KnownMember
from bellwether_kafka.coordinator.serving.wire import Request
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription

# As for observers: the protocol most similar to the consumer protocol.
PROTOCOL = "cooperative-sticky"
SUBSCRIPTION_VERSION = 3


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """The input of `decide`. `places`: for each partition of `cluster`, its number in the request."""

    raw: RawGroup
    cluster: ClusterView
    memory: Memory
    places: LongArray

    def as_asked(self, owner: IntArray) -> IntArray:
        """Returns the owners in the request's order of partitions."""
        as_requested = np.full(len(owner), NOBODY, dtype=np.int32)
        as_requested[self.places] = owner
        return as_requested


def id_text(topic: bytes) -> str:
    """Returns a topic id as Kafka prints it."""
    return urlsafe_b64encode(topic).decode().rstrip("=")


def views_of(
    request: Request,
    names: Sequence[str | None],
    group_id: str,
    read_at: float,
    members_seen: Sequence[KnownMember | None] = (),
    observed: ClusterView | None = None,
) -> Views:
    """Returns the views of a request. `names` are those of its topics, None for unknown ones. `members_seen` is what
    was observed of its members, `observed` the topics with the racks of their leaders."""
    called = _distinct(request, names)
    order = sorted(range(len(called)), key=called.__getitem__)
    first = offsets(request.counts)
    places = [np.arange(first[t], first[t + 1], dtype=np.int64) for t in order]
    place = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
    cluster = _cluster(request, [called[t] for t in order], [request.counts[t] for t in order], place, read_at)
    if observed is not None:
        cluster = replace(cluster, leader_rack=_leader_racks(cluster, observed))
    topics = [tuple(sorted(called[t] for t in subscription)) for subscription in request.subscriptions]
    racks = [request.racks[rack] if rack >= 0 else None for rack in request.rack_of]
    joined = _joined(request, topics, racks, [*members_seen] or [None] * len(racks))
    members = Members(
        request.members,
        request.instances,
        [topics[row] for row in request.subscription],
        racks,
        [NO_GENERATION] * len(racks),
        [None] * len(racks),
    )
    memory = Memory.of(NO_GENERATION, cluster, request.owner[place], members)
    return Views(RawGroup(group_id, NO_GENERATION, PROTOCOL, joined, resting=True), cluster, memory, place)


def _distinct(request: Request, names: Sequence[str | None]) -> list[str]:
    """Returns unique names of the topics. A topic that was deleted and created again is listed twice for a while; then
    both are named by id."""
    resolved = [name for name in names if name is not None]
    twice = {name for name, count in Counter(resolved).items() if count > 1}
    return [
        id_text(topic) if name is None or name in twice else name
        for topic, name in zip(request.topics, names, strict=True)
    ]


def _cluster(
    request: Request, topics: Sequence[str], counts: Sequence[int], place: LongArray, read_at: float
) -> ClusterView:
    sets = [frozenset(request.racks[rack] for rack in racks) for racks in request.rack_sets]
    distinct = sorted(set(sets), key=sorted)  # as when metadata are read
    rows = {rack_set: row for row, rack_set in enumerate(distinct)}
    row_of = np.array([rows[rack_set] for rack_set in sets], dtype=np.int32)
    racks = sorted(request.racks)  # includes racks of members: their brokers may have none of these partitions
    code = {rack: i for i, rack in enumerate(racks)}
    table = np.zeros((max(1, len(rows)), len(racks)), dtype=np.bool_)
    for rack_set, row in rows.items():
        table[row, [code[rack] for rack in rack_set]] = True
    return ClusterView(
        topics=tuple(topics),
        counts=np.array(counts, dtype=np.int32),
        first=offsets(counts),
        racks=tuple(racks),
        signature=row_of[request.rack_set_of[place]],
        signature_racks=table,
        leader_rack=np.full(len(place), NO_RACK, dtype=np.int32),
        read_at=read_at,
        index={topic: i for i, topic in enumerate(topics)},
    )


def _leader_racks(cluster: ClusterView, observed: ClusterView) -> IntArray:
    """Returns the rack of each partition's leader, NO_RACK for a topic that was not observed as it is now."""
    code = {rack: i for i, rack in enumerate(cluster.racks)}
    codes = np.array([*(code.get(rack, NO_RACK) for rack in observed.racks), NO_RACK], dtype=np.int32)
    racks = np.full(cluster.partition_total, NO_RACK, dtype=np.int32)
    for t, topic in enumerate(cluster.topics):
        there = observed.index.get(topic)
        if there is not None and observed.counts[there] == cluster.counts[t]:
            of_topic = observed.leader_rack[observed.first[there] : observed.first[there + 1]]
            racks[cluster.first[t] : cluster.first[t + 1]] = codes[of_topic]  # NO_RACK is the last
    return racks


def _joined(
    request: Request,
    topics: Sequence[tuple[str, ...]],
    racks: Sequence[str | None],
    members_seen: Sequence[KnownMember | None],
) -> tuple[RawMember, ...]:
    """Returns each member with the bytes that a classic member would send. Many members share the same bytes."""
    kinds = set(zip(request.subscription, racks, strict=True))
    subscriptions = {
        (row, rack): ConsumerProtocolSubscription(SUBSCRIPTION_VERSION, topics[row], rack_id=rack).encode()
        for row, rack in kinds
    }
    rows = zip(request.members, request.instances, request.subscription, racks, members_seen, strict=True)
    return tuple(
        RawMember(
            member,
            instance,
            subscriptions[row, rack],
            None if seen is None else seen.rack,
            leader_only=seen is not None and seen.leader_only,
            client_id="" if seen is None else seen.client_id,
        )
        for member, instance, row, rack, seen in rows
    )
