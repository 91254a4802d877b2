"""Plans by racks of the configuration: what the leader knows when it decides, and what it is worth to know more."""

import time
from dataclasses import replace

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import (
    Decide,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    RebuildMemory,
    ShownGroup,
)
from bellwether_kafka.coordinator.planning import ConsumerKind, Planner, RackRules, Source
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.support.racks import rack_rules
from tests.unit.coordinator.planning.test_consumer_kind import OTHER_UUID, OWN, UUID, Reader

# Every partition has a replica in both racks; the leaders of the first two are in az2.
CLUSTER = ClusterView.of({"t": [["az2", "az1"]] * 2 + [["az1", "az2"]] * 2})
V0 = ConsumerProtocolSubscription(0, ("t",)).encode()
IN_AZ1, IN_AZ2 = f"orders-1-{UUID}", f"orders-2-{OTHER_UUID}"
MEMBERS = (JoinedMember(OWN, None, V0), JoinedMember(IN_AZ1, None, V0), JoinedMember(IN_AZ2, None, V0))
BY_HOST = rack_rules(hosts={"10.1.0.0/16": "az1", "10.2.0.0/16": "az2"})
BY_CLIENT = rack_rules(client_ids={"orders-1": "az1", "orders-2": "az2"})
SHOWN = (
    DescribedMember(IN_AZ1, None, client_id="orders-1", client_host="/10.1.0.1"),
    DescribedMember(IN_AZ2, None, client_id="orders-2", client_host="/10.2.0.1"),
)


def planner(rules: RackRules, policy: str = "rack-first") -> Planner:  # type: ignore[type-arg]  # of consumers
    return Planner("orders", ConsumerKind(Reader(CLUSTER), Policy(policy)), racks=rules)


def decide(generation: int, *, dry: bool = False) -> Decide:
    return Decide(generation, "range", MEMBERS, OWN, time.monotonic() + 5, dry=dry)


async def delivered(planning: Planner, generation: int) -> dict[str, set[int]]:  # type: ignore[type-arg]
    """Plans and delivers; returns the partitions of each member."""
    await planning.plan(decide(generation))
    planned = planning.delivered(generation)
    assert planned is not None
    plan = planned.chosen.decision.plan
    parts = {owner.name: set[int]() for owner in plan.owners}
    for partition, owner in enumerate(plan.owner.tolist()):
        parts[plan.owners[owner].name].add(partition)
    return parts


async def test_client_ids_give_the_first_plan_its_racks() -> None:
    assert await delivered(planner(BY_CLIENT), 1) == {IN_AZ1: {2, 3}, IN_AZ2: {0, 1}}


async def test_hosts_that_were_shown_before_the_rebalance_give_the_plan_its_racks() -> None:
    planning = planner(BY_HOST)
    await planning.observed(DescribeAnswer(0, 0, "PreparingRebalance", "consumer", "", SHOWN), None)
    assert await delivered(planning, 1) == {IN_AZ1: {2, 3}, IN_AZ2: {0, 1}}


async def test_without_hosts_a_plan_is_made_without_racks_and_is_worth_a_rebalance_once_they_are_known() -> None:
    planning = planner(BY_HOST)
    assert await delivered(planning, 1) == {IN_AZ1: {0, 2}, IN_AZ2: {1, 3}}
    assert not planning.racks_changed(MEMBERS[1:])
    planning.racks.observe(SHOWN)
    assert planning.racks_changed(MEMBERS[1:])
    assert await planning.gain_of_racks(decide(1, dry=True)) == (
        "by the racks of members that are known now, 0 partitions instead of 2 are read from another rack"
    )
    assert await delivered(planning, 2) == {IN_AZ1: {2, 3}, IN_AZ2: {0, 1}}
    assert not planning.racks_changed(MEMBERS[1:])


async def test_racks_are_worth_no_rebalance_under_a_policy_that_ignores_them() -> None:
    planning = planner(BY_HOST, "sticky-min-churn")
    await delivered(planning, 1)
    planning.racks.observe(SHOWN)
    assert planning.racks_changed(MEMBERS[1:])
    assert await planning.gain_of_racks(decide(1, dry=True)) == ""


async def test_after_a_return_without_a_plan_racks_are_compared_with_the_present_assignment() -> None:
    former = planner(RackRules())
    await delivered(former, 1)
    decision = former._previous
    assert decision is not None
    assigned = dict(decision.assignments)
    group = ShownGroup(
        "Stable", "range", tuple(replace(m, metadata=V0, assignment=assigned[m.member_id]) for m in SHOWN)
    )
    planning = planner(BY_CLIENT)
    await planning.rebuild(RebuildMemory(1, "range", MEMBERS), group, OWN)
    assert not planning.racks_changed(MEMBERS[1:]), "what members have is not known yet"
    planning.returned(await planning.compare(decide(1, dry=True)))
    assert planning.racks_changed(MEMBERS[1:])
    assert "0 partitions instead of 2" in await planning.gain_of_racks(decide(1, dry=True))


def test_before_the_first_plan_no_rack_has_changed() -> None:
    planning = planner(BY_HOST)
    planning.racks.observe(SHOWN)
    assert not planning.racks_changed(MEMBERS[1:])


async def test_the_previous_answer_can_be_sent_again_although_racks_have_become_known() -> None:
    planning = planner(BY_HOST)
    await delivered(planning, 1)
    planning.racks.observe(SHOWN)
    planning.kind._reader.trouble = OSError("no broker answers")  # type: ignore[attr-defined]
    again = await planning.plan(replace(decide(2), deadline=time.monotonic() + 1))
    assert again.chosen.source is Source.PREVIOUS
