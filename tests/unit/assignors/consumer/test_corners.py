"""Rare turns of placing and judging: bounds on work that are reached, tables too large for the short way, groups of
nothing. Each is compared with the ordinary way where there is one."""

from importlib import import_module

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import cost, locality, whatif
from bellwether_kafka.assignors.consumer.cost import score, topic_spread
from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.derived.racks import rack_matters
from bellwether_kafka.assignors.consumer.load_aware import Load, LoadAware
from bellwether_kafka.assignors.consumer.range import RangeAssignor
from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.assignors.consumer.sticky import general
from bellwether_kafka.assignors.consumer.sticky.assignor import place
from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts, level_rows
from bellwether_kafka.assignors.consumer.whatif import changed, rounds
from bellwether_kafka.assignors.shared import flow, load_balance, numbering
from bellwether_kafka.assignors.shared.change import Change, WhatIfError
from bellwether_kafka.assignors.shared.group import RawGroup, RawMember
from bellwether_kafka.assignors.shared.load_balance import Rules
from bellwether_kafka.assignors.shared.memory import Memory
from bellwether_kafka.assignors.shared.model import NOBODY, ClusterView, GroupView, MemberView
from bellwether_kafka.assignors.shared.refusal import Refusal, RefusalCause
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.unit.assignors.consumer.scenes import cluster_of, members_of, plan_of, rack_mismatches

RACKS = ("a", "b", "c")


def racked() -> tuple[GroupView, ClusterView]:
    """Two lists of topics over three racks, one replica each."""
    cluster = cluster_of({"t": 9, "u": 6}, racks=RACKS)
    return GroupView.of(cluster, members_of([["t", "u"], ["t"], ["t", "u"], ["u"]], ["a", "b", "c", "b"])), cluster


# ---- placing --------------------------------------------------------------------------------------------------------


def test_too_many_kinds_for_racks_are_placed_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    group, cluster = racked()
    near = rack_mismatches(group, cluster, place(group, cluster))
    monkeypatch.setattr(general, "CELLS", 0)
    plain = place(group, cluster)
    assert score(group, cluster, plain).spread <= 1
    assert rack_mismatches(group, cluster, plain) > near


def test_a_search_for_better_racks_that_is_cut_short_leaves_a_plan_with_the_same_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, cluster = racked()
    owner = np.array([1, 2, 0] * 3 + [2, 3, 0] * 2, dtype=np.int32)
    before = np.full(15, NOBODY, dtype=np.int32)
    full = locality.improve(group, cluster, owner, before)
    monkeypatch.setattr(locality, "MAX_ROUNDS", 1)
    cut = locality.improve(group, cluster, owner, before)
    for improved in (full, cut):
        assert np.bincount(improved).tolist() == np.bincount(owner).tolist()
    crossing = [rack_mismatches(group, cluster, plan) for plan in (full, cut, owner)]
    assert crossing == sorted(crossing)
    assert crossing[0] < crossing[1]


def test_levelling_in_passes_stops_at_the_last_one() -> None:
    held = np.array([[9, 0, 0]], dtype=np.int64)
    ones = np.ones(3, dtype=np.int64)
    counts = ClassCounts(held, np.ones((1, 3), dtype=np.bool_), held.copy(), ones, np.array([9]), held.sum(axis=0))
    level_rows(counts, 0)
    assert counts.held.tolist() == [[9, 0, 0]]


def test_racks_of_no_partitions_do_not_matter() -> None:
    _, cluster = racked()
    assert not rack_matters(cluster, np.array([0, 1], dtype=np.int32), np.zeros(0, dtype=np.int64))


def test_range_gives_members_without_racks_their_share_beside_those_with() -> None:
    cluster = cluster_of({"t": 3, "u": 4, "v": 4}, racks=RACKS)
    group = GroupView.of(cluster, members_of([["t"], ["t"], ["u", "v"], ["u", "v"]], ["a", "b", None, None]))
    plan = plan_of(group, cluster, RangeAssignor().assign(group, cluster))
    assert plan["consumer3"] == "u-0 u-1 v-0 v-1"
    assert plan["consumer4"] == "u-2 u-3 v-2 v-3"


# ---- judging --------------------------------------------------------------------------------------------------------


def test_the_spread_of_a_topic_is_the_same_where_no_table_holds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    group, cluster = racked()
    owner = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 0, 2, 3, 3, 3, 3], dtype=np.int32)
    short = topic_spread(group, cluster, owner)
    monkeypatch.setattr(cost, "_TABLE_CELLS", 0)
    assert topic_spread(group, cluster, owner) == short == 3


def test_members_can_be_sliced() -> None:
    group, _ = racked()
    assert group.members[1:3] == (group.members[1], group.members[2])
    assert isinstance(group.members[1], MemberView)


def test_no_plan_that_is_valid_is_an_error_with_the_group_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        import_module("bellwether_kafka.assignors.consumer.decide"), "_findings", lambda *_: ("t-0 is nobody's",)
    )
    blob = ConsumerProtocolSubscription(version=3, topics=("t",)).encode()
    raw = RawGroup("orders", 1, "range", (RawMember("m", None, blob),), frozenset())
    refused = decide(raw, cluster_of({"t": 2}), Memory.empty(), Policy("kafka"), 0)
    assert refused == Refusal(RefusalCause.PLAN, "no valid plan for group orders: t-0 is nobody's")


# ---- flows ----------------------------------------------------------------------------------------------------------


def test_codes_too_many_for_a_table_are_numbered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.array([7, 3, 7, 9, 3, 0], dtype=np.int64)
    short = numbering.numbered(codes, 10)
    monkeypatch.setattr(numbering, "_DIRECT", 0)
    for one, other in zip(short, numbering.numbered(codes, 10), strict=True):
        assert one.tolist() == other.tolist()


def test_large_codes_are_sorted_in_steps() -> None:
    codes = np.random.default_rng(5).integers(0, 1 << 40, 2_000)
    codes[::3] = codes[0]
    assert flow._stable_order(codes, 1 << 40).tolist() == np.argsort(codes, kind="stable").tolist()


# ---- load -----------------------------------------------------------------------------------------------------------


def test_what_weighs_nothing_is_balanced() -> None:
    cluster = ClusterView.of({"t": [[None]] * 4, "empty": []})
    group = GroupView.of(cluster, members_of([["t"], ["t"], ["empty"]]))
    weights = Weights({TopicPartition("t", p): 1.0 for p in range(4)} | {TopicPartition("gone", 0): 5.0})
    policy = LoadAware(weights)
    load = Load.of(group, cluster, policy.weights, policy.capacity, policy.rules)
    owner = np.array([0, 0, 1, 1], dtype=np.int32)
    assert load.imbalance(np.full(4, NOBODY, dtype=np.int32)) == 1.0
    assert load.balanced(owner).tolist() == owner.tolist()


def test_evening_out_that_is_cut_short_has_moved_something_in_the_right_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ClusterView.of({"t": [[None]] * 30})
    held = np.zeros(30, dtype=np.int32)
    group = GroupView.of(cluster, members_of([["t"]] * 3), remembered=held, remembered_generation=0)
    policy = LoadAware(Weights({TopicPartition("t", p): 100.0 for p in range(30)}), rules=Rules(moves_max=30))
    load = Load.of(group, cluster, policy.weights, policy.capacity, policy.rules)
    monkeypatch.setattr(load_balance, "_ATTEMPTS_MAX", 1)
    cut = load.balanced(held)
    assert 1.0 < load.imbalance(cut) < load.imbalance(held)


# ---- what if --------------------------------------------------------------------------------------------------------


def unreadable(*readable: str) -> RawGroup:
    """Members that can be read, after one that cannot and our own."""
    blobs = [(name, ConsumerProtocolSubscription(version=1, topics=("t",)).encode()) for name in readable]
    members = [("odd", b"\0"), ("us", blobs[0][1] if blobs else b""), *blobs]
    return RawGroup("g", 1, "cooperative-sticky", tuple(RawMember(n, None, b) for n, b in members), frozenset({"us"}))


def test_a_member_that_cannot_be_read_is_neither_a_model_nor_in_a_rack() -> None:
    cluster = cluster_of({"t": 6})
    raw, _ = changed(unreadable("m"), cluster, Change(new_members=("az1",)))
    assert [member.member_id for member in raw.members] == ["odd", "us", "m", "new-1"]
    raw, _ = changed(raw, cluster, Change(without_racks=("az1",)))
    assert [member.member_id for member in raw.members] == ["odd", "us", "m"]
    last = rounds(raw, cluster, Memory.empty(), Policy("kafka"), 0)[-1]
    assert {last.plan.group.members[m].member_id for m in last.plan.owner} == {"m"}


def test_without_anybody_to_read_no_member_can_be_made() -> None:
    with pytest.raises(WhatIfError, match="No member's subscription can be read"):
        changed(unreadable(), cluster_of({"t": 6}), Change(new_members=("az1",)))


def test_rounds_that_would_not_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "ROUNDS_MAX", 1)
    raw = unreadable("m", "n")
    assert len(rounds(raw, cluster_of({"t": 6}), Memory.empty(), Policy("kafka"), 0)) == 1
