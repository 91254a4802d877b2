"""The views that assignors read, built from plain values."""

import numpy as np

from bellwether_kafka.assignors.shared import FOREIGN_RACK, NO_RACK, ClusterView, GroupView, Members, MemberView, Plan
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import claimed_by

CLUSTER = ClusterView.of(
    {"b": [["r2", "r1"], [None, "r1"], ["r1", "r2"]], "a": [["r3"], []], "c": []},
    read_at=2.5,
    unreadable=frozenset("z"),
)


def test_partitions_are_numbered_by_topic_name_and_number() -> None:
    assert CLUSTER.topics == ("a", "b", "c")
    assert (CLUSTER.partition_total, CLUSTER.first.tolist(), CLUSTER.counts.tolist()) == (5, [0, 2, 5, 5], [2, 3, 0])
    assert CLUSTER.topic_of().tolist() == [0, 0, 1, 1, 1]
    assert [CLUSTER.flat(*CLUSTER.name(flat)) for flat in range(5)] == [0, 1, 2, 3, 4]
    assert CLUSTER.name(4) == TopicPartition("b", 2)
    for unknown in (("a", 2), ("a", -1), ("c", 0), ("d", 0)):
        assert CLUSTER.flat(*unknown) is None


def test_what_is_written_as_topic_and_number_is_a_topic_of_that_name_or_only_a_partition() -> None:
    cluster = ClusterView.of({"t": [[], []], "t-1": [[]], "t-7": [[]]})
    flats = {"t": [0, 1], "t-0": [0], "t-1": [2], "t-1-0": [2], "t-2": [], "u": []}
    assert {item: cluster.flats_of(item).tolist() for item in flats} == flats
    assert [cluster.flat_of(item) for item in ("t-0", "t-1", "t-1-0")] == [0, 1, 2]
    assert [cluster.flat_of(item) for item in ("t", "t-2", "t-7", "t-x", "t--1", "u-0", "")] == [None] * 7


def test_replica_racks_are_sets_and_the_leader_is_the_first() -> None:
    racks = [{CLUSTER.racks[r] for r in np.flatnonzero(CLUSTER.signature_racks[s])} for s in CLUSTER.signature]
    assert racks == [{"r3"}, set(), {"r1", "r2"}, {"r1"}, {"r1", "r2"}]
    assert CLUSTER.signature[2] == CLUSTER.signature[4]
    assert CLUSTER.leader_rack.tolist() == [2, NO_RACK, 1, NO_RACK, 0]
    assert (CLUSTER.read_at, CLUSTER.unreadable) == (2.5, frozenset("z"))
    assert [CLUSTER.rack_code(rack) for rack in ("r1", "r3", None, "", "r9")] == [0, 2, NO_RACK, NO_RACK, FOREIGN_RACK]


def test_an_empty_cluster_has_one_empty_set_of_racks() -> None:
    empty = ClusterView.of({})
    assert (empty.partition_total, empty.signature_racks.shape) == (0, (1, 0))


def test_for_members_that_fetch_from_leaders_only_the_leaders_rack_is_local() -> None:
    view = CLUSTER.with_leaders()
    racks = [{r for r in range(6) if view.signature_racks[s, r]} for s in view.signature]
    assert view.column_racks == ("r1", "r2", "r3", "r1", "r2", "r3")
    assert racks == [{2, 5}, set(), {0, 1, 4}, {0, 3}, {0, 1, 3}], "a leader without a known rack: all replicas count"
    assert [view.rack_code("r2", leader_only=alone) for alone in (False, True)] == [1, 4]
    assert view.rack_code("r9", leader_only=True) == FOREIGN_RACK
    assert view.with_leaders() is view
    assert view.replica_racks[view.signature].tolist() == CLUSTER.signature_racks[CLUSTER.signature].tolist()


def test_a_cluster_without_partitions_has_columns_for_leaders() -> None:
    assert ClusterView.of({"t": []}).with_leaders().signature_racks.shape == (1, 0)


def test_members_are_what_they_were_made_from() -> None:
    views = [MemberView("m2", "i1", ("a",), "r1", 4), MemberView("m1", None, (), None, -1, "broken")]
    members = Members.of(views)
    assert list(members) == views
    assert (members[1], members[-2], members[0:2], len(members)) == (views[1], views[0], tuple(views), 2)
    assert members.keys == ["i1", "m1"]
    assert members.by_id.tolist() == [1, 0]
    assert Members.of(members) is members
    assert Members.of(views[1:]).keys == ["m1"]
    assert (len(Members.of([])), Members.of([]).keys) == (0, [])
    assert [view.order for view in views] == [(False, "i1"), (True, "m1")]


def test_claims_are_sorted_and_those_of_nothing_known_are_left_out() -> None:
    group = GroupView.of(
        CLUSTER,
        [MemberView("m", None, ("b", "a", "zz"), "r2", 3), MemberView("n"), MemberView("o", None, ("a", "b"), "r9")],
        [[("b", 2), ("a", 1), ("b", 3), ("zz", 0), ("a", 1)], [], [TopicPartition("a", 0)]],
        remembered_generation=2,
    )
    assert [claimed_by(group, m).tolist() for m in range(3)] == [[1, 4], [], [0]]
    assert [topics.tolist() for topics in group.topic_sets] == [[0, 1], []]
    assert group.topic_set.tolist() == [0, 1, 0]
    assert group.sets_in_use.tolist() == [0, 1]
    assert group.rack.tolist() == [1, NO_RACK, FOREIGN_RACK]
    assert group.claim_generation.tolist() == [3, -1, -1]
    assert group.remembered.tolist() == [-1] * 5
    assert not group.wants_all(3)
    assert (group.size, group.by_id.tolist(), group.remembered_generation) == (3, [0, 1, 2], 2)


def test_whether_everybody_wants_everything() -> None:
    all_of_it = MemberView("m", None, ("a", "b", "c"))
    assert GroupView.of(CLUSTER, [all_of_it, all_of_it._replace(member_id="n")]).wants_all(3)
    assert not GroupView.of(CLUSTER, [MemberView("m", None, ("a", "b"))]).wants_all(3)
    assert not GroupView.of(CLUSTER, [all_of_it, MemberView("n", None, ("a",))]).wants_all(3)


def test_what_is_pending_is_not_sent() -> None:
    plan = Plan(np.array([0, 1, 2], dtype=np.int32), np.array([False, True, False]))
    assert plan.sent.tolist() == [0, -1, 2]
    assert Plan.of(plan.owner).sent.tolist() == [0, 1, 2]
