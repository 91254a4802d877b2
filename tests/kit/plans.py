"""Plans of plain groups as planners make them, observers and pages show them, and topics keep them."""

import asyncio
import json
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bellwether_kafka.assignors import consumer
from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import (
    AssignedMember,
    ClusterView,
    Decision,
    Memory,
    RawGroup,
    RawMember,
    Refusal,
)
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.events import SchemaSet, assignment_entries
from bellwether_kafka.coordinator.kafka.client import MetadataRead
from bellwether_kafka.coordinator.kafka.client.metadata import cluster_view
from bellwether_kafka.coordinator.membership import Decide, DescribedMember, JoinedMember
from bellwether_kafka.coordinator.planning import (
    Cause,
    CauseKind,
    Planned,
    RackRules,
    Timings,
    WatchedTopics,
    cause,
)
from bellwether_kafka.coordinator.settings import load
from bellwether_kafka.coordinator.telemetry.event_records import snapshot_record
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit import consumers
from tests.kit.consumers import LiveMember, live_group

ORDERS = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"], ["az3"]]})


def member(name: str, rack: str | None) -> RawMember:
    return RawMember(name, None, ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode())


def decided(
    *members: RawMember, generation: int = 1, policy: str = "kafka", memory: Memory | None = None
) -> Decision[PartitionPlan]:
    raw = RawGroup("g", generation, "range", members, frozenset())
    return consumers.decided(raw, ORDERS, memory or Memory.empty(), Policy(policy), now_ms=5)


def planned(
    decision: Decision[PartitionPlan], previous: Decision[PartitionPlan] | None = None
) -> Planned[PartitionPlan]:
    timings = Timings(3.0, 0.2, 0.004, 0.01)
    return Planned(decision, WatchedTopics(("orders",)), timings, previous=previous, cause=cause(previous, decision))


def tasks(decision: Decision[TaskPlan], previous: Decision[TaskPlan] | None = None) -> Planned[TaskPlan]:
    timings = Timings(3.0, 0.2, 0.004)
    why = cause(previous, decision)
    return Planned(decision, WatchedTopics(decision.plan.topology.source_topics), timings, previous=previous, cause=why)


A, B = member("a-1", None), member("b-1", None)
COOPERATIVE = "cooperative-sticky"


def delivered(
    at_s: float,
    before: list[int],
    owner: list[int],
    pending: tuple[int, ...] = (),
    *,
    why: CauseKind = CauseKind.JOINED,
    protocol: str = COOPERATIVE,
    first: bool = False,
) -> Planned[PartitionPlan]:
    """A rebalance of four partitions that began a second before `at_s` and took half a second more to be sent."""
    decision: Decision[PartitionPlan] = decided(A, B)
    held_back = np.isin(np.arange(4), pending)
    target = replace(decision.plan.target, owner=np.array(owner, dtype=np.int32), pending=held_back)
    plan = replace(decision.plan, before=np.array(before, dtype=np.int32), target=target)
    decision = replace(decision, plan=plan, raw=replace(decision.raw, protocol=protocol))
    timings = Timings(joined_at=at_s, metadata_s=0.1, plan_s=0.2, sync_s=0.2, join_s=1.0)
    previous = None if first else decision
    return replace(planned(decision, previous), previous=previous, cause=Cause(why, ""), timings=timings)


FOUR_PARTITIONS = ClusterView.of({"t": [["a"]] * 4})


OWN = "bw-1"


class Reader:
    """Takes the place of the cluster reader; `trouble` is raised instead of an answer, `delay_s` comes before it."""

    def __init__(self, cluster: ClusterView = FOUR_PARTITIONS) -> None:
        self.cluster = cluster
        self.trouble: Exception | None = None
        self.delay_s = 0.0
        self.asked: list[tuple[str, ...]] = []

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView:
        self.asked.append(topics)
        await asyncio.sleep(self.delay_s)
        if self.trouble is not None:
            raise self.trouble
        return self.cluster


def joined(member_id: str, *topics: str) -> JoinedMember:
    return JoinedMember(member_id, None, ConsumerProtocolSubscription(1, topics).encode())


MEMBERS = (joined(OWN), joined("a", "t"), joined("b", "t"))


def order(generation: int = 1, seconds: float = 5.0, members: tuple[JoinedMember, ...] = MEMBERS) -> Decide:
    return Decide(generation, "range", members, OWN, time.monotonic() + seconds)


UUID, OTHER_UUID = "6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f", "0b9d1c6e-55aa-4e0b-8c1f-7a2b3c4d5e6f"


def rack_rules(**racks: Mapping[str, str] | Sequence[str] | Path) -> RackRules:
    """The rules that follow from these settings under [racks]. Raises SettingsError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bellwether.toml"
        lines = "".join(f"{name} = {_toml(value)}\n" for name, value in racks.items())
        file.write_text(f'[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "g"\n[racks]\n{lines}')
        return load(file, environ={}).racks.rules()


def _toml(value: Mapping[str, str] | Sequence[str] | Path) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {json.dumps(rack)}" for key, rack in value.items()) + " }"
    return json.dumps(str(value) if isinstance(value, Path) else value)


# Every partition has a replica in both racks; the leaders of the first two are in az2.
IN_BOTH_RACKS = ClusterView.of({"t": [["az2", "az1"]] * 2 + [["az1", "az2"]] * 2})


V0 = ConsumerProtocolSubscription(0, ("t",)).encode()


IN_AZ1, IN_AZ2 = f"orders-1-{UUID}", f"orders-2-{OTHER_UUID}"


RACKED_MEMBERS = (JoinedMember(OWN, None, V0), JoinedMember(IN_AZ1, None, V0), JoinedMember(IN_AZ2, None, V0))


BY_HOST = rack_rules(hosts={"10.1.0.0/16": "az1", "10.2.0.0/16": "az2"})


BY_CLIENT = rack_rules(client_ids={"orders-1": "az1", "orders-2": "az2"})


RACKED_SHOWN = (
    DescribedMember(IN_AZ1, None, client_id="orders-1", client_host="/10.1.0.1"),
    DescribedMember(IN_AZ2, None, client_id="orders-2", client_host="/10.2.0.1"),
)


def decide_racked(generation: int, *, dry: bool = False) -> Decide:
    return Decide(generation, "range", RACKED_MEMBERS, OWN, time.monotonic() + 5, dry=dry)


GENERATION, PROTOCOL = 9, "cooperative-sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedOwner:
    """A member and what it has."""

    member_id: str
    rack: str | None
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]


def shown_plan(
    group: str,
    topics: Mapping[str, Sequence[str]],
    members: Sequence[ObservedOwner],
    policy: str,
    *,
    brokers: Sequence[str],
) -> dict[tuple[str, int], str]:
    """Returns the member that gets each partition. `topics` has the rack of each partition, `brokers` that of each
    broker; `members` are in the order of their ids."""
    cluster = _metadata_view(topics, brokers)
    described = []
    for member in members:
        subscription = ConsumerProtocolSubscription(3, member.topics, None, member.owned, 5, member.rack)
        assignment = ConsumerProtocolAssignment(partitions=member.owned)
        described.append(AssignedMember(member.member_id, None, subscription.encode(), assignment.encode()))
    memory = consumer.recall(GENERATION, PROTOCOL, cluster, described)
    joined = tuple(RawMember(member.member_id, None, member.metadata) for member in described)
    raw = RawGroup(group, GENERATION, PROTOCOL, joined, resting=True)
    decision = consumer.decide(raw, cluster, memory, consumer.policy(policy), 0, zlib.crc32(group.encode()))
    assert not isinstance(decision, Refusal), decision
    ids = decision.plan.group.members.ids
    return {
        (topic, partition): ids[decision.plan.owner[flat]]
        for topic in decision.cluster.topics
        for partition, flat in enumerate(decision.cluster.flats_of(topic).tolist())
    }


def _metadata_view(topics: Mapping[str, Sequence[str]], brokers: Sequence[str]) -> ClusterView:
    """As it is read from a cluster with a broker in each rack, which has read others before."""
    names = tuple(sorted(topics))
    return cluster_view(
        MetadataRead(
            topics=names,
            counts=np.array([len(topics[name]) for name in names], dtype=np.int32),
            codes=np.array([brokers.index(rack) for name in names for rack in topics[name]], dtype=np.int32),
            placements=[(broker, (broker,)) for broker in range(len(brokers))],
            racks=dict(enumerate(brokers)),
            online=frozenset(range(len(brokers))),
            read_at=0.0,
        )
    )


class KeptEvents:
    """A publisher that keeps what it is offered."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def offer(self, event: str, record: Mapping[str, Any]) -> None:
        schemas = SchemaSet.load()
        self.events.append(schemas.decode(schemas.encode(event, record)))


RACKS = ("az1", "az2", "az3")
SCHEMAS = SchemaSet.load()
LOADS = [900, 800, 100, 100, 100, 100, 500, 400, 100, 100, 100, 100]


def recorded_consumers(sizes: list[int], protocol: str = "cooperative-sticky", *, racks: bool = False) -> list[bytes]:
    """A group that has `sizes[n]` members in recorded rebalance n, led by sticky-min-churn, as events."""
    placed = [[RACKS[p // 4]] if racks else [None] for p in range(12)]
    cluster = ClusterView.of({"t": placed})
    memory, values = Memory.empty(), []
    members = [LiveMember(f"m{i}", ("t",), RACKS[i % 3] if racks else None) for i in range(max(sizes))]
    for n, size in enumerate(sizes):
        raw = live_group(members[:size], n + 1, protocol)
        decision = consumers.decided(raw, cluster, memory, Policy("sticky-min-churn"), now_ms=1_000 * n)
        memory = decision.plan.memory
        members = [m.after(decision) if i < size else m for i, m in enumerate(members)]
        values.append(SCHEMAS.encode("snapshot", snapshot_record(decision)))
    return values


def traffic(loads: list[int]) -> bytes:
    entries: list[dict[str, object]] = [
        {
            "topic": "t",
            "partition": p,
            "member": None,
            "rack": None,
            "leader_rack": None,
            "replica_racks": [],
            "records": 1,
            "bytes": load,
        }
        for p, load in enumerate(loads)
    ]
    return SCHEMAS.encode("traffic", {"group": "group", "since_ms": 0, "sampled_at_ms": 1_000, "entries": entries})


def recorded_leads(sizes: list[int], policy: str, protocol: str = "cooperative-sticky") -> Iterator[bytes]:
    """What a leader publishes of a group that has `sizes[n]` members in rebalance n; partitions stand in one rack
    each."""
    cluster = ClusterView.of({"t": [[RACKS[p // 4]] for p in range(12)]})
    memory = Memory.empty()
    members = [LiveMember(f"m{i}", ("t",), RACKS[(i + 1) % 3]) for i in range(max(sizes))]
    for n, size in enumerate(sizes):
        raw = live_group(members[:size], n + 1, protocol)
        decision = consumers.decided(raw, cluster, memory, Policy(policy), now_ms=1_000 * n, seed=n)
        memory = decision.plan.memory
        members = [m.after(decision) if i < size else m for i, m in enumerate(members)]
        head = {"group": "group", "generation": n + 1, "decided_at_ms": 1_000 * n, "part": 0}
        yield SCHEMAS.encode("assignment", {**head, "entries": list(assignment_entries(decision.plan))})
        yield SCHEMAS.encode("snapshot", snapshot_record(decision))


WEIGHED_AT_MS = 1_000_000_000


def weight_record(partition: TopicPartition, bytes_per_s: float, at_ms: int = WEIGHED_AT_MS) -> bytes:
    return SCHEMAS.encode(
        "weight",
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "bytes_per_s": bytes_per_s,
            "records_per_s": 1.0,
            "estimated_at_ms": at_ms,
            "windows": 3,
        },
    )
