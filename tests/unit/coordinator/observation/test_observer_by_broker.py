"""Shadow plans of groups that their broker assigns, by its own assignor or by Bellwether's plans."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import EVERYTHING, ClusterView, GroupView, IntArray, Rule, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.kafka.client import Counts
from bellwether_kafka.coordinator.kafka.client.metadata import distinct_placements
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember, BrokerSubtopology
from bellwether_kafka.coordinator.membership import DescribeAnswer, MembershipConfig
from bellwether_kafka.coordinator.observation import GroupObserver
from bellwether_kafka.coordinator.observation import observer as observing
from bellwether_kafka.coordinator.observation.log_bounds import LogBytes
from bellwether_kafka.coordinator.planning import load_application
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import App
from tests.kit.observed import Shared, SharedApplication, of_fleet, refreshed

A, B, C = (f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2, 3))
MEMBER = BrokerMember("a", "a", "az1", "a", "/h", ("t",), (("t", (0,)),))


class ByBroker(SharedApplication):
    """An application that its broker assigns: two processes, each with two tasks and the standbys of
    the other's."""

    def __init__(self) -> None:
        super().__init__()
        self.grow(4)
        part = BrokerSubtopology("0", ("orders",), (), ("shop-store-changelog",))
        member = BrokerMember(
            "a", None, "az1", "c", "/h", ("orders",), (("0", (0, 1)),), (("0", (2, 3)),), process_id=A
        )
        other = replace(member, member_id="b", assigned=member.standby, standby=member.assigned, process_id=B)
        self.by_broker = BrokerGroup("g", "streams", 0, state="Stable", members=(member, other), subtopologies=(part,))

    async def describe_group(self, group: str) -> DescribeAnswer:
        return await Shared.describe_group(self, group)

    def grow(self, partitions: int) -> None:
        self.cache.see_brokers({1: "az1", 2: "az2"})
        for topic in ("orders", "shop-store-changelog"):
            self.cache.see_topic(topic, 0.0, *distinct_placements([(1, (1, 2))] * partitions))


def test_the_number_of_standbys_of_an_application_that_its_broker_assigns_is_not_taken_from_the_configuration() -> None:
    """It is a setting of the broker. Without a plan its topology was unknown, and racks were not used."""
    shared = ByBroker()
    observer = GroupObserver(
        MembershipConfig("g"),
        cast("Any", SimpleNamespace(transport=shared, reader=shared, offsets=shared, shared=shared, groups=shared)),
        Policy(),
        load_application(App(num_standby_replicas=0).kind.config),
    )
    seen = refreshed(observer)
    assert seen.trouble == ""
    assert seen.shadow is not None
    plan = seen.shadow.decision.plan
    assert isinstance(plan, TaskPlan)
    assert (plan.topology.source_topics, len(plan.target.standby_task)) == (("orders",), 4)


def test_an_application_that_its_broker_assigns_is_planned_while_its_standbys_move() -> None:
    """A process that leaves and one that comes both have a copy for a while. An order could not be followed then:
    'num.standby.replicas is 1 here, but the present plan keeps 1 standbys of most tasks'."""
    shared = ByBroker()
    shared.grow(8)
    assert shared.by_broker is not None
    first, second = shared.by_broker.members
    low, high = (("0", (0, 1, 2, 3)),), (("0", (4, 5, 6, 7)),)
    members = (
        replace(first, assigned=low, standby=high),
        replace(second, assigned=high, standby=low),
        replace(first, member_id="c", assigned=(), standby=(("0", (0, 1, 2)),), process_id=C),
    )
    shared.by_broker = replace(shared.by_broker, members=members)
    seen = refreshed(of_fleet(shared))
    assert seen.trouble == ""
    assert seen.shadow is not None


EMPTY_B = Rule("ban", EVERYTHING, f"member:{B}", "eve has ordered it")


@pytest.mark.parametrize(("assignor", "policy", "left"), [("bellwether", "streams-ha", 0), ("sticky", "kafka", 2)])
def test_an_application_is_planned_as_the_plans_are_that_its_broker_gets(assignor: str, policy: str, left: int) -> None:
    """The page wanted to undo an evacuation, and `plan` showed the policy of a classic application."""
    shared = ByBroker()
    assert shared.by_broker is not None
    shared.by_broker = replace(shared.by_broker, assignor=assignor)
    observer = of_fleet(shared, (EMPTY_B,))
    shadow = refreshed(observer).shadow
    assert shadow is not None
    plan = shadow.decision.plan
    assert isinstance(plan, TaskPlan)
    assert (shadow.decision.policy, len(plan.against((EMPTY_B,), plan.owner))) == (policy, left)
    assert not plan.target.warmup.any(), "these are the broker's"


def test_a_group_is_planned_by_the_policy_in_the_name_of_its_assignor_and_by_its_orders() -> None:
    shared, rules = Shared(), [(), (Rule("ban", EVERYTHING, "member:b", "eve has ordered it"),)]
    members = tuple(BrokerMember(name, name, "az1", name, "/h", ("t",), (("t", (n,)),)) for n, name in enumerate("ab"))
    shared.by_broker = BrokerGroup(
        "g", "consumer", 0, state="Stable", assignor="bellwether-rack-first", members=members
    )
    observer = of_fleet(shared, ())
    observer._rules_of = lambda _: rules[0]
    before = refreshed(observer).shadow
    rules.pop(0)
    after = refreshed(observer).shadow
    assert before is not None
    assert after is not None
    assert (before.decision.policy, before.moves.moved, after.moves.moved) == ("rack-first", 0, 1)


class OfTheConfiguredPolicy:
    """In place of the process in which plans of the configured policy are made."""

    always = True

    def wants(self, *_size: int) -> bool:
        return True

    async def solve(self, *_: object) -> NoReturn:
        raise AssertionError("the process has the configured policy, and the broker gets plans by another")


def test_a_plan_for_a_broker_is_not_made_where_the_configured_policy_is() -> None:
    """A group that was led, with a plug-in as policy, converted to the protocol in which its broker assigns."""
    shared = Shared()
    members = tuple(BrokerMember(name, name, "az1", name, "/h", ("t",), (("t", (n,)),)) for n, name in enumerate("ab"))
    shared.by_broker = BrokerGroup(
        "g", "consumer", 0, state="Stable", assignor="bellwether-rack-first", members=members
    )
    observer = of_fleet(shared, ())
    observer._solver = cast("Any", OfTheConfiguredPolicy())
    shadow = refreshed(observer).shadow
    assert shadow is not None
    assert shadow.decision.policy == "rack-first"


def test_a_command_plans_an_application_that_is_not_configured_by_its_orders() -> None:
    """`plan` would have given an evacuated process its tasks back."""
    shared = ByBroker()
    assert shared.by_broker is not None
    shared.by_broker = replace(shared.by_broker, assignor="bellwether")
    shadow = refreshed(of_fleet(shared, policy=Policy().with_rules((EMPTY_B,)))).shadow
    assert shadow is not None
    assert not len(shadow.decision.plan.against((EMPTY_B,), shadow.decision.plan.owner))


@pytest.mark.parametrize(
    ("assignor", "configured", "read"),
    [
        ("bellwether-load-aware", "kafka", True),
        ("bellwether", "load-aware", True),
        ("bellwether-rack-first", "load-aware", False),
        ("bellwether", "kafka", False),
    ],
)
def test_sizes_of_logs_are_read_for_a_group_that_is_planned_by_load(
    assignor: str, configured: str, read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of which only the assignor's name says so had weights without bytes."""
    shared, asked = Shared(), list[Counts]()

    async def log_sizes(_transport: object, _admin: object, counts: Counts) -> LogBytes:
        asked.append(counts)
        return {}

    shared.by_broker = BrokerGroup(
        "g", "consumer", 0, state="Stable", assignor=assignor, members=(MEMBER, replace(MEMBER, member_id="b"))
    )
    monkeypatch.setattr(observing, "read_logs", log_sizes)
    refreshed(of_fleet(shared, policy=Policy(configured)))
    assert bool(asked) is read


@pytest.mark.parametrize("by_load", [True, False])
def test_a_command_reads_the_topic_of_weights_for_a_plan_that_depends_on_them(by_load: bool) -> None:
    """Its plan was made by the offsets of one refresh, which are no weights, and so by counts."""
    reads = []
    policy, assignor = ("load-aware", "bellwether-load-aware") if by_load else ("kafka", "bellwether")

    async def read() -> Weights:
        reads.append(1)
        return Weights({TopicPartition("t", p): 1.0 + 8.0 * (p < 2) for p in range(4)}, source="the topic w")

    shared = Shared()
    shared.grow(4)
    members = (
        replace(MEMBER, assigned=(("t", (0, 1)),)),
        replace(MEMBER, member_id="b", instance_id="b", assigned=(("t", (2, 3)),)),
    )
    shared.by_broker = BrokerGroup("g", "consumer", 0, state="Stable", assignor=assignor, members=members)
    sources: Any = SimpleNamespace(transport=shared, reader=shared, offsets=shared, shared=None, groups=shared)
    observer = GroupObserver(MembershipConfig("g"), sources, Policy("kafka"), read_weights=read)
    shadow = refreshed(observer).shadow
    assert shadow is not None
    basis = shadow.decision.stages[0].basis
    assert (shadow.decision.policy, len(reads), basis) == (policy, *((1, "the topic w") if by_load else (0, "")))
    moved = [flat for flat, owner in enumerate(shadow.decision.plan.owner.tolist()) if owner != shadow.present[flat]]
    assert moved == ([0, 2] if by_load else []), "one heavy and one light partition for each"


class ByHand:
    """A plug-in."""

    name, cooperative = "by-hand", False

    def assign(self, _group: GroupView, cluster: ClusterView) -> IntArray:
        return np.zeros(cluster.partition_total, dtype=np.int32)


@pytest.mark.parametrize(
    ("assignor", "why"),
    [
        ("bellwether", "policy by-hand is a plug-in, which does not run for brokers"),
        ("bellwether-nonsense", "Bellwether has no policy named 'bellwether-nonsense'"),
        ("bellwether-rack-first", ""),
        ("uniform", ""),
    ],
)
def test_where_a_broker_is_refused_a_plan_its_reason_is_shown_and_what_happens_instead(assignor: str, why: str) -> None:
    """`plan` showed what the plug-in would do, which no broker got."""
    shared = Shared()
    shared.by_broker = BrokerGroup("g", "consumer", 0, state="Stable", assignor=assignor, members=(MEMBER,))
    seen = refreshed(of_fleet(shared, policy=Policy("by-hand", {"by-hand": ByHand()})))
    assert (seen.shadow is None) == bool(why)
    assert why in seen.trouble
    assert ("members keep what they have" in seen.no_plan) == bool(why)
