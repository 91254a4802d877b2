"""Scores on plans small enough to count by hand."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import score
from bellwether_kafka.assignors.consumer.plan_cost import imbalance
from bellwether_kafka.assignors.shared import ClusterView, Cost, GroupView, MemberView, Moves, moves
from tests.kit.consumers import cluster_of, members_of


def test_racks_are_counted_against_replicas() -> None:
    cluster = ClusterView.of({"t": [["a", "b"], ["b", "a"], ["b"], [None], ["a"]]})
    group = GroupView.of(cluster, members_of([["t"]] * 3, ["a", "elsewhere", None]))
    cost = score(group, cluster, np.array([0, 0, 0, 1, 2], dtype=np.int32))
    # t-2 crosses; t-3 has no known rack; t-4 belongs to a member without a rack.
    assert cost.cross_rack == 1
    assert score(group, cluster, np.array([1, 1, 1, 1, 1], dtype=np.int32)).cross_rack == 4


def test_imbalance_is_counted_inside_connected_components() -> None:
    cluster = cluster_of({"t": 4, "u": 1, "unwanted": 3})
    group = GroupView.of(cluster, members_of([["t"], ["t"], ["u"]]))
    owner = np.array([0, 0, 0, 1, 2, -1, -1, -1], dtype=np.int32)
    assert score(group, cluster, owner) == Cost(unowned=0, cross_rack=0, spread=2)
    assert imbalance(group, cluster, owner) == (2, pytest.approx((2 / 3) ** 0.5))


def test_what_nobody_owns_counts_only_if_a_member_subscribes() -> None:
    cluster = cluster_of({"t": 2, "unwanted": 3})
    group = GroupView.of(cluster, members_of([["t"]]))
    cost = score(group, cluster, np.array([0, -1, -1, -1, -1], dtype=np.int32))
    assert cost.unowned == 1


def test_moves_by_kind() -> None:
    before = np.array([0, 0, -1, 1, -1, 1], dtype=np.int32)
    after = np.array([0, 1, 1, -1, -1, 0], dtype=np.int32)
    assert moves(before, after) == Moves(kept=1, moved=2, new=1, lost=1)


def test_nothing_costs_nothing() -> None:
    cluster = cluster_of({})
    assert score(GroupView.of(cluster, []), cluster, np.zeros(0, dtype=np.int32)) == Cost(0, 0, 0)
    unwanted = cluster_of({"t": 2})
    idle = GroupView.of(unwanted, [MemberView("a")])
    assert score(idle, unwanted, np.array([-1, -1], dtype=np.int32)) == Cost(0, 0, 0)
