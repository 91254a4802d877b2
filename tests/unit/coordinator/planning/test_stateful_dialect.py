"""Stateful members that are not Streams, planned like one: what they say, rebalance by rebalance, and what they get for
it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from bellwether_kafka.assignors.shared import RefusalError
from bellwether_kafka.assignors.streams import stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Subtopology, Topology
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator.membership import (
    Decide,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    RebuildMemory,
    ShownGroup,
    shown,
)
from bellwether_kafka.coordinator.observation import Shadow
from bellwether_kafka.coordinator.planning import Planner, StreamsConfig, UnreadableTopicsError, stateful
from bellwether_kafka.protocol.messages import (
    PROTOCOL,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    Task,
)
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition
from tests.kit.applications import Cluster
from tests.kit.streams import OWN

TOPICS = ("clicks", "orders")
COUNTS = {"clicks": 2, "orders": 4}
END = 50_000
EVERYTHING = [Task(0, number) for number in range(4)]


@dataclass(frozen=True)
class Member:
    """A member that is a process of its own; what it says follows from what it was sent. An eager one names no
    partitions when it joins again."""

    name: str
    process: int
    capacity: int = 1
    topics: tuple[str, ...] = TOPICS
    positions: Mapping[Task, int] = field(default_factory=dict)
    running: frozenset[Task] = frozenset()
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    eager: bool = False

    @property
    def metadata(self) -> bytes:
        tasks = [StatefulTaskState(task, at, END, running=task in self.running) for task, at in self.positions.items()]
        info = StatefulSubscription(ProcessId(0, self.process), "az1", self.capacity, (), tuple(tasks))
        owned = () if self.eager else self.owned
        return ConsumerProtocolSubscription(3, self.topics, info.encode(), owned, self.generation).encode()

    def after(self, sent: Mapping[str, bytes], generation: int) -> "Member":
        """It runs what it was given, whole, and has caught up with every copy."""
        partitions, given = read(sent[self.name])
        whole = dict.fromkeys((*given.active, *given.standby, *given.warmup), END)
        return replace(
            self,
            positions={**self.positions, **whole},
            running=frozenset(given.active),
            owned=partitions,
            generation=generation,
        )


def read(blob: bytes) -> tuple[tuple[TopicPartition, ...], StatefulAssignment]:
    assignment = ConsumerProtocolAssignment.decode(blob)
    return assignment.partitions, StatefulAssignment.decode(assignment.user_data or b"")


class Group:
    """A planner and its members, generation after generation."""

    def __init__(self, *, declared: Topology | None = None, stages: StageConfigs | None = None, **configs: int) -> None:
        self.cluster = Cluster(COUNTS)
        config = StreamsConfig("group", policy=STREAMS_HA, configs=AssignmentConfigs(**configs), stateful=True)
        assignors = stock(stages or StageConfigs(capacity_tag="capacity"))
        self.kind, dialect = stateful("group", config, self.cluster, declared, assignors)
        self.planner = Planner("group", self.kind, dialect=dialect)
        self.generation = 0

    def order(self, *members: Member | JoinedMember) -> Decide:
        self.generation += 1
        joined = [m if isinstance(m, JoinedMember) else JoinedMember(m.name, None, m.metadata) for m in members]
        own = JoinedMember(OWN, None, b"")
        return Decide(self.generation, PROTOCOL, (*joined, own), OWN, time.monotonic() + 5)

    async def rebalance(self, *members: Member | JoinedMember) -> dict[str, bytes]:
        await self.planner.plan(self.order(*members))
        delivered = self.planner.delivered(self.generation)
        assert delivered is not None
        return dict(delivered.decision.assignments)

    async def settle(self, *members: Member, rebalances: int = 6) -> list[Member]:
        for _ in range(rebalances):
            sent = await self.rebalance(*members)
            members = tuple(member.after(sent, self.generation) for member in members)
        return list(members)


async def test_a_fresh_group_gets_every_task_once_with_all_its_partitions() -> None:
    sent = await Group(num_standby_replicas=1).rebalance(Member("a", 1), Member("b", 2))
    given = {name: read(blob) for name, blob in sent.items()}
    assert sorted([*given["a"][1].active, *given["b"][1].active]) == EVERYTHING
    for partitions, data in (given["a"], given["b"]):
        wanted = {(topic, t.partition) for t in data.active for topic in TOPICS if t.partition < COUNTS[topic]}
        assert set(partitions) == wanted
        assert sorted([*data.active, *data.standby]) == EVERYTHING
        assert data.groups == ((0, TOPICS),)
    assert given[OWN] == ((), StatefulAssignment())


@pytest.mark.slow
@pytest.mark.parametrize("eager", [False, True])
async def test_a_cold_member_warms_up_before_it_works(eager: bool) -> None:
    group = Group()
    (a,) = await group.settle(Member("a", 1, eager=eager))
    sent = await group.rebalance(a, Member("b", 2, eager=eager))
    _, cold = read(sent["b"])
    assert (len(cold.active), len(cold.warmup)) == (0, 2)
    assert list(read(sent["a"])[1].active) == EVERYTHING, "it goes on with everything meanwhile"
    b = Member("b", 2, eager=eager).after(sent, group.generation)
    a, b = await group.settle(a.after(sent, group.generation), b)
    assert sorted(b.running) == sorted(cold.warmup), "what it warmed up for it works on"
    assert sorted([*a.running, *b.running]) == EVERYTHING


@pytest.mark.slow
async def test_a_task_goes_to_the_standby_of_a_member_that_died() -> None:
    group = Group(num_standby_replicas=1)
    a, b, c = await group.settle(Member("a", 1), Member("b", 2), Member("c", 3))
    kept = {m.name: set(m.positions) - m.running for m in (b, c)}
    sent = await group.rebalance(b, c)
    for member in (b, c):
        taken = set(read(sent[member.name])[1].active) - member.running
        assert taken <= kept[member.name]
    assert sorted(t for m in (b, c) for t in read(sent[m.name])[1].active) == EVERYTHING
    assert a.running


@pytest.mark.slow
async def test_nothing_moves_where_nothing_has_changed() -> None:
    group = Group(num_standby_replicas=1)
    settled = await group.settle(Member("a", 1), Member("b", 2, eager=True), Member("c", 3))
    again = await group.settle(*settled, rebalances=2)
    assert [m.running for m in again] == [m.running for m in settled]


@pytest.mark.slow
async def test_capacity_weighs() -> None:
    members = await Group().settle(Member("a", 1, capacity=3), Member("b", 2))
    assert [len(member.running) for member in members] == [3, 1]


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\xff",
        ConsumerProtocolSubscription(1, TOPICS, b"not ours").encode(),
        ConsumerProtocolSubscription(0, TOPICS, None).encode(),
    ],
)
async def test_a_member_that_cannot_be_read_gets_no_task_but_bytes_that_it_can_read(metadata: bytes) -> None:
    group = Group()
    sent = await group.rebalance(Member("a", 1), JoinedMember("odd", None, metadata))
    assert list(read(sent["a"])[1].active) == EVERYTHING
    assert read(sent["odd"]) == ((), StatefulAssignment())


@pytest.mark.slow
async def test_claims_of_tasks_that_do_not_exist_or_run_elsewhere_mean_nothing() -> None:
    group = Group()
    (a,) = await group.settle(Member("a", 1))
    unexpected = {Task(0, 99): 5, Task(7, 0): 5, Task(0, 0): END}
    liar = Member("b", 2, positions=unexpected, running=frozenset(unexpected), owned=(TopicPartition("orders", 3),))
    sent = await group.rebalance(a, liar)
    given = [t for name in "ab" for t in read(sent[name])[1].active]
    assert len(given) == len(set(given))
    assert set(given) <= set(EVERYTHING)


async def test_a_topology_file_makes_topic_groups_of_their_own() -> None:
    declared = Topology("group", (Subtopology(0, ("orders",)), Subtopology(4, ("clicks",))), "file")
    sent = await Group(declared=declared).rebalance(Member("a", 1))
    partitions, data = read(sent["a"])
    assert len(partitions) == 6
    assert list(data.active) == [*EVERYTHING, Task(4, 0), Task(4, 1)]
    assert data.groups == ((0, ("orders",)), (4, ("clicks",)))


async def test_members_that_subscribe_differently_are_left_to_themselves() -> None:
    group = Group()
    with pytest.raises(RefusalError, match="topic clicks of subtopology 0 is not subscribed"):
        await group.planner.plan(group.order(Member("a", 1), Member("b", 2, topics=("orders",))))


async def test_without_metadata_there_is_no_plan() -> None:
    group = Group()
    group.cluster.trouble = OSError("broker down")
    with pytest.raises(RefusalError, match="no metadata: broker down"):
        await group.planner.plan(group.order(Member("a", 1)))


@pytest.mark.slow
async def test_a_leader_that_returns_remembers_what_members_hold() -> None:
    group = Group()
    a, b = await group.settle(Member("a", 1), Member("b", 2))
    sent = await group.rebalance(a, b)
    described = DescribeAnswer(
        1,
        0,
        "Stable",
        "consumer",
        PROTOCOL,
        tuple(DescribedMember(m.name, None, m.metadata, sent[m.name]) for m in (a, b)),
    )
    fresh = Group()
    await fresh.planner.rebuild(RebuildMemory(7, PROTOCOL, ()), shown(described), OWN)
    assert fresh.kind.memory.generation == 7
    assert {fresh.kind.memory.threads[m].process_id for m in "ab"} == {ProcessId(0, 1), ProcessId(0, 2)}
    fresh.generation = 7
    comparison = await fresh.planner.compare(fresh.order(a, b))
    assert comparison.worth_moving == ""
    await fresh.planner.observed(described, None)
    assert Shadow.of(comparison.decision, comparison.present).moves.moved == 0


@pytest.mark.slow
async def test_memory_is_not_rebuilt_where_a_topic_cannot_be_read() -> None:
    group = Group()
    a, b = await group.settle(Member("a", 1), Member("b", 2))
    sent = await group.rebalance(a, b)
    members = tuple(DescribedMember(m.name, None, m.metadata, sent[m.name]) for m in (a, b))
    memory = group.kind.memory
    group.cluster.counts = {"clicks": 2}
    group.cluster.unreadable = frozenset({"orders"})
    with pytest.raises(UnreadableTopicsError, match="topic orders"):
        await group.planner.rebuild(RebuildMemory(99, PROTOCOL, ()), ShownGroup("Stable", PROTOCOL, members), OWN)
    assert group.kind.memory is memory
