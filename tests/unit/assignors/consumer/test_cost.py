"""Scores on plans small enough to count by hand."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import cost
from bellwether_kafka.assignors.consumer.cost import Score, score, topic_spread
from bellwether_kafka.assignors.shared.model import ClusterView, GroupView, MemberView
from bellwether_kafka.assignors.shared.moves import Moves, moves
from tests.unit.assignors.consumer.scenes import cluster_of, members_of, racked


def test_racks_are_counted_against_replicas_and_leaders() -> None:
    cluster = ClusterView.of({"t": [["a", "b"], ["b", "a"], ["b"], [None], ["a"]]})
    group = GroupView.of(cluster, members_of([["t"]] * 3, ["a", "elsewhere", None]))
    found = score(group, cluster, np.array([0, 0, 0, 1, 2], dtype=np.int32))
    # t-2 crosses; t-3 has no known rack; t-4 belongs to a member without a rack; the leaders of t-1 and t-2 are in b.
    assert (found.cross_rack, found.cross_leader_rack, found.rackless) == (1, 2, 1)
    assert score(group, cluster, np.array([1, 1, 1, 1, 1], dtype=np.int32)).cross_rack == 4


def test_imbalance_is_counted_inside_connected_components() -> None:
    cluster = cluster_of({"t": 4, "u": 1, "unwanted": 3})
    group = GroupView.of(cluster, members_of([["t"], ["t"], ["u"]]))
    found = score(group, cluster, np.array([0, 0, 0, 1, 2, -1, -1, -1], dtype=np.int32))
    assert found == Score(5, 0, 0, 0, 5, 2, pytest.approx((2 / 3) ** 0.5), 2)


def test_what_nobody_owns_counts_only_if_somebody_subscribes() -> None:
    cluster = cluster_of({"t": 2, "unwanted": 3})
    group = GroupView.of(cluster, members_of([["t"]]))
    found = score(group, cluster, np.array([0, -1, -1, -1, -1], dtype=np.int32))
    assert (found.owned, found.unowned) == (1, 1)


@pytest.mark.parametrize(("owner", "expected"), [((0, 1, 0, 1), 0), ((0, 0, 1, 1), 2), ((0, 1, 1, 1), 2)])
def test_topic_spread_is_the_worst_topic(owner: tuple[int, ...], expected: int) -> None:
    cluster = cluster_of({"t": 2, "u": 2})
    group = GroupView.of(cluster, members_of([["t", "u"]] * 2))
    assert topic_spread(group, cluster, np.array(owner, dtype=np.int32)) == expected


def test_moves_by_kind() -> None:
    before = np.array([0, 0, -1, 1, -1, 1], dtype=np.int32)
    after = np.array([0, 1, 1, -1, -1, 0], dtype=np.int32)
    assert moves(before, after) == Moves(kept=1, moved=2, new=1, lost=1)


def test_nothing_costs_nothing() -> None:
    cluster = cluster_of({})
    assert score(GroupView.of(cluster, []), cluster, np.zeros(0, dtype=np.int32)) == Score(0, 0, 0, 0, 0, 0, 0.0, 0)
    unwanted = cluster_of({"t": 2})
    idle = GroupView.of(unwanted, [MemberView("a")])
    assert score(idle, unwanted, np.array([-1, -1], dtype=np.int32)) == Score(0, 0, 0, 0, 0, 0, 0.0, 0)


def test_the_spread_of_a_topic_is_the_same_where_no_table_holds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    group, cluster = racked()
    owner = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 0, 2, 3, 3, 3, 3], dtype=np.int32)
    short = topic_spread(group, cluster, owner)
    monkeypatch.setattr(cost, "_TABLE_CELLS", 0)
    assert topic_spread(group, cluster, owner) == short == 3
