"""Bytes and money between racks: who serves whom, with and without follower fetching, for consumers and for tasks."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.explain import Traffic, cost_per_hour, flows, traffic_of
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Memory, Weights
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, live_group
from tests.kit.streams import Thread, group, led

# Leaders in az1, az2, az3 and az1 again; the second replica one rack further; the last has a rack that nobody knows.
CLUSTER = ClusterView.of({"t": [["az1", "az2"], ["az2", "az3"], ["az3", "az1"], ["az1", "az2"], [None]]})
WEIGHTS = Weights({TopicPartition("t", p): 10.0**p for p in range(5)})


def of(owner: list[int], racks: list[str | None], *, near: bool = False) -> Traffic:
    return flows(CLUSTER, np.array(owner, dtype=np.int32), racks, WEIGHTS, near)


def test_leaders_serve_unless_followers_may() -> None:
    by_leaders = of([0, 0, 0, 1, 1], ["az1", "az2"])
    assert by_leaders.between == {("az2", "az1"): 10.0, ("az3", "az1"): 100.0, ("az1", "az2"): 1000.0}
    assert by_leaders.crossing == 1110.0
    assert by_leaders.partitions == dict.fromkeys(by_leaders.between, 1)
    assert by_leaders.total == 11_111.0
    by_replicas = of([0, 0, 0, 1, 1], ["az1", "az2"], near=True)
    assert by_replicas.between == {("az2", "az1"): 10.0}, "all others have a replica in the rack of their reader"


def test_a_reader_with_a_configured_rack_fetches_from_leaders_whatever_brokers_allow() -> None:
    owner = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    traffic = flows(CLUSTER, owner, ["az1", "az2"], WEIGHTS, True, leader_only=[True, False])
    assert traffic.between == {("az2", "az1"): 10.0, ("az3", "az1"): 100.0}


def test_what_nobody_knows_costs_nothing() -> None:
    assert of([0, 0, 0, 0, NOBODY], [None]).between == {}
    assert (of([0, 1, NOBODY, NOBODY, 0], ["az1", "az2"]).owned, of([NOBODY] * 5, []).total) == (3, 0.0)
    unweighed = flows(CLUSTER, np.zeros(5, dtype=np.int32), ["az2"], Weights({TopicPartition("t", 0): 5.0}), False)
    assert (unweighed.weighed, unweighed.owned, unweighed.crossing) == (1, 5, 5.0)


def test_a_reader_in_a_rack_without_brokers_is_served_from_elsewhere() -> None:
    assert of([0, NOBODY, NOBODY, NOBODY, NOBODY], ["moon"], near=True).between == {("az1", "moon"): 1.0}


def test_money_is_by_gigabytes_and_hours() -> None:
    assert cost_per_hour(1e6, 0.02) == pytest.approx(0.072)


def test_of_decisions_what_is_and_what_would_be() -> None:
    cluster = ClusterView.of({"t": [["az1"], ["az1"], ["az2"], ["az2"]]})
    weights = Weights({TopicPartition("t", p): 1.0 for p in range(4)})
    members = [LiveMember("a", ("t",), "az2"), LiveMember("b", ("t",), "az1")]
    decision = decide(live_group(members, 1, "range"), cluster, Memory.empty(), Policy("sticky-min-churn"), 0)
    raw = live_group([m.after(decision) for m in members], 2, "range")
    better = decide(raw, cluster, decision.plan.memory, Policy("rack-first"), 0)
    assert traffic_of(better, weights, follower_fetching=False).between == {}
    present = traffic_of(better, weights, follower_fetching=False, present=True)
    assert present.crossing == traffic_of(decision, weights, follower_fetching=False).crossing > 0


def test_of_an_application_by_the_sources_of_its_tasks() -> None:
    topics = ("orders", "shop-by-user-repartition", "shop-totals-changelog")
    cluster = ClusterView.of({topic: [["az1"]] * 4 for topic in topics})
    weights = Weights({TopicPartition("orders", p): 1.0 for p in range(4)})
    decision = led(group(Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2")), cluster=cluster)
    traffic = traffic_of(decision, weights, follower_fetching=False)
    elsewhere = sum(decision.plan.target.active[t] == 1 for t in range(4))
    assert traffic.between == {("az1", "az2"): float(elsewhere)}
    assert (traffic.weighed, traffic.owned) == (4, 8)
