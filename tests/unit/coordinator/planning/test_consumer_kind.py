"""The decision path: plan, cheaper plan, previous plan, nothing; what is remembered; a plan that hangs harms nobody."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.consumer.chain import Problem
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray, Plan, RefusalError, Rule
from bellwether_kafka.coordinator.membership import (
    Decide,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    RebuildMemory,
    shown,
)
from bellwether_kafka.coordinator.planning import CauseKind, ConsumerKind, Planner, Source
from bellwether_kafka.coordinator.planning.threads import in_thread
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import under
from tests.kit.consumers import LiveMember
from tests.kit.plans import MEMBERS, OTHER_UUID, OWN, UUID, Reader, joined, order

RUNNING_PLANS_MAX = 4


class Hanging:
    """An assignor that waits until the test lets it go."""

    name = "hanging"
    cooperative = False

    def __init__(self) -> None:
        self.release = threading.Event()

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        self.release.wait(20)
        return (
            Policy().chain("range")[0].apply(Problem(group, cluster, group.remembered), Plan.of(group.remembered)).owner
        )


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    assignor = Hanging()
    yield assignor
    assignor.release.set()


async def test_the_plan_names_its_topics_and_how_long_it_took() -> None:
    reader = Reader()
    planned = await Planner("orders", ConsumerKind(reader, Policy())).plan(order())
    assert planned.source is Source.PLAN
    assert planned.reasons == ()
    assert planned.topics.subscribed == ("t",)
    assert reader.asked == [("t",)]
    assert {member for member, _ in planned.decision.assignments} == {OWN, "a", "b"}
    assert 0 <= planned.timings.plan_s < 5


async def test_the_cause_of_a_rebalance_is_reported_from_what_was_delivered_before() -> None:
    planner = Planner("orders", ConsumerKind(Reader(), Policy()))
    await planner.plan(order(1))
    first = planner.delivered(1)
    await planner.plan(order(2))  # never delivered
    await planner.plan(order(3))
    third = planner.delivered(3)
    assert first is not None
    assert third is not None
    assert (first.previous, first.cause.kind) == (None, CauseKind.FIRST)
    assert third.previous is first.decision
    assert third.cause.kind is CauseKind.AGAIN
    planner.forget()
    await planner.plan(order(4))
    fourth = planner.delivered(4)
    assert fourth is not None
    assert fourth.cause.kind is CauseKind.FIRST, "others have decided meanwhile"


async def test_all_rebalances_of_a_rolling_restart_are_known_to_be_the_work_of_its_orders() -> None:
    """A page on many rebalances must not fire for them. Four for each member: two take its partitions from it, and two
    give it some back, because cooperative members revoke in one rebalance what another gets in the next (KIP-429); and
    one more where its old membership ends before the new one begins."""
    planner, generation = Planner("orders", ConsumerKind(Reader(), Policy())), 0
    causes: list[tuple[CauseKind, bool]] = []

    async def settled(*members: LiveMember) -> list[LiveMember]:
        nonlocal generation
        following = True
        while following:
            generation += 1
            there = tuple(JoinedMember(m.member_id, None, m.metadata) for m in members)
            command = Decide(generation, "cooperative-sticky", there, "", time.monotonic() + 60)
            decision = (await planner.plan(command)).decision
            delivered = planner.delivered(generation)
            assert delivered is not None
            causes.append((delivered.cause.kind, delivered.cause.by_order))
            members = tuple(member.after(decision) for member in members)
            following = decision.followup
        return list(members)

    remains, goes = await settled(*(LiveMember(f"{name}-{UUID}", ("t",)) for name in "ab"))
    first = len(causes)
    under(planner, (Rule("ban", "*", "member:b", "ops empties b"),))
    planner.order("ops empties b")
    remains, goes = await settled(remains, goes)
    assert goes.owned == ()
    (remains,) = await settled(remains)
    under(planner, ())
    remains, back = await settled(remains, LiveMember(f"b-{OTHER_UUID}", ("t",)))
    assert len(back.owned) == 2
    assert [kind for kind, _ in causes[first:]] == [
        *(CauseKind.ORDERED, CauseKind.PENDING, CauseKind.LEFT, CauseKind.JOINED, CauseKind.PENDING)
    ]
    assert all(by_order for _, by_order in causes[first:])
    await settled(back)
    assert causes[-1] == (CauseKind.LEFT, False), "a crash afterwards is none"


@pytest.mark.slow
async def test_a_plan_that_ends_after_that_of_the_next_generation_does_not_replace_it() -> None:
    """On a busy machine a generation may be over before its metadata are there."""
    reader = Reader()
    planner = Planner("orders", ConsumerKind(reader, Policy()))
    reader.delay_s = 0.2
    late = asyncio.create_task(planner.plan(order(1)))
    await asyncio.sleep(0)
    reader.delay_s = 0.0
    planned = await planner.plan(order(2))
    with pytest.raises(RefusalError, match="another generation has begun"):
        await late
    delivered = planner.delivered(2)
    assert delivered is not None, "the broker has it, so it is remembered and recorded"
    assert delivered.decision is planned.decision
    assert planner.kind.memory.generation == 2


@pytest.mark.slow
async def test_a_plan_that_hangs_is_replaced_by_a_cheap_one_in_time(hanging: Hanging) -> None:
    policy = Policy(name="hanging", assignors={"hanging": hanging})
    planner = Planner("orders", ConsumerKind(Reader(), policy))
    command = order(seconds=4.0)
    planned = await planner.plan(command)
    assert time.monotonic() < command.deadline
    assert planned.source is Source.CHEAP
    assert planned.reasons == ("plan: not ready in time",)


@pytest.mark.slow
async def test_plans_that_hang_do_not_pile_up(hanging: Hanging) -> None:
    policy = Policy(name="hanging", assignors={"hanging": hanging})
    planner = Planner("orders", ConsumerKind(Reader(), policy))
    for _ in range(RUNNING_PLANS_MAX):
        assert (await planner.plan(order(seconds=1.0))).reasons == ("plan: not ready in time",)
    (reason,) = (await planner.plan(order(seconds=1.0))).reasons
    assert reason == f"plan: {RUNNING_PLANS_MAX} earlier plans still run"
    hanging.release.set()
    await asyncio.sleep(0.5)
    assert (await planner.plan(order())).source is Source.PLAN


@pytest.mark.slow
@pytest.mark.parametrize("slow", [True, False])
async def test_without_metadata_the_previous_plan_serves_the_same_members(slow: bool) -> None:
    reader = Reader()
    planner = Planner("orders", ConsumerKind(reader, Policy()))
    first = await planner.plan(order(1))
    planner.delivered(1)
    if slow:
        reader.delay_s = 10
    else:
        reader.trouble = OSError("no broker")
    again = await planner.plan(order(2, seconds=1.0))
    assert again.source is Source.PREVIOUS
    assert again.decision.assignments == first.decision.assignments
    planner.delivered(2)
    assert planner.kind.memory.generation == 2
    with pytest.raises(RefusalError, match="no metadata"):
        await planner.plan(order(3, seconds=1.0, members=(*MEMBERS, joined("c", "t"))))


async def test_what_the_guard_refuses_is_not_sent() -> None:
    planner = Planner("orders", ConsumerKind(Reader(), Policy()), message_bytes_max=500)
    with pytest.raises(RefusalError, match="plan: the group's record would have"):
        await planner.plan(order())


async def test_a_dry_plan_shows_whether_a_move_is_worth_it() -> None:
    planner = Planner("orders", ConsumerKind(Reader(), Policy()))
    blobs = {
        "a": ConsumerProtocolAssignment(1, (TopicPartition("t", 0), TopicPartition("t", 1))).encode(),
        "b": ConsumerProtocolAssignment(1, (TopicPartition("t", 2), TopicPartition("t", 3))).encode(),
    }
    for lost, expected in [("", ""), ("b", "2 partitions have no owner")]:
        empty = ConsumerProtocolAssignment(1).encode()
        described = DescribeAnswer(
            0,
            0,
            "Stable",
            members=tuple(
                DescribedMember(
                    m.member_id, None, m.metadata, empty if m.member_id == lost else blobs.get(m.member_id, empty)
                )
                for m in MEMBERS
            ),
        )
        await planner.rebuild(RebuildMemory(4, "range", MEMBERS), shown(described), OWN)
        assert planner.kind.memory.generation == 4
        comparison = await planner.compare(replace(order(4), dry=True))
        assert comparison.worth_moving == expected


async def test_a_dry_plan_without_metadata_is_no_plan() -> None:
    reader = Reader()
    reader.trouble = OSError("no broker")
    with pytest.raises(RefusalError, match="no broker"):
        await Planner("orders", ConsumerKind(reader, Policy())).compare(order())


async def test_threads_hand_back_values_and_errors() -> None:
    ended: list[int] = []
    assert await in_thread(lambda: 7, lambda: ended.append(1)) == 7

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_thread(fail, lambda: ended.append(2))
    assert ended == [1, 2]
