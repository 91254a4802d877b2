"""Requests about groups whose broker assigns (KIP-848 `consumer`, KIP-1071 `streams`): Describe calls, with responses
as plain values, and the end of a membership. Belongs to `transport`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from kafka.protocol.api_message import ApiMessage

from bellwether_kafka.coordinator.kafka.wire import schemas
from bellwether_kafka.coordinator.membership import Node

CLASSIC_MEMBER = 0  # the MemberType of a member of the classic protocol in a group that was converted online
JOINS, LEAVES = 0, -1  # the epochs of a member that joins or leaves
BrokerProtocol = Literal["consumer", "streams"]
BROKER_PROTOCOLS: tuple[BrokerProtocol, ...] = ("consumer", "streams")
OWN_ASSIGNORS = "bellwether"  # an assignor of deploy/broker-assignor; the others are bellwether-POLICY
AssignedPartitions = tuple[tuple[str, tuple[int, ...]], ...]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # the library has no types
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # as above
    pass


class StreamsGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # as above
    pass


class StreamsGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # as above
    pass


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # as above
    pass


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg,misc]  # as above
    pass


def asks_bellwether(assignor: str) -> bool:
    """Returns whether a broker with this assignor asks the Bellwether beside it for plans."""
    return assignor == OWN_ASSIGNORS or assignor.startswith(f"{OWN_ASSIGNORS}-")


def policy_in(assignor: str) -> str:
    """Returns the policy in the name of such an assignor; the name itself where it has none."""
    return assignor.removeprefix(f"{OWN_ASSIGNORS}-")


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a list. `type` is "classic", "consumer", "streams" or "share", "" from old brokers."""

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class BrokerMember:
    """A member of a group that its broker assigns. `assigned`: (topic, partitions) of a consumer, or (subtopology id,
    partitions) of active tasks. `standby`: standby and warm-up tasks. `offsets`: (subtopology id, partition, offset) as
    the Streams member reported them. `classic`: the member still uses the classic protocol, because the group was
    converted while it ran; false with version 0 of the answer, which does not show it. `pattern`: the regular
    expression to which it subscribes; what it matches is not in `topics`. `epoch` is that of the assignment that it has
    confirmed, and `target` what it is to have, like `assigned`: what others have to give up first is in it already."""

    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assigned: AssignedPartitions
    standby: AssignedPartitions = ()
    process_id: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    offsets: tuple[tuple[str, int, int], ...] = ()
    classic: bool = False
    pattern: str = ""
    epoch: int = -1
    target: AssignedPartitions = ()


@dataclass(frozen=True, slots=True)
class BrokerSubtopology:
    """A subtopology. `repartitions` are the repartition topics it reads, `changelogs` those of its stores."""

    subtopology_id: str
    sources: tuple[str, ...]
    repartitions: tuple[str, ...]
    changelogs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SentTopic:
    """An internal topic as a member sends it. `partitions`: 0 where they are derived, as always of a changelog."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SentSubtopology:
    """A subtopology as a member sends it. `joined`: all its topics must have the same number of partitions."""

    subtopology_id: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    repartitions: tuple[SentTopic, ...]
    changelogs: tuple[SentTopic, ...]
    joined: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        return (*self.sources, *(topic.name for topic in self.repartitions))


@dataclass(frozen=True, slots=True)
class SentTopology:
    """The topology of a `streams` group."""

    epoch: int
    subtopologies: tuple[SentSubtopology, ...]


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """A group that its broker assigns. `error` is Kafka's code, 0 for none. `topology` is that of an application, None
    if it has none yet; the numbers of partitions in it are the derived ones."""

    group_id: str
    protocol: BrokerProtocol
    error: int
    message: str = ""
    state: str = ""
    epoch: int = -1
    assignor: str = ""
    members: tuple[BrokerMember, ...] = ()
    subtopologies: tuple[BrokerSubtopology, ...] = ()
    topology: SentTopology | None = None

    @property
    def asks_bellwether(self) -> bool:
        """Whether its broker asks the Bellwether beside it. Brokers before 4.4 do not show this of an application, and
        cannot ask for its tasks."""
        return asks_bellwether(self.assignor)


@dataclass(frozen=True, slots=True)
class RemoveStreamsMember:
    """The last heartbeat of a member of a `streams` group, sent for it: the broker accepts it from any client that may
    read the group."""

    node: Node
    group_id: str
    member_id: str
    timeout_ms: int

    def message(self) -> Any:
        return StreamsGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVES, endpoint_information_epoch=0
        )

    def answer(self, response: Any) -> int:
        """Returns Kafka's error code."""
        return int(response.error_code)


def listed(response: Any) -> tuple[ListedGroup, ...]:
    """Returns the groups of a ListGroups response."""
    return tuple(
        ListedGroup(
            group.group_id,
            group.protocol_type or "",
            getattr(group, "group_state", None) or "",
            (getattr(group, "group_type", None) or "").lower(),
        )
        for group in response.groups
    )


def described_by_broker(group: Any, protocol: BrokerProtocol) -> BrokerGroup:
    """Returns one group of a response to either Describe call."""
    if group.error_code:
        return BrokerGroup(group.group_id, protocol, group.error_code, group.error_message or "")
    consumer = protocol == "consumer"
    shown = None if consumer else group.topology
    parts = () if shown is None else tuple(shown.subtopologies or ())
    return BrokerGroup(
        group_id=group.group_id,
        protocol=protocol,
        error=0,
        state=group.group_state,
        epoch=group.assignment_epoch,
        assignor=getattr(group, "assignor_name", None) or "",
        members=tuple(_consumer(m) if consumer else _streams(m) for m in group.members),
        subtopologies=tuple(map(_subtopology, parts)),
        topology=SentTopology(shown.epoch, tuple(map(_sent, parts))) if shown is not None and parts else None,
    )


def _consumer(member: Any) -> BrokerMember:
    return BrokerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack=member.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(member.subscribed_topic_names),
        assigned=_partitions(member.assignment),
        classic=getattr(member, "member_type", None) == CLASSIC_MEMBER,
        pattern=member.subscribed_topic_regex or "",
        epoch=member.member_epoch,
        target=_partitions(member.target_assignment),
    )


def _streams(member: Any) -> BrokerMember:
    assignment = member.assignment
    return BrokerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack=member.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=(),
        assigned=_tasks(assignment.active_tasks),
        standby=(*_tasks(assignment.standby_tasks), *_tasks(assignment.warmup_tasks)),
        process_id=member.process_id,
        tags=tuple((tag.key, tag.value) for tag in member.client_tags),
        offsets=tuple((o.subtopology_id, o.partition, o.offset) for o in member.task_offsets),
        epoch=member.member_epoch,
        target=_tasks(member.target_assignment.active_tasks),
    )


def _partitions(assignment: Any) -> AssignedPartitions:
    return tuple((topic.topic_name, tuple(topic.partitions)) for topic in assignment.topic_partitions)


def _tasks(entries: Iterable[Any]) -> AssignedPartitions:
    return tuple((entry.subtopology_id, tuple(entry.partitions)) for entry in entries)


def _subtopology(entry: Any) -> BrokerSubtopology:
    return BrokerSubtopology(
        subtopology_id=entry.subtopology_id,
        sources=tuple(entry.source_topics),
        repartitions=tuple(topic.name for topic in entry.repartition_source_topics),
        changelogs=tuple(topic.name for topic in entry.state_changelog_topics),
    )


def _sent(shown: Any) -> SentSubtopology:
    return SentSubtopology(
        subtopology_id=shown.subtopology_id,
        sources=tuple(sorted(shown.source_topics)),
        sinks=tuple(sorted(shown.repartition_sink_topics)),
        repartitions=_topics(shown.repartition_source_topics),
        changelogs=tuple(replace(topic, partitions=0) for topic in _topics(shown.state_changelog_topics)),
    )


def _topics(shown: Iterable[Any]) -> tuple[SentTopic, ...]:
    """Returns topics and their configs in the order in which members send them."""
    topics = (
        SentTopic(
            topic.name, topic.partitions, topic.replication_factor, tuple(sorted(map(_pair, topic.topic_configs)))
        )
        for topic in shown
    )
    return tuple(sorted(topics, key=lambda topic: topic.name))


def _pair(config: Any) -> tuple[str, str]:
    return config.key, config.value
