"""Describes one group, of whichever protocol, and decodes the answer. For most groups the answer is the same at each
refresh, so that it is decoded once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, TransportError
from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    Code,
    DescribeAnswer,
    Failure,
    GroupState,
    MembershipConfig,
)
from bellwether_kafka.coordinator.observation.anomalies import hand_overs
from bellwether_kafka.coordinator.observation.kept import Kept
from bellwether_kafka.coordinator.observation.notify import notify
from bellwether_kafka.coordinator.observation.observation import GroupType, Observation, observation
from bellwether_kafka.coordinator.planning import BROKER_ASSIGNS, RackRules, assignor_of, classic_view
from bellwether_kafka.protocol.primitives import TopicPartition

READ_AT_ONCE_BYTES = 100_000  # an answer of this size is decoded before any heartbeat is late
NO_PARTITIONS = "it is a share group, or of another type in which members have no partitions"
NO_SUCH_GROUP = frozenset({Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION})

OnSeen = Callable[[str, DescribeAnswer], None]  # the group id and the unchanged answer to DescribeGroups


@dataclass(frozen=True, slots=True)
class Sources:
    """The clients that an observer reads with. `shared` replaces the transport when many groups are observed. `weights`
    reads the topic of weights, for a command that has no other reader of it."""

    transport: wire.Transport
    reader: client.ClusterReader
    offsets: client.OffsetReader
    shared: Describer | None = None
    weights: Callable[[], Awaitable[Weights]] | None = None

    @property
    def groups(self) -> wire.Transport | Describer:
        return self.shared or self.transport


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A decoded Describe answer.

    `seen` has neither a time nor lags yet. `answer` lacks Bellwether's own members. `topics` are the subscribed and
    assigned topics. `owners` are the members by partition, None if the broker does not show the assignment. `highest`
    is the highest assigned partition of each topic. `by_broker` is the group if its broker assigns.
    """

    seen: Observation
    answer: DescribeAnswer
    topics: frozenset[str]
    owners: Mapping[TopicPartition, str] | None
    highest: Mapping[str, int]
    by_broker: BrokerGroup | None = None

    def seen_now(self) -> Observation:
        """Returns the observation, which has just been made, without lags."""
        seen, group = replace(self.seen, seen_at_ms=int(clocks.wall() * 1000)), self.by_broker
        if group is None:
            return seen
        return replace(
            seen,
            protocol=assignor_of(group),
            assignor=group.assignor,
            epoch=group.epoch,
            classic_members=frozenset(m.member_id for m in group.members if m.classic),
            hand_overs=hand_overs(group),
            patterns=tuple(sorted({m.pattern for m in group.members if m.pattern})),
        )


class GroupReader:
    """Reads one group. `on_seen` are called with each answer to DescribeGroups."""

    def __init__(self, config: MembershipConfig, sources: Sources, on_seen: Sequence[OnSeen], racks: RackRules) -> None:
        self._config = config
        self._sources = sources
        self._on_seen = on_seen
        self._racks = racks
        self._described: Kept[DescribedGroup] = Kept()

    async def read(self) -> DescribedGroup | int:
        """Returns the group, or the error code because of which its state is unknown. Raises TransportError if no
        broker answers."""
        group_id, groups = self._config.group_id, self._sources.groups
        answer = await groups.describe_group(group_id)
        if answer.error and not membership.is_missing(answer):
            return answer.error
        for observer in self._on_seen:
            notify(observer, group_id, answer)
        by_broker = await described_by_broker(groups, group_id) if _may_be_broker_led(answer) else None
        if isinstance(by_broker, int):
            return by_broker
        if by_broker is not None:
            answer = classic_view(by_broker)
        elif membership.assigned_by_broker(answer):
            answer = replace(answer, state="")  # "Dead" is not the state of the group that exists
        described = await self._decoded(answer, _kind(answer, by_broker))
        version = self._sources.transport.broker_version
        return replace(described, seen=replace(described.seen, broker_version=version), by_broker=by_broker)

    async def _decoded(self, answer: DescribeAnswer, kind: GroupType) -> DescribedGroup:
        """Decodes an answer unless it is the same as last time. A large one is decoded in a thread, so that heartbeats
        of led groups are not late."""
        key = (answer, kind, self._racks.version)
        cached = self._described.get(key)
        if cached is not None:
            return cached
        if sum(len(m.metadata) + len(m.assignment) for m in answer.members) <= READ_AT_ONCE_BYTES:
            read = self._decode(answer, kind)
        else:
            read = await asyncio.to_thread(self._decode, answer, kind)
        return self._described.put(key, read)

    def _decode(self, answer: DescribeAnswer, kind: GroupType) -> DescribedGroup:
        config, classic = self._config, kind not in wire.BROKER_PROTOCOLS
        own = {m.member_id for m in answer.members if classic and membership.is_bellwether(m, config)}
        obstacle = self._obstacle(kind, answer)
        seen = observation(
            config.group_id, kind, answer, 0, obstacle=obstacle, bellwether_members=own, racks=self._racks
        )
        at_rest = kind != "classic" or seen.state == GroupState.STABLE or not seen.members
        owners = {partition: m.member_id for m in seen.members for partition in m.owned}
        return DescribedGroup(
            seen=seen,
            answer=replace(answer, members=tuple(m for m in answer.members if m.member_id not in own)),
            topics=frozenset(topic for m in seen.members for topic in (*m.topics, *(t for t, _ in m.owned))),
            owners=owners if at_rest else None,
            highest=dict(sorted(owners)),  # the last partition of each topic overwrites the others
        )

    def _obstacle(self, kind: GroupType, answer: DescribeAnswer) -> str:
        if kind in BROKER_ASSIGNS:
            return BROKER_ASSIGNS[kind]
        if kind == "missing":
            return ""
        if membership.assigned_by_broker(answer):
            return NO_PARTITIONS
        config = self._config
        if answer.protocol == STREAMS_PROTOCOL:
            config = replace(config, protocols=(STREAMS_PROTOCOL,))
        elif config.streams and answer.protocol:
            config = replace(config, protocols=MembershipConfig("").protocols)
        obstacle = membership.unfit(answer, config)
        return obstacle.sentence if obstacle is not None else ""


async def described_by_broker(groups: wire.Transport | Describer, group_id: str) -> BrokerGroup | int | None:
    """Returns the group if its broker assigns, None if there is no such group, or the error code because of which this
    is unknown. Raises TransportError if a broker does not answer."""
    hidden: int | TransportError | None = None
    for protocol in wire.BROKER_PROTOCOLS:
        try:
            group = await groups.describe_by_broker(group_id, protocol)
        except TransportError as error:
            if error.failure is not Failure.UNSUPPORTED:  # a broker without the call has no such groups
                hidden = hidden or error
            continue
        if group.error == 0:
            return group
        if group.error not in NO_SUCH_GROUP:
            hidden = hidden or group.error
    if isinstance(hidden, TransportError):
        raise hidden
    return hidden


async def as_if_led(groups: wire.Transport | Describer, group_id: str) -> DescribeAnswer | None:
    """Describes a group that its broker assigns as if a member led it. None if its state is unknown or it has members
    of the classic protocol, as during a conversion. Raises TransportError if a broker does not answer."""
    group = await described_by_broker(groups, group_id)
    if group is None or isinstance(group, int) or any(member.classic for member in group.members):
        return None
    return classic_view(group)


def _may_be_broker_led(answer: DescribeAnswer) -> bool:
    """Returns whether the group may be one whose broker assigns. Older brokers describe such a group as Dead."""
    return (
        answer.error == Code.GROUP_ID_NOT_FOUND
        or membership.assigned_by_broker(answer)
        or answer.state == GroupState.DEAD
    )


def _kind(answer: DescribeAnswer, group: BrokerGroup | None) -> GroupType:
    if group is not None:
        return group.protocol
    if membership.assigned_by_broker(answer):
        return "other"
    if answer.error or answer.state == GroupState.DEAD:
        return "missing"
    return "classic" if answer.protocol_type in ("", "consumer") else "other"
