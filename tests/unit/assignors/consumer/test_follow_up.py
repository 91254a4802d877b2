"""What a rebalance takes over from a plan that left partitions pending (tests/properties/test_settling.py has random
groups)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, Rule
from tests.kit.consumers import LiveMember, cluster_of, decided, live_group

UNRELEASED = "has not given up partitions that 3 plans in a row took from it"

TOPICS = ("t", "u")
CLUSTER = cluster_of({"t": 7, "u": 5})
BY_TOPIC = Policy("topic-balance")
CARRIED_OUT = "placement by the last plan"


class Scene:
    """Two members have everything, and a third has joined: the plan of its rebalance leaves partitions pending."""

    def __init__(self, policy: Policy = BY_TOPIC) -> None:
        self.policy, self.generation, self.memory = policy, 0, Memory.empty()
        self.members = [LiveMember("a", TOPICS), LiveMember("b", TOPICS)]
        self.rebalance()
        self.members.append(LiveMember("c", TOPICS))
        self.planned = self.rebalance()
        assert self.planned.followup

    def rebalance(self, cluster: ClusterView = CLUSTER, joined: Sequence[LiveMember] = ()) -> Decision[PartitionPlan]:
        self.generation += 1
        members = joined or self.members
        decision = decided(live_group(members, self.generation), cluster, self.memory, self.policy, 0)
        self.members, self.memory = [m.after(decision) for m in members], decision.plan.memory
        return decision


def carries_out(decision: Decision[PartitionPlan]) -> bool:
    return decision.stages[0].stage == CARRIED_OUT


def test_what_was_left_pending_is_handed_out_as_it_was_planned() -> None:
    scene = Scene()
    then = scene.rebalance()
    assert carries_out(then)
    assert np.array_equal(then.plan.owner, scene.planned.plan.owner)
    assert not then.followup
    assert not len(then.plan.memory.target)


def test_a_rebalance_after_that_is_planned_by_the_policy_again() -> None:
    scene = Scene()
    scene.rebalance()
    assert not carries_out(scene.rebalance())


def test_a_plan_that_was_overtaken_is_carried_out_by_the_one_after_it() -> None:
    """Members joined generation 3 and 4 before they could receive the plan of 3, and report these."""
    scene = Scene()
    overtaken = [replace(m, generation=m.generation + 1) for m in scene.members]
    scene.generation += 1
    then = scene.rebalance(joined=overtaken)
    assert carries_out(then)
    assert np.array_equal(then.plan.owner, scene.planned.plan.owner)


def test_where_members_racks_partitions_or_orders_have_changed_the_policy_plans() -> None:
    grown = Scene()
    assert not carries_out(grown.rebalance(cluster_of({"t": 8, "u": 5})))
    joined = Scene()
    assert not carries_out(joined.rebalance(joined=[*joined.members, LiveMember("d", TOPICS)]))
    left = Scene()
    assert not carries_out(left.rebalance(joined=left.members[1:]))
    racked = Scene()
    assert not carries_out(racked.rebalance(joined=[replace(racked.members[0], rack="x"), *racked.members[1:]]))
    subscribed = Scene()
    fewer = replace(subscribed.members[0], topics=("t",))
    assert not carries_out(subscribed.rebalance(joined=[fewer, *subscribed.members[1:]]))
    ordered = Scene()
    ordered.policy = ordered.policy.with_rules((Rule("ban", "t", "member:a", "by an order"),))
    assert not carries_out(ordered.rebalance())


def test_an_order_that_is_in_force_is_carried_out_and_reported_in_the_follow_up_too() -> None:
    rules = (Rule("ban", "t", "member:a", "by an order"),)
    scene = Scene(BY_TOPIC.with_rules(rules))
    then = scene.rebalance()
    assert carries_out(then)
    assert [report.orders for report in then.stages] == ["", "by an order"]


def test_if_another_leader_has_planned_meanwhile_its_plan_counts() -> None:
    """A member led generation 3. Of what was promised to c, one partition is now with the member that did not have it
    before either."""
    scene = Scene()
    flat = int(np.flatnonzero(scene.planned.plan.pending)[0])
    had = int(scene.planned.plan.before[flat])
    got = 1 - had
    now = [replace(m, generation=m.generation + 1) for m in scene.members]
    now[got] = replace(now[got], owned=(*now[got].owned, CLUSTER.name(flat)))
    scene.generation += 1
    then = scene.rebalance(joined=now)
    assert not carries_out(then)
    assert then.plan.before[flat] == then.plan.group.current[flat] == got


def test_the_owner_before_is_the_present_one_and_not_the_promised_one() -> None:
    """Reports, events and pauses of a partition begin where nobody has it."""
    scene = Scene()
    waiting = scene.planned.plan.pending
    then = scene.rebalance()
    assert (then.plan.before[waiting] == -1).all()
    assert (then.plan.group.current[waiting] == then.plan.owner[waiting]).all()


def test_a_member_that_does_not_release_is_named_when_two_plans_have_asked_it_in_vain() -> None:
    scene = Scene()
    taken = [
        CLUSTER.name(int(f)) for f in np.flatnonzero(scene.planned.plan.pending & (scene.planned.plan.before == 0))
    ]
    named, pending = [], []
    for _ in range(3):
        refusing = replace(scene.members[0], owned=tuple({*scene.members[0].owned, *taken}))
        decision = scene.rebalance(joined=[refusing, *scene.members[1:]])
        named.append([warning for warning in decision.warnings if UNRELEASED in warning])
        pending.append(int(decision.plan.pending.sum()))
    assert named == [[], [f"{UNRELEASED}: member a"], []]
    assert pending == [len(taken), len(taken), 0]
