"""What a leader of consumers remembers: what was delivered, also as rebuilt from brokers, and of a standby."""

import asyncio
import time
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import (
    Decide,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    NotShownError,
    RebuildMemory,
    ShownGroup,
    shown,
)
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.plans import MEMBERS, OWN, Reader, order


async def test_memory_is_what_was_delivered_and_not_what_was_planned() -> None:
    planner = Planner("orders", ConsumerKind(Reader(), Policy()))
    await planner.plan(order(1))
    assert planner.kind.memory.generation == -1
    assert planner.delivered(2) is None, "another generation"
    await planner.plan(order(3))
    assert planner.delivered(3) is not None
    assert planner.kind.memory.generation == 3
    planner.forget()
    assert planner.kind.memory.generation == -1


async def test_a_leader_that_returns_sees_that_members_consume_what_no_longer_exists() -> None:
    gone = tuple(TopicPartition("gone", partition) for partition in range(3))
    kept = tuple(TopicPartition("t", partition) for partition in range(4))
    given = {"a": ConsumerProtocolAssignment(1, kept[:2] + gone), "b": ConsumerProtocolAssignment(1, kept[2:])}
    described = DescribeAnswer(
        0,
        0,
        "Stable",
        members=tuple(
            DescribedMember(
                m.member_id, None, m.metadata, given.get(m.member_id, ConsumerProtocolAssignment(1)).encode()
            )
            for m in MEMBERS
        ),
    )
    planner = Planner("orders", ConsumerKind(Reader(), Policy()))
    await planner.rebuild(RebuildMemory(4, "range", MEMBERS), shown(described), OWN)
    comparison = await planner.compare(replace(order(4), dry=True))
    assert comparison.assigned_sizes == {"gone": 3, "t": 4}
    assert "gone" not in comparison.decision.cluster.index


@pytest.mark.parametrize(
    "answer",
    [
        DescribeAnswer(0, 14),
        DescribeAnswer(0, 16),
        DescribeAnswer(0, -1),
        DescribeAnswer(0, 0, "PreparingRebalance", members=(DescribedMember("a", None),)),
        DescribeAnswer(0, 0, "Dead"),
        DescribeAnswer(0, 0),
    ],
)
def test_memory_is_not_rebuilt_from_an_answer_that_shows_nothing(answer: DescribeAnswer) -> None:
    with pytest.raises(NotShownError):
        shown(answer)


async def test_memory_stays_where_metadata_are_missing_to_rebuild_it() -> None:
    reader = Reader()
    planner = Planner("orders", ConsumerKind(reader, Policy()))
    await planner.plan(order(1))
    planner.delivered(1)
    reader.trouble = TimeoutError()
    with pytest.raises(TimeoutError):
        await planner.rebuild(RebuildMemory(2, "range", MEMBERS), ShownGroup("Stable", "range", ()), OWN)
    assert planner.kind.memory.generation == 1


async def test_a_plan_that_is_delivered_meanwhile_is_newer_than_what_was_shown() -> None:
    reader = Reader()
    planner = Planner("orders", ConsumerKind(reader, Policy()))
    reader.delay_s = 0.1
    rebuilding = asyncio.create_task(
        planner.rebuild(RebuildMemory(1, "range", MEMBERS), ShownGroup("Stable", "range", ()), OWN)
    )
    await asyncio.sleep(0)
    reader.delay_s = 0.0
    await planner.plan(order(2))
    assert planner.delivered(2) is not None
    await rebuilding
    assert planner.kind.memory.generation == 2


async def test_a_standby_keeps_memory_of_a_group_at_rest_and_plans_from_it_when_it_takes_over_in_a_rebalance() -> None:
    """Members of `range` claim nothing: without this the successor of a dead leader would shuffle everything."""

    def at_rest(holders: dict[str, tuple[int, ...]], state: str = "Stable") -> DescribeAnswer:
        given = {
            member: ConsumerProtocolAssignment(partitions=tuple(TopicPartition("t", p) for p in owned)).encode()
            for member, owned in holders.items()
        }
        member_entry = DescribedMember("bw-old", "bellwether", MEMBERS[0].metadata, b"")
        others = [DescribedMember(m.member_id, None, m.metadata, given[m.member_id]) for m in MEMBERS[1:]]
        return DescribeAnswer(1, 0, state, "consumer", "range", (member_entry, *others))

    planner = Planner("orders", ConsumerKind(Reader(), Policy("sticky-min-churn")))
    await planner.observed(at_rest({"a": (0, 2), "b": (1, 3)}, state="PreparingRebalance"), "bellwether")
    assert planner.kind.memory.index == {}, "in a round nobody says who holds what"
    await planner.observed(at_rest({"a": (0, 2), "b": (1, 3)}), "bellwether")
    await planner.observed(at_rest({"a": (0, 3), "b": (1, 2)}), "bellwether")
    assert sorted(planner.kind.memory.index) == ["a", "b"], "our seat is no member that holds anything"
    planned = await planner.plan(order(8))
    given = dict(planned.decision.assignments)
    owned = {m: [p for _, p in ConsumerProtocolAssignment.decode(given[m]).partitions] for m in ("a", "b")}
    assert owned == {"a": [0, 3], "b": [1, 2]}


async def test_a_group_that_rests_under_another_leader_is_read_once_and_again_when_bellwether_has_planned() -> None:
    shown = DescribeAnswer(
        1, 0, "Stable", "consumer", "range", tuple(DescribedMember(m.member_id, None, m.metadata, b"") for m in MEMBERS)
    )
    reader = Reader()
    planner = Planner("orders", ConsumerKind(reader, Policy()))
    await planner.observed(shown, None)
    await planner.observed(shown, None)
    assert len(reader.asked) == 1
    planner.forget()
    reader.delay_s = 0.05
    observing = asyncio.create_task(planner.observed(shown, None))
    await asyncio.sleep(0)
    reader.delay_s = 0.0
    await planner.plan(order(2))
    await observing
    assert planner.kind.memory.index == {}, "older than the plan that was begun"
    await planner.observed(shown, None)
    assert sorted(planner.kind.memory.index) == sorted(m.member_id for m in MEMBERS)


async def test_a_leader_that_made_way_for_bellwether_gets_back_what_it_had_under_its_new_id() -> None:
    """Found by taking groups over: it comes back without claims, and another member got one of its partitions."""
    old, new, other, third = (f"{name}-{'0' * 35}{n}" for n, name in enumerate(("led", "led", "b", "c")))
    owned = {old: (0, 1, 2), other: (3, 4, 5), third: (6, 7)}
    cluster = ClusterView.of({"t": [["a"]] * 8})

    def given(member: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition("t", p) for p in owned.get(member, ()))

    def subscription(member: str) -> bytes:
        return ConsumerProtocolSubscription(1, ("t",), None, given(member)).encode()

    planner = Planner("orders", ConsumerKind(Reader(cluster), Policy()))
    seen = tuple(
        DescribedMember(m, None, subscription(m), ConsumerProtocolAssignment(0, given(m)).encode()) for m in owned
    )
    protocol = "cooperative-sticky"
    await planner.observed(DescribeAnswer(1, 0, "Stable", "consumer", protocol, seen), "bellwether")
    back = tuple(JoinedMember(m, None, subscription(m)) for m in (new, other, third))
    members = (JoinedMember(OWN, None, ConsumerProtocolSubscription(1, ()).encode()), *back)
    planned = await planner.plan(Decide(8, protocol, members, OWN, time.monotonic() + 5, removed=(old,)))
    sent = dict(planned.decision.assignments)
    assert {p for _, p in ConsumerProtocolAssignment.decode(sent[new]).partitions} == {0, 1, 2}
