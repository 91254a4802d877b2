"""Racks that the configuration gives to threads of an application that send none."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import Change, ClusterView, Decision, RawGroup
from bellwether_kafka.assignors.streams import STOCK, HeldTasks, TaskPlan, rebalances_of_tasks
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from tests.kit.streams import Thread, group, led

TOPICS = ("orders", "shop-by-user-repartition", "shop-totals-changelog")
# Both racks have a replica of everything; leaders are in az2, az2, az1, az1.
CLUSTER = ClusterView.of({topic: [["az2", "az1"]] * 2 + [["az1", "az2"]] * 2 for topic in TOPICS})
RACK_OF = {"a": "az1", "b": "az2"}
CONFIGS = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic")


def application(*, leader_only: bool = True) -> RawGroup:
    raw = group(Thread("a", 1), Thread("b", 2))
    members = (replace(m, rack=RACK_OF.get(m.member_id), leader_only=leader_only) for m in raw.members)
    return replace(raw, members=tuple(members))


def planned(*, leader_only: bool = True) -> Decision[TaskPlan]:
    return led(application(leader_only=leader_only), cluster=CLUSTER, configs=CONFIGS, assignors=STOCK)


def owners_of(decision: Decision[TaskPlan]) -> dict[str, str | None]:
    plan = decision.plan
    return {plan.name(t): plan.owners[p].rack for t, p in enumerate(plan.owner.tolist())}


@pytest.mark.parametrize("subtopology", [0, 1])
def test_tasks_go_to_the_rack_of_the_leaders_that_they_read(subtopology: int) -> None:
    owners = owners_of(planned())
    assert [owners[f"{subtopology}_{p}"] for p in range(4)] == ["az2", "az2", "az1", "az1"]
    assert planned().cost.cross_rack == 0


def test_the_cost_counts_leaders_only_for_processes_with_a_configured_rack() -> None:
    swapped = 1 - planned().plan.owner
    assert planned().plan.cost(swapped).cross_rack == 8
    assert planned(leader_only=False).plan.cost(swapped).cross_rack == 0


def test_a_simulated_change_knows_configured_racks() -> None:
    decision = planned()
    tasks = {name: HeldTasks() for name in RACK_OF}
    made = rebalances_of_tasks(decision, tasks, Change(without_racks=("az1",)), "kafka")
    assert {owner.rack for owner in made[-1].decision.plan.owners} == {"az2"}
    assert made[-1].decision.cost.cross_rack == 4
