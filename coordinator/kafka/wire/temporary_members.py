"""Members of Bellwether's own that join a group and leave at once, so that its broker computes the assignment anew:
their requests. Belongs to `transport`.

A member of a `streams` group has to send the group's topology, and a broker refuses one that is not equal in every
field. A broker shows all of it but for two things: which topics must have the same number of partitions, and whether
the number of partitions of a repartition topic is the application's or derived. So the likely ones are tried in turn. A
refused request changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Any

from kafka.protocol.api_message import ApiMessage

from bellwether_kafka.coordinator.kafka.wire import schemas
from bellwether_kafka.coordinator.kafka.wire.describe_groups import (
    JOINS,
    LEAVES,
    SentSubtopology,
    SentTopic,
    SentTopology,
    StreamsGroupHeartbeatRequest,
)
from bellwether_kafka.coordinator.membership import Node
from bellwether_kafka.protocol.primitives import hash_order, string_hash

TIMEOUT_MS = 5_000  # after which a broker would remove a temporary member that gave up no partition
TEMPORARY_MEMBER = "bellwether-temporary-"  # followed by a UUID; deploy/broker-assignor gives such a member no task
TEMPORARY_TOPIC = "bellwether.temporary-member"  # must not exist
UNLIKE_MAX = 3  # respects in which a topology may differ from the likely one
OTHER_TOPOLOGY = 42  # the error INVALID_REQUEST: the topology is not that of the group
TOPOLOGIES_MAX = 64  # that are tried for one group


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # the library has no types
    pass


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # as above
    pass


@dataclass(frozen=True, slots=True)
class TemporaryMember:
    """A heartbeat of a member of Bellwether's own in a `consumer` group, with which it joins or leaves. It subscribes
    to a topic that does not exist: so the broker computes a new assignment when it joins, and gives it nothing. It has
    no part in the choice of the assignor."""

    node: Node
    group_id: str
    member_id: str
    joins: bool
    timeout_ms: int

    def message(self) -> Any:
        common = {"group_id": self.group_id, "member_id": self.member_id}
        if not self.joins:
            return ConsumerGroupHeartbeatRequest(**common, member_epoch=LEAVES)
        return ConsumerGroupHeartbeatRequest(
            **common,
            member_epoch=JOINS,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=[TEMPORARY_TOPIC],
            topic_partitions=[],
        )

    def answer(self, response: Any) -> int:
        """Returns Kafka's error code."""
        return int(response.error_code)


@dataclass(frozen=True, slots=True)
class TemporaryStreamsMember:
    """The first heartbeat of a member of Bellwether's own in a `streams` group. Its last one is
    `RemoveStreamsMember`."""

    node: Node
    group_id: str
    member_id: str
    topology: SentTopology
    timeout_ms: int

    def message(self) -> Any:
        kind = StreamsGroupHeartbeatRequest.Topology
        sent = kind(epoch=self.topology.epoch, subtopologies=list(map(_as_sent, self.topology.subtopologies)))
        return StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOINS,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=TIMEOUT_MS,
            topology=sent,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=self.member_id,
            client_tags=[],
        )

    def answer(self, response: Any) -> int:
        """Returns Kafka's error code."""
        return int(response.error_code)


def possible_topologies(shown: SentTopology) -> tuple[SentTopology, ...]:
    """Returns the topologies that a member of this group may have sent, likely ones first: where a subtopology reads
    several topics it joins them, and numbers of partitions are derived. Then the one whose numbers are all the
    application's, and those that differ in one respect, in two, and so on."""
    parts = shown.subtopologies
    topics = [(s, t) for s, part in enumerate(parts) for t in range(len(part.repartitions))]
    unlike: list[int | tuple[int, int]] = [*range(len(parts)), *topics]
    choices = chain([(), tuple(topics)], *(combinations(unlike, n) for n in range(1, UNLIKE_MAX + 1)))
    possible = (
        replace(shown, subtopologies=tuple(_chosen(part, s, chosen) for s, part in enumerate(parts)))
        for chosen in islice(choices, TOPOLOGIES_MAX)
    )
    return tuple(dict.fromkeys(possible))


def _chosen(part: SentSubtopology, s: int, unlike: Sequence[int | tuple[int, int]]) -> SentSubtopology:
    repartitions = tuple(
        topic if (s, t) in unlike else replace(topic, partitions=0) for t, topic in enumerate(part.repartitions)
    )
    return replace(part, repartitions=repartitions, joined=(len(part.topics) > 1) != (s in unlike))


def _as_sent(part: SentSubtopology) -> Any:
    kind = StreamsGroupHeartbeatRequest.Topology.Subtopology
    return kind(
        subtopology_id=part.subtopology_id,
        source_topics=list(part.sources),
        source_topic_regex=[],
        state_changelog_topics=list(map(_topic_as_sent, part.changelogs)),
        repartition_sink_topics=list(part.sinks),
        repartition_source_topics=list(map(_topic_as_sent, part.repartitions)),
        copartition_groups=[_all_topics(part)] if part.joined else [],
    )


def _topic_as_sent(topic: SentTopic) -> Any:
    kind = StreamsGroupHeartbeatRequest.Topology.Subtopology.TopicInfo
    configs = [kind.KeyValue(key=key, value=value) for key, value in topic.configs]
    return kind(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=configs,
    )


def _all_topics(part: SentSubtopology) -> Any:
    """Returns the copartition group of all topics, in the order of the hash set in which the Java client has them."""
    order = hash_order(range(len(part.topics)), [string_hash(topic) for topic in part.topics])
    sources = len(part.sources)
    return StreamsGroupHeartbeatRequest.Topology.Subtopology.CopartitionGroup(
        source_topics=[t for t in order if t < sources],
        source_topic_regex=[],
        repartition_source_topics=[t - sources for t in order if t >= sources],
    )
