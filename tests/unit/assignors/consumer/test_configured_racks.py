"""Racks that the configuration gives to members that send none: only a leader in the rack is local to them."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, changed, decide, rebalances
from bellwether_kafka.assignors.shared import NO_RACK, Change, ClusterView, Decision, Memory, RawGroup
from tests.kit.consumers import raw_group, subscription

RACKS = ("az1", "az2", "az3")
# Every partition has a replica in each rack. Leaders take turns, but not in the order of the members.
EVERYWHERE = [[RACKS[p * 2 % 3], RACKS[(p * 2 + 1) % 3], RACKS[(p * 2 + 2) % 3]] for p in range(18)]
CLUSTER = ClusterView.of({"t": EVERYWHERE})
V0 = subscription(0, ("t",))


def group(configured: dict[str, str | None], *, leader_only: bool = True, metadata: bytes = V0) -> RawGroup:
    raw = raw_group(dict.fromkeys(configured, metadata), protocol="range")
    members = (replace(m, rack=configured[m.member_id], leader_only=leader_only) for m in raw.members)
    return replace(raw, members=tuple(members))


SIX = {f"m{i}": RACKS[i // 2] for i in range(6)}


def planned(raw: RawGroup, policy: str = "rack-first", cluster: ClusterView = CLUSTER) -> Decision[PartitionPlan]:
    decision = decide(raw, cluster, Memory.empty(), Policy(policy), 0)
    assert isinstance(decision, Decision)
    return decision


def led_elsewhere(decision: Decision[PartitionPlan]) -> int:
    """Partitions whose leader is not in the rack of their owner, counted one by one."""
    plan = decision.plan
    leaders = [plan.cluster.racks[rack] for rack in plan.cluster.leader_rack.tolist()]
    return sum(SIX[plan.owners[m].name] != leader for m, leader in zip(plan.owner.tolist(), leaders, strict=True))


@pytest.mark.parametrize(("policy", "elsewhere"), [("rack-first", 9), ("kafka", 12)])
def test_partitions_go_to_the_rack_of_their_leader(policy: str, elsewhere: int) -> None:
    without = planned(group(dict.fromkeys(SIX)), policy)
    configured = planned(group(SIX), policy)
    assert (led_elsewhere(without), led_elsewhere(configured)) == (elsewhere, 0)
    assert np.bincount(configured.plan.owner).tolist() == [3] * 6
    assert configured.cost.cross_rack == 0


def test_replicas_in_the_rack_count_for_members_that_fetch_from_followers() -> None:
    assert planned(group(SIX, leader_only=False)).cost.cross_rack == 0
    assert led_elsewhere(planned(group(SIX, leader_only=False))) == 9


def test_the_cost_of_a_plan_that_ignores_racks_counts_leaders() -> None:
    assert planned(group(SIX), "sticky-min-churn").cost.cross_rack == 9
    assert planned(group(SIX, leader_only=False), "sticky-min-churn").cost.cross_rack == 0


def test_a_rack_that_a_member_sends_wins() -> None:
    raw = group({"m0": "az3"}, metadata=subscription(3, ("t",), rack="az1"))
    decision = planned(raw)
    assert [(owner.rack, owner.leader_only) for owner in decision.plan.owners] == [("az1", False)]
    assert decision.cost.cross_rack == 0


def test_members_with_and_without_a_rack_of_their_own_share_a_group() -> None:
    one_replica_elsewhere = ClusterView.of({"t": [["az2", "az1"], ["az1", "az2"]]})
    raw = raw_group({"own": subscription(3, ("t",), rack="az1"), "none": V0}, protocol="range")
    members = tuple(replace(m, rack="az1", leader_only=True) for m in raw.members)
    plan = planned(replace(raw, members=members), cluster=one_replica_elsewhere).plan
    assert {plan.owners[m].name: plan.name(p) for p, m in enumerate(plan.owner.tolist())} == {
        "own": "t-0",
        "none": "t-1",
    }


def test_without_a_configured_rack_the_member_stays_neutral() -> None:
    decision = planned(group({"m0": None}))
    assert decision.plan.group.rack.tolist() == [NO_RACK]
    assert decision.cost.cross_rack == 0


def test_a_simulated_change_knows_configured_racks() -> None:
    raw, cluster = changed(group(SIX), CLUSTER, Change(without_racks=("az1",)))
    assert [m.member_id for m in raw.members] == ["m2", "m3", "m4", "m5"]
    made = rebalances(raw, cluster, Memory.empty(), Policy("rack-first"), 0)
    assert made[-1].cost.cross_rack == 6, "the partitions whose leaders are in az1"


def test_a_member_whose_bytes_are_unreadable_keeps_its_rack() -> None:
    first = planned(group(SIX))
    raw = replace(group(SIX, metadata=b"\x00"), generation=2)
    decision = decide(raw, CLUSTER, first.plan.memory, Policy("rack-first"), 0)
    assert isinstance(decision, Decision)
    assert [(o.rack, o.leader_only) for o in decision.plan.owners] == [(rack, True) for rack in SIX.values()]
