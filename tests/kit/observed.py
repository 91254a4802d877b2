"""Groups as they are observed: members, lags, and what is assessed of them."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from bellwether_kafka.assignors.consumer import Policy, recall
from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, Memory, RawGroup, RawMember, Rule, Weights
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.coordinator.assessment import (
    Assessment,
    ConversionFacts,
    GhostRefreshes,
    Prices,
    assess_refreshes,
)
from bellwether_kafka.coordinator.kafka.client import Ends, MetadataRead, Offsets, OffsetsError
from bellwether_kafka.coordinator.kafka.client.metadata import MetadataCache, cluster_view, distinct_placements
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, BrokerGroup, BrokerProtocol
from bellwether_kafka.coordinator.membership import (
    Code,
    Decide,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    MembershipConfig,
)
from bellwether_kafka.coordinator.observation import (
    NEWEST,
    GroupLag,
    GroupObserver,
    LagRefreshes,
    Observation,
    ObservedMember,
    ReadLogs,
    Rhythms,
    Shadow,
    observation,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit import consumers
from tests.kit.applications import App, lead
from tests.kit.consumers import LiveMember, live_group
from tests.kit.streams import SHOP_COUNTS, Thread

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
        given = dict((await lead(App(num_standby_replicas=1), 1, *threads)).decision.assignments)
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


UNKNOWN = -1
Of = Mapping[str, list[int]]
Owners = Mapping[TopicPartition, str] | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What brokers answer to one refresh: an entry for each partition, UNKNOWN where there is none."""

    at_s: float
    committed: Of
    ends: Of


def sample(at_s: float, committed: Of, ends: Of) -> Sample:
    return Sample(at_s, committed, ends)


def of_one_partition(at_s: float, committed: int, end: int) -> Sample:
    return Sample(at_s, {"t": [committed]}, {"t": [end]})


class Lags:
    """Refreshes of one group. Brokers tell nothing of log starts and of last stable offsets."""

    def __init__(self, rhythms: Rhythms | None = None) -> None:
        self._now = Sample(0, {}, {})
        self._refreshes = LagRefreshes(
            "g", clock=self._time, monotonic=self._time, compacted=lambda *_: {}, rhythms=rhythms
        )
        self.weights: Callable[[], Weights] = self._refreshes.weights

    def after(self, *samples: Sample, owners: Owners = None, logs: ReadLogs | None = None) -> GroupLag:
        """The lag after one more refresh for each sample."""
        return asyncio.run(self.refreshed(*samples, owners=owners, logs=logs))

    async def refreshed(self, *samples: Sample, owners: Owners = None, logs: ReadLogs | None = None) -> GroupLag:
        """Does the same as `after`, for tests that are coroutines."""
        for self._now in samples:
            counts = {topic: len(ends) for topic, ends in self._now.ends.items()}
            lag = await self._refreshes.refresh(cast("Any", self), cast("Any", None), counts, owners, 1.0, logs=logs)
        return lag

    def _time(self) -> float:
        return self._now.at_s

    async def known_ends(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        return Ends({topic: np.array(self._now.ends[topic], dtype=np.int64) for topic in topics})

    async def known_starts(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        return Ends({topic: np.full(count, UNKNOWN, dtype=np.int64) for topic, count in topics.items()})

    async def known_stable_ends(self, topics: Mapping[str, int], limit_s: float) -> Ends:
        return await self.known_starts(topics, limit_s)

    async def committed(self, _group: str, topics: Mapping[str, int], _limit_s: float) -> Offsets:
        return {t: np.array(of, dtype=np.int64) for t, of in self._now.committed.items() if t in topics}


def group_lag(*samples: Sample, owners: Owners = None) -> GroupLag:
    return Lags().after(*samples, owners=owners)


def weights_of(*samples: Sample, logs: ReadLogs | None = None) -> Weights:
    """The weights that follow from the offsets of these refreshes."""
    lags = Lags()
    if samples:
        lags.after(*samples, logs=logs)
    return lags.weights()


class FakeReader:
    """In OffsetReader's place. Each read of ends has the next of `ends`, the last one again and again."""

    def __init__(self, committed: Of, *ends: Of, trouble: str = "") -> None:
        self.committed_now, self.ends_left, self.trouble = committed, list(ends), trouble
        self.asked: list[tuple[str, ...]] = []
        self.starts_now: Of = {}
        self.starts_asked: list[tuple[str, ...]] = []
        self.stable_now: Of | None = None
        self.stable_asked: list[tuple[str, ...]] = []

    async def known_ends(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        if self.trouble:
            raise OffsetsError(self.trouble)
        self.asked.append(tuple(topics))
        ends = self.ends_left.pop(0) if len(self.ends_left) > 1 else self.ends_left[0]
        return Ends({topic: np.array(ends[topic]) for topic in topics})

    async def known_starts(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        self.starts_asked.append(tuple(topics))
        if self.trouble:
            raise OffsetsError(self.trouble)
        none = {topic: [0] * count for topic, count in topics.items()}
        return Ends({topic: np.array(self.starts_now.get(topic, none[topic])) for topic in topics})

    async def known_stable_ends(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        self.stable_asked.append(tuple(topics))
        if self.stable_now is None:
            raise OffsetsError("offsets: no answer in time")
        return Ends({topic: np.array(self.stable_now[topic]) for topic in topics})

    async def committed(self, _group: str, topics: Mapping[str, int], _limit_s: float) -> Offsets:
        return {topic: np.array(self.committed_now[topic]) for topic in topics}


CLUSTER = ClusterView.of({"orders": [["az1"], ["az2"], ["az1"], ["az2"]]})
LAGS: Mapping[str, tuple[int | None, ...]] = {"orders": (7, None, 0, 12_000)}


def member(name: str, rack: str | None, *owned: str) -> DescribedMember:
    subscription = ConsumerProtocolSubscription(3, ("orders",), None, (), 1, rack).encode()
    assignment = ConsumerProtocolAssignment(0, tp(*owned)).encode()
    return DescribedMember(name, None, subscription, assignment, name.partition("-")[0], "/10.0.0.3")


def observed_group(*members: DescribedMember, shadow: bool = True) -> Observation:
    answer = DescribeAnswer(0, 0, "Stable", "consumer", "range", members)
    seen = replace(observation("g", "classic", answer, 9_000), lags=LAGS)
    if not shadow:
        return replace(seen, trouble="no shadow plan: the brokers are silent")
    stored = [AssignedMember(m.member_id, None, m.metadata, m.assignment) for m in members]
    raw = RawGroup("g", 9, "range", tuple(RawMember(m.member_id, None, m.metadata) for m in members))
    decision = consumers.decided(raw, CLUSTER, recall(9, "range", CLUSTER, stored), Policy("rack-first"), 0, 0)
    return replace(seen, shadow=Shadow.of(decision, decision.plan.before))


# a reads orders-1 from another rack, and b has too much.
SKEWED = observed_group(
    member("a-1", "az1", "orders-1"), member("b-1", "az2", "orders-0", "orders-2", "orders-3"), member("c-1", None)
)
RACKLESS = observed_group(member("a-1", None, "orders-0", "orders-1"), member("b-1", None, "orders-2", "orders-3"))


def observed_application(*, reported: bool = False) -> Observation:
    """Two processes as they run after a rebalance, each with a standby for the other; `reported`: they have joined
    again since, and said how far they are."""
    first, second = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2")

    async def scenario() -> Observation:
        app = App(attested=True, num_standby_replicas=1)
        planned = await app.planner.plan(app.order(1, first, second, deadline=time.monotonic() + 5))
        given = dict(planned.decision.assignments)
        members = tuple(
            DescribedMember(t.member_id, None, t.raw.metadata, given[t.member_id], f"shop-{t.member_id}", "/h")
            for t in (decision.after(planned.decision) if reported else decision for decision in (first, second))
        )
        answer: Any = DescribeAnswer(0, 0, "Stable", "consumer", "stream", members)
        joined = tuple(JoinedMember(m.member_id, None, m.metadata) for m in members)
        command = Decide(NEWEST, "stream", joined, "", time.monotonic() + 5, dry=True)
        compared = await App(attested=True, num_standby_replicas=1).planner.shadow(command, answer)
        shadow = Shadow.of(compared.decision, compared.present, compared.inputs)
        return replace(observation("shop", "classic", answer, 9_000), shadow=shadow)

    return asyncio.run(scenario())


FOUR_RACKED = ClusterView.of({"t": [["az1"], ["az1"], ["az2"], ["az2"]]})
MEGABYTE = Weights({TopicPartition("t", p): 1e6 for p in range(4)})
SEEN = (("a", ("t",), "az1"), ("b", ("t",), "az2"))
PRICES = Prices(MEGABYTE, per_gb=0.02, currency="EUR", near=False)


def crossed(group: str = "g") -> Observation:
    """Two members, each of which reads the partitions of the other's rack."""
    members = [LiveMember(*fields) for fields in SEEN]
    now = consumers.decided(live_group(members, 2, "range"), FOUR_RACKED, Memory.empty(), Policy(), 0)
    owner = np.array([1, 1, 0, 0], dtype=np.int32)
    seen = tuple(ObservedMember(name, None, name, "/h", rack, topics) for name, topics, rack in SEEN)
    return Observation(group, "classic", "Stable", "range", 0, seen, shadow=Shadow.of(now, owner))


def reported(seen: Observation, prices: Prices) -> Assessment:
    return assess_refreshes([seen], prices, GhostRefreshes(seen.group_id))


READY = ConversionFacts(
    seen=crossed(),
    obstacles=(),
    led=True,
    broker_version=(4, 3),
    features={"group.version": 1, "streams.version": 1},
    migration={1: "BIDIRECTIONAL", 2: "bidirectional"},
)
