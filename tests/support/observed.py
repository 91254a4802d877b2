"""Groups seen from outside, and what reads them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.coordinator.kafka import AnyCommitted, BrokerGroup, BrokerProtocol, Ends, MetadataRead
from bellwether_kafka.coordinator.kafka.metadata import MetadataCache, cluster_view, distinct_placements
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, DescribedMember, MembershipConfig
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, ObservedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.unit.assignors.streams.world import SHOP_COUNTS, Thread
from tests.unit.coordinator.planning.applications import App, lead

BY_KAFKA = Policy()


class Shared:
    """A group whose look is answered without brokers; what DescribeGroups says, and the topic, can be changed."""

    admin = SimpleNamespace(describe_configs=lambda *_, **__: {})
    broker_version = (4, 4)
    committed_topics: tuple[str, ...] = ("t",)

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.grow(2)
        self.members = ("a", "b")
        self.by_broker: BrokerGroup | None = None
        self.described = 0
        self.grow_when_expired = 0

    def grow(self, partitions: int) -> None:
        self.cache.see_brokers({1: "az1", 2: "az2"})
        self.cache.see_topic("t", 0.0, *distinct_placements([(1, (1, 2))] * partitions))

    def expire(self, _topics: Any) -> None:
        """The next read shows what has grown since the last."""
        if self.grow_when_expired:
            self.grow(self.grow_when_expired)

    async def describe_group(self, _group: str) -> DescribeAnswer:
        self.described += 1
        if self.by_broker is not None:
            return DescribeAnswer(0, Code.GROUP_ID_NOT_FOUND, message="Group g is not a classic group.")
        owned = [ConsumerProtocolAssignment(partitions=(TopicPartition("t", p),)) for p in range(len(self.members))]
        message = ConsumerProtocolSubscription(3, ("t",)).encode()
        pairs = zip(self.members, owned, strict=True)
        members = tuple(DescribedMember(name, None, message, has.encode(), name, "/h") for name, has in pairs)
        return DescribeAnswer(0, 0, "Stable", "consumer", "range", members)

    async def describe_by_broker(self, group: str, protocol: BrokerProtocol) -> BrokerGroup:
        described = self.by_broker
        return (
            described
            if described and described.protocol == protocol
            else BrokerGroup(group, protocol, Code.GROUP_ID_NOT_FOUND)
        )

    async def read(self, topics: Any, _age_ms_max: int) -> MetadataRead:
        return self.cache.read(topics, 0.0)

    async def snapshot(self, topics: Any, _age_ms_max: int) -> Any:
        return cluster_view(self.cache.read(topics, 0.0))

    async def any_committed(self, _group: str) -> AnyCommitted:
        return AnyCommitted(True, topics=self.committed_topics)

    async def committed(self, _group: str, counts: Any, _limit_s: float) -> Any:
        return {topic: np.full(count, 5 * self.described) for topic, count in counts.items()}

    async def known_ends(self, counts: Any, _limit_s: float) -> Ends:
        return Ends({topic: np.full(count, 7 * self.described) for topic, count in counts.items()})

    async def known_starts(self, counts: Any, _limit_s: float) -> Ends:
        return Ends({topic: np.zeros(count, dtype=np.int64) for topic, count in counts.items()})

    async def ends(self, counts: Any, limit_s: float) -> Any:
        return (await self.known_ends(counts, limit_s)).whole()


def of_fleet(shared: Shared, rules: tuple[Rule, ...] = (), *, policy: Policy = BY_KAFKA) -> GroupObserver:
    sources = cast(
        "Any", SimpleNamespace(transport=shared, reader=shared, offsets=shared, shared=shared, groups=shared)
    )
    return GroupObserver(MembershipConfig("g"), sources, policy, rules_of=lambda _: rules)


def refreshed(observer: GroupObserver) -> Observation:
    asyncio.run(observer.refresh())
    assert observer.last is not None
    return observer.last


class SharedApplication(Shared):
    """The Streams application of `world.SHOP` on two processes, each task with one standby."""

    async def describe_group(self, _group: str) -> DescribeAnswer:
        threads = [Thread("a", 1), Thread("b", 2)]
        given = dict((await lead(App(num_standby_replicas=1), 1, *threads)).chosen.decision.assignments)
        message = [(thread.member_id, thread.raw.metadata) for thread in threads]
        members = tuple(DescribedMember(name, None, metadata, given[name], name, "/h") for name, metadata in message)
        return DescribeAnswer(0, 0, "Stable", "consumer", "stream", members)

    def grow(self, partitions: int) -> None:
        self.cache.see_brokers({1: "az1", 2: "az2"})
        for topic, count in SHOP_COUNTS.items():
            self.cache.see_topic(topic, 0.0, *distinct_placements([(1, (1, 2))] * count))

    async def end_offsets(self, _group: str, latest: Any, committed: Any, limit_s: float) -> EndOffsets:
        return EndOffsets(await self.ends({**latest, **committed}, limit_s), 0)


def observed_member(
    name: str, *owned: str, instance_id: str | None = None, topics: tuple[str, ...] = ("t",)
) -> ObservedMember:
    """A member, whose client id is its name up to the hyphen."""
    return ObservedMember(name, instance_id, name.partition("-")[0], "/h", topics=topics, owned=tp(*owned))


def refresh(at_s: int, *members: ObservedMember, state: str = "Stable") -> Observation:
    return Observation("g", "classic", state, "range", at_s * 1000, members)


def tp(*names: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(name.rsplit("-", 1)[0], int(name.rsplit("-", 1)[1])) for name in names)


def classic(member_id: str, *owned: str, rack: str | None = None) -> DescribedMember:
    metadata = ConsumerProtocolSubscription(3, ("t",), None, (), 1, rack).encode()
    return DescribedMember(
        member_id, None, metadata, ConsumerProtocolAssignment(0, tp(*owned)).encode(), "client", "/127.0.0.1"
    )
