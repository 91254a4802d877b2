"""Plans by racks of the configuration: what the leader knows when it decides, and what it is worth to know more."""

import time
from dataclasses import replace

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator.membership import (
    DescribeAnswer,
    RebuildMemory,
    ShownGroup,
)
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner, RackRules, Source
from tests.kit.plans import (
    BY_CLIENT,
    BY_HOST,
    IN_AZ1,
    IN_AZ2,
    IN_BOTH_RACKS,
    OWN,
    RACKED_MEMBERS,
    RACKED_SHOWN,
    V0,
    Reader,
    decide_racked,
)


def planner(rules: RackRules, policy: str = "rack-first") -> Planner:  # type: ignore[type-arg]  # of consumers
    return Planner("orders", ConsumerKind(Reader(IN_BOTH_RACKS), Policy(policy)), racks=rules)


async def delivered(planning: Planner, generation: int) -> dict[str, set[int]]:  # type: ignore[type-arg]
    """Plans and delivers; returns the partitions of each member."""
    await planning.plan(decide_racked(generation))
    planned = planning.delivered(generation)
    assert planned is not None
    plan = planned.decision.plan
    parts = {owner.name: set[int]() for owner in plan.owners}
    for partition, owner in enumerate(plan.owner.tolist()):
        parts[plan.owners[owner].name].add(partition)
    return parts


async def test_client_ids_give_the_first_plan_its_racks() -> None:
    assert await delivered(planner(BY_CLIENT), 1) == {IN_AZ1: {2, 3}, IN_AZ2: {0, 1}}


async def test_hosts_that_were_shown_before_the_rebalance_give_the_plan_its_racks() -> None:
    planning = planner(BY_HOST)
    await planning.observed(DescribeAnswer(0, 0, "PreparingRebalance", "consumer", "", RACKED_SHOWN), None)
    assert await delivered(planning, 1) == {IN_AZ1: {2, 3}, IN_AZ2: {0, 1}}


async def test_without_hosts_a_plan_is_made_without_racks_and_is_worth_a_rebalance_once_they_are_known() -> None:
    planning = planner(BY_HOST)
    assert await delivered(planning, 1) == {IN_AZ1: {0, 2}, IN_AZ2: {1, 3}}
    assert not planning.racks_changed(RACKED_MEMBERS[1:])
    planning.racks.observe(RACKED_SHOWN)
    assert planning.racks_changed(RACKED_MEMBERS[1:])
    assert await planning.gain_of_racks(decide_racked(1, dry=True)) == (
        "by the racks of members that are known now, 0 partitions instead of 2 are read from another rack"
    )
    assert await delivered(planning, 2) == {IN_AZ1: {2, 3}, IN_AZ2: {0, 1}}
    assert not planning.racks_changed(RACKED_MEMBERS[1:])


async def test_racks_are_worth_no_rebalance_under_a_policy_that_ignores_them() -> None:
    planning = planner(BY_HOST, "sticky-min-churn")
    await delivered(planning, 1)
    planning.racks.observe(RACKED_SHOWN)
    assert planning.racks_changed(RACKED_MEMBERS[1:])
    assert await planning.gain_of_racks(decide_racked(1, dry=True)) == ""


async def test_after_a_return_without_a_plan_racks_are_compared_with_the_present_assignment() -> None:
    former = planner(RackRules())
    await delivered(former, 1)
    decision = former._previous
    assert decision is not None
    assigned = dict(decision.assignments)
    group = ShownGroup(
        "Stable", "range", tuple(replace(m, metadata=V0, assignment=assigned[m.member_id]) for m in RACKED_SHOWN)
    )
    planning = planner(BY_CLIENT)
    await planning.rebuild(RebuildMemory(1, "range", RACKED_MEMBERS), group, OWN)
    assert not planning.racks_changed(RACKED_MEMBERS[1:]), "what members have is not known yet"
    planning.returned(await planning.compare(decide_racked(1, dry=True)))
    assert planning.racks_changed(RACKED_MEMBERS[1:])
    assert "0 partitions instead of 2" in await planning.gain_of_racks(decide_racked(1, dry=True))


def test_before_the_first_plan_no_rack_has_changed() -> None:
    planning = planner(BY_HOST)
    planning.racks.observe(RACKED_SHOWN)
    assert not planning.racks_changed(RACKED_MEMBERS[1:])


async def test_the_previous_answer_can_be_sent_again_although_racks_have_become_known() -> None:
    planning = planner(BY_HOST)
    await delivered(planning, 1)
    planning.racks.observe(RACKED_SHOWN)
    planning.kind._reader.trouble = OSError("no broker answers")  # type: ignore[attr-defined]
    again = await planning.plan(replace(decide_racked(2), deadline=time.monotonic() + 1))
    assert again.source is Source.PREVIOUS
