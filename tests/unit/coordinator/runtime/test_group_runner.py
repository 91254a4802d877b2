"""Orders on placement reach a group at rest: a rebalance is begun for them, and is said to be, if it changes
anything."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import RefusalCause, RefusalError
from bellwether_kafka.coordinator.control import NO_END_MS, GroupOrders, OrderKind, PlacementOrder
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import (
    ComparisonFailed,
    ComparisonReady,
    Decide,
    DescribeAnswer,
    DescribedMember,
    Failure,
    Note,
    PlanDelivered,
    RebalanceOrdered,
    RebuildMemory,
)
from bellwether_kafka.coordinator.planning import CauseKind
from bellwether_kafka.coordinator.runtime import group_runner, until_answered
from bellwether_kafka.coordinator.telemetry import log_decision
from bellwether_kafka.coordinator.telemetry.event_records import decision_record
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.membership import ME
from tests.kit.runtime import MEMBERS, OFF_AZ1, ORDER, DescribingBrokers, Resting

PIN = PlacementOrder(OrderKind.PIN, "orders", "t-0", "member:b", "eve", 0, NO_END_MS)


async def test_an_order_that_moves_something_begins_a_rebalance_and_is_its_cause() -> None:
    group = Resting()
    await group.begin()
    assert await group.reported(OFF_AZ1) == [RebalanceOrdered(ORDER)]
    planned = await group.rebalance(2)
    assert (planned.cause.kind, planned.cause.sentence) == (CauseKind.ORDERED, ORDER)
    assert planned.rules == (OFF_AZ1.rule,)
    assert planned.decision.moves.moved == 2
    assert (await group.rebalance(3)).cause.kind is CauseKind.AGAIN, "once, and not for ever"


async def test_a_rebalance_that_load_requested_has_it_as_its_cause() -> None:
    """In the log, the events and on the page, which said that a member joined again and nothing changed."""
    group = Resting()
    await group.begin()
    reason = "the load of members is uneven, 2 partitions would move"
    with capture_logs() as lines:
        planned = await group.rebalance(2, wanted=reason)
        log_decision(planned)
    assert (planned.cause.kind, planned.cause.sentence) == (CauseKind.REQUESTED, reason)
    assert [line["cause"] for line in lines if line["event"] == "decision"] == [reason]
    assert decision_record(planned)["cause"] == reason
    assert (await group.rebalance(3)).cause.kind is CauseKind.AGAIN, "once, and not for ever"


async def test_a_return_beside_a_pin_is_compared_under_it() -> None:
    """A restart compared before it had read the control topic: "the spread would go from 2 to 0", and a partition was
    without an owner for 3 s."""
    group = await pinned()
    group.orders_read.clear()
    comparing = asyncio.create_task(group.runner._compare(group.after_a_return()))
    await asyncio.sleep(0.01)
    assert await group.posted() == [], "nothing is compared before orders are known"
    group.order(PIN)
    group.orders_read.set()
    await comparing
    (ready,) = [event for event in await group.posted() if isinstance(event, ComparisonReady)]
    assert (ready.worth_moving, ready.reason) == (False, "")


async def test_a_return_without_orders_is_compared_as_ever() -> None:
    group = await pinned()
    await group.runner._compare(group.after_a_return())
    (ready,) = [event for event in await group.posted() if isinstance(event, ComparisonReady)]
    assert (ready.worth_moving, ready.reason) == (True, "the spread of partitions would go from 2 to 0")


@pytest.mark.slow
@pytest.mark.parametrize("read", [True, False])
async def test_a_plan_waits_for_the_orders_but_not_until_it_is_late(read: bool) -> None:
    group = Resting()
    await group.begin()
    group.orders_read.clear()
    left_s = 30.0 if read else 2.0
    planning = asyncio.create_task(group.runner._plan(Decide(7, "range", MEMBERS, ME, time.monotonic() + left_s)))
    await asyncio.sleep(0.01)
    assert not planning.done()
    if read:
        group.order(OFF_AZ1)
        group.orders_read.set()
    await planning
    planned = group.planner.delivered(7)
    assert planned is not None
    assert planned.rules == ((OFF_AZ1.rule,) if read else ())


async def pinned() -> Resting:
    """A group whose members have what a pin says, in a process that has just started and not read the pin."""
    group = Resting()
    group.runner.orders = GroupOrders(placements=(PIN,))
    await group.begin()
    group.runner.orders = GroupOrders()
    return group


async def test_an_order_that_moves_nothing_stops_nobody() -> None:
    """`evacuate shipping rack:az9`: in an eager group a rebalance without a move still stops every member."""
    group = Resting()
    await group.begin()
    assert await group.reported(replace(OFF_AZ1, where="rack:az9")) == []
    group.order(news="eve: withdrawn")
    assert group.runner._carrying_out is not None
    await group.runner._carrying_out
    assert await group.posted() == []
    assert (await group.rebalance(2)).cause.kind is CauseKind.AGAIN, "the order did not begin this round"


async def test_a_rebalance_that_an_operator_wants_has_the_order_as_its_cause_whatever_it_moves() -> None:
    group = Resting()
    await group.begin()
    group.runner.begin_rebalance("eve has ordered rebalance of 'orders'")
    assert await group.posted() == [RebalanceOrdered("eve has ordered rebalance of 'orders'")]
    assert (await group.rebalance(2)).cause.sentence == "eve has ordered rebalance of 'orders'"


async def test_an_order_waits_until_the_group_is_at_rest() -> None:
    group = Resting()
    group.order(OFF_AZ1)
    assert group.runner._carrying_out is None
    await group.begin()
    planned = await group.rebalance(7)
    assert planned.rules == (OFF_AZ1.rule,), "the plan of the round under way follows it"


async def test_a_plan_is_in_force_from_its_delivery_until_others_lead_or_planned() -> None:
    group = Resting()
    await group.begin()
    runner: Any = group.runner
    member = runner.membership
    assert not runner.plan_in_force, "after a restart members have what another process gave them"
    runner._watch = Followed()
    await group.planner.plan(Decide(member.generation, "range", MEMBERS, ME, time.monotonic() + 5))
    runner._delivered(PlanDelivered(member.generation), time.monotonic())
    runner._unfollow_unless_leading()
    assert runner.plan_in_force
    last, decision = runner.last, runner.last.decision
    of_others = replace(decision, raw=replace(decision.raw, generation=member.generation - 1))
    runner.last = replace(last, decision=of_others)
    runner._unfollow_unless_leading()
    assert not runner.plan_in_force, "it has returned to what another instance planned"


class Followed:
    """Takes the place of the watch of topics."""

    def follow(self, *_: object, **__: object) -> None:
        pass

    forget = follow


GIVEN = {"a": (0, 2), "b": (1, 3)}
AT_REST = DescribeAnswer(
    0,
    0,
    "Stable",
    "consumer",
    "range",
    tuple(
        DescribedMember(
            m.member_id,
            None,
            m.metadata,
            ConsumerProtocolAssignment(1, tuple(TopicPartition("t", p) for p in GIVEN.get(m.member_id, ()))).encode(),
        )
        for m in MEMBERS
    ),
)


@pytest.mark.parametrize(
    "trouble", [DescribeAnswer(0, 14), DescribeAnswer(0, 16), TransportError(Failure.TIMED_OUT, "silence")]
)
async def test_a_leader_that_returns_asks_again_for_what_members_hold_after_an_error(
    trouble: DescribeAnswer | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(until_answered, "REBUILD_AGAIN_S", 0.01)
    group, brokers = Resting(), DescribingBrokers(trouble, trouble, AT_REST)
    await group.begin()
    group.planner.forget()
    group.runner._transport = brokers
    member = group.runner.membership
    await group.runner._rebuild(RebuildMemory(member.generation, "range", MEMBERS))
    assert len(brokers.asked) == 3
    assert group.planner.kind.memory.find("a") is not None, "what the third answer shows"
    assert group.planner.kind.memory.owner.tolist().count(-1) == 0


async def test_nothing_is_rebuilt_for_a_generation_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(until_answered, "REBUILD_AGAIN_S", 0.01)
    group, brokers = Resting(), DescribingBrokers(DescribeAnswer(0, 14))
    await group.begin()
    group.runner._transport = brokers
    await group.runner._rebuild(RebuildMemory(group.runner.membership.generation - 1, "range", MEMBERS))
    assert len(brokers.asked) == 1
    assert group.planner.kind.memory.generation == group.runner.membership.generation


@pytest.mark.parametrize("error", [KeyError("a defect"), RefusalError(RefusalCause.PLAN, "no metadata")])
async def test_an_order_that_could_not_be_compared_says_so_once_and_is_tried_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in the comparison left no line in the log, and the order undone for good."""
    monkeypatch.setattr(group_runner, "COMPARE_AGAIN_S", 0.0)
    group = Resting()
    await group.begin()
    notes: list[Note] = []
    group.runner._on_note = [lambda _, note: notes.append(note)]
    compare, failures = group.planner.would_change, [error, error]

    async def would_change(*asked: Any) -> bool:
        if failures:
            raise failures.pop()
        return await compare(*asked)

    monkeypatch.setattr(group.planner, "would_change", would_change)
    with capture_logs() as lines:
        group.order(OFF_AZ1)
        events = await group.first_posted()
    assert events == [RebalanceOrdered(ORDER)]
    assert [line["event"] for line in lines].count("order_not_compared") == 2
    assert len(notes) == 1
    assert notes[0].reason.startswith(f"not carried out yet: {ORDER}: ")


async def test_a_comparison_that_fails_by_a_defect_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Resting()
    await group.begin()

    async def compare(_: Decide) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(group.planner, "compare", compare)
    comparing = asyncio.create_task(group.runner._compare(Decide(1, "range", MEMBERS, ME, 0.0, dry=True)))
    events = await group.first_posted()
    comparing.cancel()
    assert events == [ComparisonFailed(1, "KeyError: 'a defect'")]


async def test_an_error_in_any_work_of_a_group_is_logged() -> None:
    group = Resting()

    async def work() -> None:
        raise KeyError("a defect")

    with capture_logs() as lines:
        await asyncio.wait([group.runner._start(work())])
        await asyncio.sleep(0)
    assert [(line["event"], line["group"]) for line in lines] == [("group_task_failed", "orders")]
